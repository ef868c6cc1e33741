"""What the commands on model files leave on the screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, median
from typing import Any

from rich import box
from rich.table import Table

Found = dict[str, Any]
Lines = list[Any]

_SHOWN = 20
_WORST = 10


def learnt(found: Found) -> Lines:
    """What `learn` did."""
    total = sum(row["samples"] for row in found["learnt"])
    new = found["new_classes"]
    return [
        f"Learnt {_samples(total)} of {_classes(len(found['learnt']))}, {len(new)} of them new.",
        holdings(found),
    ]


def labelled_itself(found: Found) -> Lines:
    """What `learn --unlabelled` did."""
    total = sum(row["samples"] for row in found["labelled"])
    return [
        f"Labelled and learnt {total:,} of {_samples(found['given'])} without labels, of "
        f"{_classes(len(found['labelled']))}.",
        holdings(found),
    ]


def calibrated(found: Found) -> Lines:
    """What `calibrate` did."""
    table = _table(
        f"Novelty of {_samples(found['samples'])}", ["reject", "above", "as estimated before"]
    )
    for row in found["thresholds"]:
        table.add_row(f"{row['reject']:g}", f"{row['novelty']:.4f}", f"{row['before']:.4f}")
    return [table, holdings(found)]


def forgotten_unlabelled(found: Found) -> Lines:
    """What `forget --unlabelled` did."""
    return [
        f"Withdrew {_samples(found['withdrawn'])} that the model had labelled itself.",
        holdings(found),
    ]


def forgotten(found: Found) -> Lines:
    """What `forget` did."""
    forgotten = f"Forgot {', '.join(map(str, found['forgotten']))}."
    return [forgotten, holdings(found), *_receipt(found)]


def withdrawn(found: Found) -> Lines:
    """What `unlearn` did."""
    return [f"Withdrew {_samples(found['withdrawn'])}.", holdings(found), *_receipt(found)]


def _receipt(found: Found) -> Lines:
    """A line about the receipt, where there is one."""
    receipt = found.get("receipt")
    if receipt is None:
        return []
    lines = [f"Receipt {receipt['sha256']}, line {receipt['number'] + 1} of the log."]
    if "salt" in receipt:
        lines.append(
            f"Salt {receipt['salt']}: with it the samples can be found in the receipt again; it is "
            f"kept nowhere else."
        )
    return lines


def receipts_verified(found: Found) -> Lines:
    """What `receipts verify` found."""
    table = _table("Receipts", ["line", "time", "withdrawn", "outcome", "file after"])
    for row in found["receipts"]:
        gone = ", ".join(f"{one['class']} ({one['samples']:,})" for one in row["classes"][:5])
        more = ", …" if len(row["classes"]) > 5 else ""
        outcome, after = row["outcome"], row["after"][:16]
        table.add_row(str(row["line"]), row["time"], gone + more, outcome, after)
    signed = f"{found['signed']} of {found['lines']} lines signed"
    by = f" by {', '.join(found['signers'])}" if found["signers"] else ""
    since = "as the last receipt left it" if found["unchanged_since"] else "changed since"
    lines: Lines = [
        table,
        f"The chain is intact: {found['lines']} lines, {signed}{by}.",
        f"Head {found['head']}",
        f"{found['model']} has sha256 {found['sha256']}, {since}.",
    ]
    if "withdrawn" in found:
        one = found["withdrawn"]
        lines.append(f"{_samples(one['samples'])} are those of line {one['line']}.")
    if found["rebuilt"]:
        lines.append(
            "The file equals, to the byte, one that learnt the remaining data and nothing else."
        )
    return lines


def merged(found: Found) -> Lines:
    """What `merge` did."""
    return [f"Merged {', '.join(found['merged'])}.", holdings(found)]


def predicted(found: Found) -> Lines:
    """What `predict` did."""
    rejected = f", rejected {found['rejected']:,} of them" if "rejected" in found else ""
    return [f"Labelled {_samples(found['samples'])}{rejected}: {found['out']}"]


def encoded(found: Found) -> Lines:
    """What `encode` did."""
    return [
        f"Encoded {_samples(found['samples'])} with {found['encoder']['name']}, "
        f"{found['features']:,} features each: {found['out']}"
    ]


def exported(found: Found) -> Lines:
    """What `export` wrote, and how it was checked."""
    table = _table("", ["", ""])
    table.columns[1].justify, table.show_header = "left", False
    shape = " x ".join(map(str, found["input_shape"]))
    rows = {
        "input": f"samples, n x {shape}, float64",
        "output": ", ".join(found["outputs"]),
        "layers": f"{found['layers']} of the network's {found['of_layers']}, {found['dtype']}",
        "samples checked": f"{found['samples']:,}{found['made'] and ', ' + found['made']}",
        "labels that differ": f"{found['differ']}",
        "largest difference of a score": f"{found['largest_difference']:.2g}",
        "holds": "\n".join(found["holds"]),
    }
    for name, value in rows.items():
        if name != "layers" or found["of_layers"]:
            table.add_row(name, value)
    return [f"Exported {found['model']}: {found['out']}, {found['bytes'] / 1e6:,.2f} MB", table]


def verified(found: Found) -> Lines:
    """What `verify` found."""
    return [
        f"{found['model']} is intact: {_classes(found['classes'])}, {_samples(found['samples'])}, "
        + (f"{found['self_labelled']:,} labelled by itself, " if found["self_labelled"] else "")
        + f"{found['features']:,} features, format {found['format']}.",
        f"Estimator: {found['estimator']}.",
        f"sha256 {found['sha256']}",
    ]


def holdings(found: Found) -> str:
    """What a model file holds, in one line."""
    own = found.get("self_labelled", 0)
    return (
        f"{found['model']} holds {_classes(len(found['classes']))}, {_samples(found['samples'])}, "
        + (f"{own:,} more that it labelled itself, " if own else "")
        + f"{found['features']:,} features, {found['bytes'] / 1e3:,.0f} kB."
    )


def evaluated(found: Found) -> Lines:
    """Accuracy, classes, confusion matrix; of many classes a summary, and the worst first."""
    said = (
        f"Accuracy {found['accuracy']:.4f}: {found['correct']:,} of {found['samples']:,} samples."
    )
    if len(found["classes"]) <= _SHOWN:
        return [said, _recall_table("Class by class", found["classes"]), _confusion(found)]
    wrong = [row for row in found["classes"] if row["correct"] < row["samples"]]
    worst = sorted(wrong, key=lambda row: row["recall"])[:_WORST]
    tables = [_recall_table("The classes of lowest recall", worst), _confusions(found)]
    return [
        said,
        _recall_line(found),
        *(tables if wrong else []),
        "All classes, and the confusion matrix, are in the output of --json.",
    ]


def _recall_table(title: str, rows: Sequence[Found]) -> Table:
    table = _table(title, ["class", "samples", "correct", "recall", "precision"])
    for row in rows:
        table.add_row(
            str(row["class"]),
            f"{row['samples']:,}",
            f"{row['correct']:,}",
            _share(row["recall"]),
            _share(row["precision"]),
        )
    return table


def _recall_line(found: Found) -> str:
    recalls = [row["recall"] for row in found["classes"] if row["recall"] is not None]
    perfect = sum(recall == 1 for recall in recalls)
    return (
        f"Recall of {_classes(len(recalls))} with samples: mean {fmean(recalls):.4f}, "
        f"median {median(recalls):.4f}, lowest {min(recalls):.4f}; 1 for {perfect:,} of them."
    )


def _confusions(found: Found) -> Table:
    """The most frequent mistakes, of many classes."""
    labels, samples = found["labels"], [row["samples"] for row in found["classes"]]
    pairs = [
        (count, true, given)
        for true, row in enumerate(found["confusion"])
        for given, count in enumerate(row)
        if count and true != given
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    table = _table("The most frequent confusions", ["true", "predicted", "samples", "of its class"])
    table.columns[1].justify = "left"
    for count, true, given in pairs[:_WORST]:
        table.add_row(
            str(labels[true]), str(labels[given]), f"{count:,}", f"{count / samples[true]:.1%}"
        )
    return table


def inspected(found: Found) -> Lines:
    """What `inspect` found."""
    return [
        holdings(found),
        f"Estimator: {found['estimator']}.",
        f"Settings: {', '.join(f'{key}={value}' for key, value in found['settings'].items())}.",
        *([_encoder_line(found["encoder"])] if found["encoder"] else []),
        _feature_line(found),
        *(
            [_distance_table(found)]
            if "distances" in found
            else [
                _fusion_line(found["fusions"]),
                *_rate_lines(found["delta_R"]),
                _class_table(found),
            ]
        ),
    ]


def _distance_table(found: Found) -> Table:
    """Counts, and the nearest other class by the distance between the means."""
    table = _table(
        "Classes, and the nearest other class by the distance between their means",
        ["class", "samples", "nearest", "distance"],
    )
    compared = found["compared"]
    for row, index in _with_places(found):
        cells = ["", ""]
        if index is not None and len(compared) > 1:
            distances = found["distances"][index]
            near = _nearest(distances, index)
            cells = [str(compared[near]), f"{distances[near]:.4f}"]
        table.add_row(str(row["class"]), _count(row), *cells)
    return table


def _class_table(found: Found) -> Table:
    """Counts, and the nearest other class on the input and after the layers."""
    compared, close = found["compared"], found["closeness"]
    title = (
        f"Classes, and the nearest other class by the angle between their subspaces of up to "
        f"{close['components']} components"
    )
    table = _table(
        title, ["class", "samples", "nearest", "on the input", "after the layers", "smallest angle"]
    )
    last, first = close["last"], close["input"]
    for row, index in _with_places(found):
        cells = ["", "", "", ""]
        if index is not None and len(compared) > 1:
            near = _nearest(last["mean"][index], index)
            cells = [
                str(compared[near]),
                f"{first['mean'][index][near]:.1f}°",
                f"{last['mean'][index][near]:.1f}°",
                f"{last['smallest'][index][near]:.1f}°",
            ]
        table.add_row(str(row["class"]), _count(row), *cells)
    return table


def _with_places(found: Found) -> Iterator[tuple[Found, int | None]]:
    """The row of each class, and its place among those that are compared, if it is one."""
    places = {label: place for place, label in enumerate(found["compared"])}
    return ((row, places.get(row["class"])) for row in found["classes"])


def _nearest(values: Sequence[float], index: int) -> int:
    """The place of the smallest value but for that of the class itself."""
    return min((other for other in range(len(values)) if other != index), key=values.__getitem__)


def _count(row: Found) -> str:
    return f"{row['samples']:,}{' (few)' if row['fewer_than_features'] else ''}"


def _feature_line(found: Found) -> str:
    features = found["feature_map"]
    if features is None:
        named = " with names" if found["columns"] else ""
        return f"Features: the {found['inputs']:,} values of a sample as they are{named}."
    shape = " x ".join(map(str, features["input_shape"]))
    whence = "learnt from data" if features["learnt_from_data"] else "not learnt from data"
    return f"Features: {features['kind']} of {shape} values, {whence}."


def _encoder_line(encoder: Found) -> str:
    return f"Encoder: {encoder['name']}, weights of sha256 {encoder['sha256']}."


def _fusion_line(fusions: Found) -> str:
    """What stands for the layers when samples are labelled."""
    layers, blocks, processes = fusions["layers"], fusions["blocks"], fusions["processes"]
    if processes > 1:
        return (
            f"Answers: every sample goes through all {layers} layers, of which each of {processes} "
            f"processes has some of the classes."
        )
    if not blocks:
        return f"Answers: every sample goes through all {layers} layers; nothing shorter pays."
    widths = [
        f" ({d:,} dimensions)" if d < max(fusions["dimensions"]) else ""
        for d in fusions["dimensions"]
    ]
    tried = ", ".join(f"{n}{width}" for n, width in zip(blocks, widths, strict=True))
    return (
        f"Answers: {layers} layers are fused into {tried} blocks, tried in this order. Of "
        f"{fusions['samples']:,} samples drawn from the moments, {fusions['fell_back']:,} go "
        f"through all layers; the largest difference between two fusions that was accepted is "
        f"{fusions['largest_difference']:.2g}."
    )


def _rate_lines(delta_R: Sequence[float]) -> Lines:
    """ΔR before each layer, ten to a line."""
    if not delta_R:
        return ["ΔR by layer: there are no layers."]
    lines = ["ΔR before each layer:"]
    for start in range(0, len(delta_R), 10):
        cells = " ".join(f"{value:9.4f}" for value in delta_R[start : start + 10])
        lines.append(f"{start:5d} {cells}")
    return lines


def _confusion(found: Found) -> Table:
    labels = [str(label) for label in found["labels"]]
    table = _table("Confusion matrix: true classes in rows, predicted in columns", ["", *labels])
    for label, row in zip(labels, found["confusion"], strict=True):
        table.add_row(label, *(str(count) if count else "·" for count in row))
    return table


def _table(title: str, headings: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left")
    return table


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _samples(count: int) -> str:
    return f"{count:,} sample{'s' * (count != 1)}"


def _classes(count: int) -> str:
    return f"{count:,} class{'es' * (count != 1)}"
