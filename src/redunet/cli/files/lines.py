"""What the commands on model files leave on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table

Found = dict[str, Any]
Lines = list[Any]

_SHOWN = 20


def learnt(found: Found) -> Lines:
    """What `learn` did."""
    total = sum(row["samples"] for row in found["learnt"])
    new = found["new_classes"]
    return [
        f"Learnt {_samples(total)} of {_classes(len(found['learnt']))}, {len(new)} of them new.",
        holdings(found),
    ]


def forgotten(found: Found) -> Lines:
    """What `forget` did."""
    return [f"Forgot {', '.join(map(str, found['forgotten']))}.", holdings(found)]


def withdrawn(found: Found) -> Lines:
    """What `unlearn` did."""
    return [f"Withdrew {_samples(found['withdrawn'])}.", holdings(found)]


def merged(found: Found) -> Lines:
    """What `merge` did."""
    return [f"Merged {', '.join(found['merged'])}.", holdings(found)]


def predicted(found: Found) -> Lines:
    """What `predict` did."""
    return [f"Labelled {_samples(found['samples'])}: {found['out']}"]


def verified(found: Found) -> Lines:
    """What `verify` found."""
    return [
        f"{found['model']} is intact: {_classes(found['classes'])}, {_samples(found['samples'])}, "
        f"{found['features']:,} features, format {found['format']}.",
        f"Estimator: {found['estimator']}.",
        f"sha256 {found['sha256']}",
    ]


def holdings(found: Found) -> str:
    """What a model file holds, in one line."""
    return (
        f"{found['model']} holds {_classes(len(found['classes']))}, {_samples(found['samples'])}, "
        f"{found['features']:,} features, {found['bytes'] / 1e3:,.0f} kB."
    )


def evaluated(found: Found) -> Lines:
    """Accuracy, classes, confusion matrix."""
    classes = _table("Class by class", ["class", "samples", "correct", "recall", "precision"])
    for row in found["classes"]:
        classes.add_row(
            str(row["class"]),
            f"{row['samples']:,}",
            f"{row['correct']:,}",
            _share(row["recall"]),
            _share(row["precision"]),
        )
    return [
        f"Accuracy {found['accuracy']:.4f}: {found['correct']:,} of {found['samples']:,} samples.",
        classes,
        *_confusion(found),
    ]


def inspected(found: Found) -> Lines:
    """What `inspect` found."""
    return [
        holdings(found),
        f"Estimator: {found['estimator']}.",
        f"Settings: {', '.join(f'{key}={value}' for key, value in found['settings'].items())}.",
        _feature_line(found),
        *(
            [_distance_table(found)]
            if "distances" in found
            else [*_rate_lines(found["delta_R"]), _class_table(found)]
        ),
    ]


def _distance_table(found: Found) -> Table:
    """Counts, and the nearest other class by the distance between the means."""
    table = _table(
        "Classes, and the nearest other class by the distance between their means",
        ["class", "samples", "nearest", "distance"],
    )
    rows = found["classes"]
    for index, (row, distances) in enumerate(zip(rows, found["distances"], strict=True)):
        others = [other for other in range(len(rows)) if other != index]
        cells = ["", ""]
        if others:
            near = min(others, key=distances.__getitem__)
            cells = [str(rows[near]["class"]), f"{distances[near]:.4f}"]
        table.add_row(str(row["class"]), _count(row), *cells)
    return table


def _class_table(found: Found) -> Table:
    """Counts, and the nearest other class on the input and after the layers."""
    rows, close = found["classes"], found["closeness"]
    names = [str(row["class"]) for row in rows]
    title = (
        f"Classes, and the nearest other class by the angle between their subspaces of up to "
        f"{close['components']} components"
    )
    table = _table(
        title, ["class", "samples", "nearest", "on the input", "after the layers", "smallest angle"]
    )
    last, first = close["last"], close["input"]
    for index, row in enumerate(rows):
        others = [other for other in range(len(rows)) if other != index]
        cells = ["", "", "", ""]
        if others:
            near = min(others, key=lambda other, i=index: last["mean"][i][other])  # type: ignore[misc]
            cells = [
                names[near],
                f"{first['mean'][index][near]:.1f}°",
                f"{last['mean'][index][near]:.1f}°",
                f"{last['smallest'][index][near]:.1f}°",
            ]
        table.add_row(names[index], _count(row), *cells)
    return table


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


def _rate_lines(delta_R: Sequence[float]) -> Lines:
    """ΔR before each layer, ten to a line."""
    if not delta_R:
        return ["ΔR by layer: there are no layers."]
    lines = ["ΔR before each layer:"]
    for start in range(0, len(delta_R), 10):
        cells = " ".join(f"{value:9.4f}" for value in delta_R[start : start + 10])
        lines.append(f"{start:5d} {cells}")
    return lines


def _confusion(found: Found) -> Lines:
    labels = [str(label) for label in found["labels"]]
    if len(labels) > _SHOWN:
        return [f"The confusion matrix of {len(labels)} classes is in the output of --json."]
    table = _table("Confusion matrix: true classes down, given ones across", ["", *labels])
    for label, row in zip(labels, found["confusion"], strict=True):
        table.add_row(label, *(str(count) if count else "·" for count in row))
    return [table]


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
