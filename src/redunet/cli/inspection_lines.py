"""What `inspect` leaves on the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redunet.cli.lines import Found, Lines, holdings, simple_table

_SHOWN = 20
_CLOSEST = 10

_ANGLES = ("on input", "after layers", "smallest")


def inspected(found: Found) -> Lines:
    """What `inspect` found."""
    return [
        holdings(found),
        f"Estimator: {found['estimator']}.",
        f"Settings: {', '.join(f'{key}={value}' for key, value in found['settings'].items())}.",
        *([_encoder_line(found["encoder"])] if found["encoder"] else []),
        _feature_line(found),
        *(
            _classes(found, _distance_columns(found))
            if "distances" in found
            else [
                _fusion_line(found["fusions"]),
                *_rate_lines(found["delta_R"]),
                *_classes(found, _angle_columns(found)),
            ]
        ),
    ]


Column = tuple[str, Sequence[Sequence[float]], Callable[..., str]]
"""A heading, a value for each two classes that are compared, and how it is written."""


def _distance_columns(found: Found) -> tuple[str, list[Column]]:
    return "the distance between their means", [("distance", found["distances"], "{:.4f}".format)]


def _angle_columns(found: Found) -> tuple[str, list[Column]]:
    close = found["closeness"]
    values = close["input"]["mean"], close["last"]["mean"], close["last"]["smallest"]
    columns: list[Column] = [
        (name, value, "{:.1f}°".format) for name, value in zip(_ANGLES, values, strict=True)
    ]
    return (
        f"the mean angle between their subspaces of up to {close['components']} components",
        columns,
    )


def _classes(found: Found, by: tuple[str, list[Column]]) -> Lines:
    """Each class and the one nearest to it; of many classes, the pairs that are closest."""
    what, columns = by
    decisive = columns[min(1, len(columns) - 1)][1]
    if len(found["classes"]) > _SHOWN:
        return _closest_pairs(found, what, columns, decisive)
    table = simple_table(
        f"Classes, and the nearest other class by {what}",
        ["class", "samples", "nearest", *(name for name, _, _ in columns)],
    )
    compared = found["compared"]
    for index, row in enumerate(found["classes"]):
        cells = [""] * (len(columns) + 1)
        if len(compared) > 1:
            near = _nearest(decisive[index], index)
            cells = [str(compared[near]), *(show(v[index][near]) for _, v, show in columns)]
        table.add_row(str(row["class"]), _count(row), *cells)
    return [table]


def _closest_pairs(
    found: Found, what: str, columns: list[Column], decisive: Sequence[Sequence[float]]
) -> Lines:
    names = found["compared"]
    pairs = sorted((row[j], i, j) for i, row in enumerate(decisive) for j in range(i))
    table = simple_table(
        f"The most similar classes, by {what}", ["class", "and", *(name for name, _, _ in columns)]
    )
    table.columns[1].justify = "left"
    for _, i, j in pairs[:_CLOSEST]:
        cells = (show(values[i][j]) for _, values, show in columns)
        table.add_row(str(names[j]), str(names[i]), *cells)
    counts = [row["samples"] for row in found["classes"]]
    return [
        f"Samples of a class: {min(counts):,} to {max(counts):,}.",
        table,
        "All classes are in the output of --json.",
    ]


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
    layers, blocks = fusions["layers"], fusions["blocks"]
    if not blocks:
        return f"Answers: every sample goes through {_layers(layers)}; nothing shorter pays."
    tried = ", ".join(f"{n:,}" for n in blocks)
    return (
        f"Answers: coarse networks of {tried} blocks of {_layers(layers)}, tried in this order. Of "
        f"{fusions['samples']:,} samples drawn from the moments, {fusions['fell_back']:,} go "
        f"through all layers; the largest difference that was accepted is "
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


def _layers(count: int) -> str:
    return "the layer" if count == 1 else f"all {count} layers"
