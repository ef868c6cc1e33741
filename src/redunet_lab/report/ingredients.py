"""Accuracy of a recipe with each of its ingredients alone, and together."""

from __future__ import annotations

from redunet.report.blocks import Block, Table, Text
from redunet.report.words import readout_name
from redunet_lab.report.numbers import UNKNOWN, Record, Spread, shown

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
        readout = readout_name(row["readout"])
        if row["readout"] == "subspace":
            readout += f", {row['n_components']}"
        layers = f"{row['n_layers']}, {row['step_kind']} step {row['step']:g}"
        rows.append(
            [
                _kinds(row, whole),
                UNKNOWN if row["whitening"] is None else f"ρ = {row['whitening']:g}",
                layers if row["n_layers"] else UNKNOWN,
                readout,
                shown(Spread(row["accuracy"], row.get("deviation")), 4),
            ]
        )
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
