"""What the parts of a recipe add: of one recipe, or of several side by side, from their records."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from redunet.report.blocks import Block, Table, Text
from redunet.report.words import readout_name
from redunet_lab.report.numbers import UNKNOWN, Record, Spread, shown
from redunet_lab.report.text import markdown_table

_NAMED = 2
"""Kinds of features that stand side by side are named each time, where they are no more than so."""


def ingredients(record: Record) -> list[Block]:
    """Accuracy after the last task with each ingredient of a recipe alone, and together."""
    if not record.get("ablation"):
        return []
    said = "Of features: their name and number; of the nearest subspace: its components. Where the "
    said += "recipe has none of an ingredient, it is tried at a value stated in advance. All "
    said += "settings not named are the recipe's."
    if any(row["step_kind"] == "absolute" for row in record["ablation"] if not row["recipe"]):
        said += " The absolute step is the paper's."
    return [ingredients_table(record), Text(said)]


def ingredients_table(record: Record) -> Table:
    """A row for each combination of ingredients."""
    whole = next((row for row in record["ablation"] if row["recipe"]), None)
    rows = []
    for row in record["ablation"]:
        readout, layers, whitening = _network(row)
        if row["readout"] == "subspace":
            readout += f", {row['n_components']}"
        accuracy = shown(Spread(row["accuracy"], row.get("deviation")), 4)
        rows.append([_kinds(row, whole), whitening, layers, readout, accuracy])
    strong = [index for index, row in enumerate(record["ablation"]) if row["recipe"]]
    first = record["methods"][0]
    seed = f", seed {first['runs'][0]['seed']}" if first["random"] else ""
    caption = f"Ingredients alone and together, after the last task{seed}; in bold the recipe"
    headings = ["features", "whitening", "layers", "read-out", "accuracy"]
    return Table(caption, headings, rows, text_columns=4, strong=strong)


def _kinds(row: Record, whole: Record | None) -> str:
    """A variant's feature maps, what is left out of them, and how many features they give."""
    names = row["features"].split("+")
    kinds = " + ".join(names)
    if len(names) > _NAMED and whole is not None and row["features"] == whole["features"]:
        kinds = f"all {len(names)} kinds"
    without = "".join(f" without {step}" for step in row.get("without", ()))
    maps = f" in {row['n_maps']} maps" if row.get("n_maps", 1) > 1 else ""
    return f"{kinds}{without}, {row['n_features']:,}{maps}"


def ablations_table(records: Sequence[Record]) -> str:
    """Accuracies after the last task: of parts of the features, then of what is made of them.

    A column for each recipe; in bold what the recipes are.
    """
    wholes = [next(row for row in record["ablation"] if row["recipe"]) for record in records]
    parts: dict[tuple[str, ...], list[str]] = {}
    networks: dict[tuple[str, ...], list[str]] = {}
    for place, (record, whole) in enumerate(zip(records, wholes, strict=True)):
        for row in record["ablation"]:
            same = _features(row) == _features(whole)
            words, cells = (
                (_beside_others(row), networks) if same else ((_part(row, whole),), parts)
            )
            every = cells.setdefault(words, [UNKNOWN] * len(records))
            every[place] = f"{row['accuracy']:.4f}"
    parts["the whole recipe",] = [f"{whole['accuracy']:.4f}" for whole in wholes]
    names = [
        f"{record['title']}, {record['recipe']}, {whole['n_features']:,} features"
        for record, whole in zip(records, wholes, strict=True)
    ]
    deep = [f"{record['title']}; {_layers_tried(record)}" for record in records]
    strong = {_beside_others(whole) for whole in wholes}
    tables = (
        _table(["features"], names, parts, {("the whole recipe",)}),
        _table(["read-out", "layers", "whitening"], deep, networks, strong),
    )
    return "\n\n".join(map(markdown_table, tables))


def _table(
    heads: list[str],
    names: list[str],
    cells: Mapping[tuple[str, ...], list[str]],
    strong: Collection[tuple[str, ...]],
) -> Table:
    rows = [[*words, *each] for words, each in cells.items()]
    places = [place for place, words in enumerate(cells) if words in strong]
    return Table("", [*heads, *names], rows, text_columns=len(heads), strong=places)


def _features(row: Record) -> tuple[object, ...]:
    """What of a variant decides its features."""
    return row["features"], tuple(row["without"]), row["n_maps"]


def _part(row: Record, whole: Record) -> str:
    """What a variant has in place of the recipe's features."""
    if row["without"]:
        return " and ".join(f"without {step}" for step in row["without"])
    if row["features"] == whole["features"]:
        return f"{row['n_maps']} of {whole['n_maps']} maps"
    if row["readout"] != whole["readout"]:
        return f"{row['features']}, {readout_name(row['readout'])}"
    return f"{row['features']} alone"


def _network(row: Record) -> tuple[str, str, str]:
    """Read-out, layers and whitening of a variant."""
    layers = f"{row['n_layers']}, {row['step_kind']} step {row['step']:g}"
    return (
        readout_name(row["readout"]),
        layers if row["n_layers"] else UNKNOWN,
        UNKNOWN if row["whitening"] is None else f"ρ = {row['whitening']:g}",
    )


def _beside_others(row: Record) -> tuple[str, str, str]:
    """The same where each recipe has layers of its own."""
    readout, layers, whitening = _network(row)
    if row["n_layers"]:
        layers = "yes" if row["step_kind"] == "relative" else "the paper's step"
    return readout, layers, whitening


def _layers_tried(record: Record) -> str:
    """How many layers the variants with some have, and of which step."""
    deep = (row for row in record["ablation"] if row["n_layers"])
    _, layers, _ = _network(next(row for row in deep if row["step_kind"] == "relative"))
    return f"layers: {layers}"
