"""The lines that commands print, made of what they found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from redunet.cli.printing import Lines, fits, table

Found = Mapping[str, Any]

_SHOWN = 20
"""Classes that are listed one by one; of more, a summary."""

_WORST = 10
"""Classes, pairs or candidates that stand for all."""


def learnt(found: Found) -> Lines:
    """Lines of `learn`."""
    total = sum(row["samples"] for row in found["learnt"])
    new = len(found["new_classes"])
    return [
        f"Learnt {_samples(total)} of {_classes(len(found['learnt']))}, {new} of them new.",
        holdings(found),
    ]


def labelled_itself(found: Found) -> Lines:
    """Lines of `learn --unlabelled`."""
    total = sum(row["samples"] for row in found["labelled"])
    return [
        f"Labelled and learnt {total:,} of {_samples(found['given'])} without labels, of "
        f"{_classes(len(found['labelled']))}.",
        holdings(found),
    ]


def calibrated(found: Found) -> Lines:
    """Lines of `calibrate`."""
    rows = [
        (f"{row['reject']:g}", f"{row['novelty']:.4f}", f"{row['before']:.4f}")
        for row in found["thresholds"]
    ]
    title = f"What `predict --reject` rejects, by {_samples(found['validation_samples'])}"
    headings = ["reject", "novelty above", "estimated before"]
    return [table(title, headings, rows), holdings(found)]


def forgotten(found: Found) -> Lines:
    """Lines of `forget`."""
    names = ", ".join(map(str, found["forgotten"]))
    return [f"Forgot {names}.", holdings(found), *_receipt(found)]


def unlearnt(found: Found) -> Lines:
    """Lines of `unlearn`."""
    said = f"Unlearnt {_samples(found['withdrawn'])}."
    return [said, holdings(found), *_receipt(found)]


def forgotten_unlabelled(found: Found) -> Lines:
    """Lines of `forget --unlabelled`."""
    said = f"Unlearnt {_samples(found['withdrawn'])} that the model had labelled itself."
    return [said, holdings(found)]


def merged(found: Found) -> Lines:
    """Lines of `merge`."""
    return [f"Merged {', '.join(found['merged'])}.", holdings(found)]


def predicted(found: Found) -> Lines:
    """Lines of `predict --out`."""
    rejected = f", rejected {found['rejected']:,} of them" if "rejected" in found else ""
    return [f"Labelled {_samples(found['samples'])}{rejected}: {found['out']}"]


def encoded(found: Found) -> Lines:
    """Lines of `encode`."""
    return [
        f"Encoded {_samples(found['samples'])} with {found['encoder']['name']}, "
        f"{found['features']:,} features each: {found['out']}"
    ]


def verified(found: Found) -> Lines:
    """Lines of `verify`."""
    own = found["self_labelled"]
    return [
        f"{found['model']} is intact: {_classes(found['classes'])}, {_samples(found['samples'])}, "
        + (f"{own:,} labelled by itself, " if own else "")
        + f"{found['features']:,} features, format {found['format']}.",
        f"Estimator: {found['estimator']}.",
        f"sha256 {found['sha256']}",
    ]


def holdings(found: Found) -> str:
    """A line about what a model file holds."""
    own = found.get("self_labelled", 0)
    return (
        f"{found['model']} holds {_classes(len(found['classes']))}, {_samples(found['samples'])}, "
        + (f"{own:,} more that it labelled itself, " if own else "")
        + f"{found['features']:,} features, {found['bytes'] / 1e3:,.0f} kB."
    )


def _receipt(found: Found) -> Lines:
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
    """Lines of `receipts verify`."""
    rows = []
    for row in found["receipts"]:
        gone = ", ".join(f"{one['class']} ({one['samples']:,})" for one in row["classes"][:5])
        more = ", …" if len(row["classes"]) > 5 else ""
        rows.append([row["line"], row["time"], gone + more, row["outcome"], row["after"][:16]])
    signed = f"{found['signed']} of {found['lines']} lines signed"
    by = f" by {', '.join(found['signers'])}" if found["signers"] else ""
    since = "as the last receipt left it" if found["unchanged_since"] else "changed since"
    lines = [
        table("Receipts", ["line", "time", "unlearnt", "outcome", "file after"], rows, names=5),
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


def exported(found: Found) -> Lines:
    """Lines of `export`: what was written, and how it was checked."""
    shape = " x ".join(map(str, found["input_shape"]))
    made = f", {found['made']}" if found["made"] else ""
    layers = f"{found['layers']} of the network's {found['of_layers']}, {found['dtype']}"
    return [
        f"Exported {found['model']}: {found['out']}, {found['bytes'] / 1e6:,.2f} MB",
        f"Input: samples, n x {shape}, float64. Output: {', '.join(found['outputs'])}.",
        *([f"Layers: {layers}."] if found["of_layers"] else []),
        f"Checked on {_samples(found['samples'])}{made}: {found['differ']} labels differ; the "
        f"largest difference of a score is {found['largest_difference']:.2g}.",
        *(f"Holds {one}" for one in found["holds"]),
    ]


def evaluated(found: Found) -> Lines:
    """Lines of `evaluate`: of many classes a summary, and the worst first."""
    said = (
        f"Accuracy {found['accuracy']:.4f}: {found['correct']:,} of {found['samples']:,} samples."
    )
    if len(found["classes"]) <= _SHOWN:
        return [said, _recalls("Class by class", found["classes"]), _confusion(found)]
    wrong = [row for row in found["classes"] if row["correct"] < row["samples"]]
    worst = sorted(wrong, key=lambda row: row["recall"])[:_WORST]
    recalls = [row["recall"] for row in found["classes"] if row["recall"] is not None]
    perfect = sum(recall == 1 for recall in recalls)
    return [
        said,
        f"Recall of {_classes(len(recalls))} with samples: mean {fmean(recalls):.4f}, "
        f"median {median(recalls):.4f}, lowest {min(recalls):.4f}; 1 for {perfect:,} of them.",
        *([_recalls("The classes of lowest recall", worst), _confusions(found)] if wrong else []),
        "All classes, and the confusion matrix, are in the output of --json.",
    ]


def _recalls(title: str, rows: Sequence[Found]) -> str:
    return table(
        title,
        ["class", "samples", "correct", "recall", "precision"],
        [
            (
                row["class"],
                f"{row['samples']:,}",
                f"{row['correct']:,}",
                _share(row["recall"]),
                _share(row["precision"]),
            )
            for row in rows
        ],
    )


def _confusions(found: Found) -> str:
    """The most frequent mistakes, of many classes."""
    labels, samples = found["labels"], [row["samples"] for row in found["classes"]]
    pairs = [
        (count, true, given)
        for true, row in enumerate(found["confusion"])
        for given, count in enumerate(row)
        if count and true != given
    ]
    pairs.sort(key=lambda pair: (-pair[0], pair[1:]))
    rows = [
        (labels[true], labels[given], f"{count:,}", f"{count / samples[true]:.1%}")
        for count, true, given in pairs[:_WORST]
    ]
    headings = ["true", "predicted", "samples", "of its class"]
    return table("The most frequent confusions", headings, rows, names=2)


def _confusion(found: Found) -> str:
    """The confusion matrix; on a narrow terminal its columns have numbers for names."""
    labels = [str(label) for label in found["labels"]]
    title = "Confusion matrix: true classes in rows, predicted in columns"
    counts = [[count or "·" for count in row] for row in found["confusion"]]
    rows = [[label, *row] for label, row in zip(labels, counts, strict=True)]
    whole = table(title, ["", *labels], rows)
    if fits(whole):
        return whole
    rows = [[f"{number} {label}", *row] for number, (label, *row) in enumerate(rows, 1)]
    return table(title, ["", *map(str, range(1, len(labels) + 1))], rows)


def inspected(found: Found) -> Lines:
    """Lines of `inspect`."""
    lines = [
        holdings(found),
        f"Estimator: {found['estimator']}.",
        f"Settings: {', '.join(f'{key}={value}' for key, value in found['settings'].items())}.",
    ]
    if encoder := found["encoder"]:
        lines.append(f"Encoder: {encoder['name']}, weights of sha256 {encoder['sha256']}.")
    lines.append(_feature_line(found))
    if "distances" in found:
        columns: _Columns = {"distance": (found["distances"], "{:.4f}".format)}
        return [*lines, *_nearest_classes(found, "the distance between their means", columns)]
    close = found["closeness"]
    columns = {
        "on input": (close["input"]["mean"], "{:.1f}°".format),
        "after layers": (close["last"]["mean"], "{:.1f}°".format),
        "smallest": (close["last"]["smallest"], "{:.1f}°".format),
    }
    by = f"the mean angle between their subspaces of up to {close['components']} components"
    return [
        *lines,
        *_rate_lines(found["delta_R"]),
        *_nearest_classes(found, by, columns),
    ]


_Columns = dict[str, tuple[Sequence[Sequence[float]], Callable[..., str]]]
"""By heading, a value for each two classes that are compared, and how it is written."""


def _nearest_classes(found: Found, by: str, columns: _Columns) -> Lines:
    """Each class and the one nearest to it; of many classes, the pairs that are closest."""
    decisive = list(columns.values())[min(1, len(columns) - 1)][0]
    names = found["compared"]
    if len(found["classes"]) > _SHOWN:
        pairs = sorted((row[j], i, j) for i, row in enumerate(decisive) for j in range(i))
        rows = [
            [names[j], names[i], *(show(values[i][j]) for values, show in columns.values())]
            for _, i, j in pairs[:_WORST]
        ]
        counts = [row["samples"] for row in found["classes"]]
        return [
            f"Samples of a class: {min(counts):,} to {max(counts):,}.",
            table(f"The most similar classes, by {by}", ["class", "and", *columns], rows, names=2),
            "All classes are in the output of --json.",
        ]
    rows = []
    for index, row in enumerate(found["classes"]):
        count = f"{row['samples']:,}{' (few)' if row['fewer_than_features'] else ''}"
        cells = [""] * (len(columns) + 1)
        if len(names) > 1:
            others = [other for other in range(len(names)) if other != index]
            near = min(others, key=decisive[index].__getitem__)
            cells = [names[near], *(show(values[index][near]) for values, show in columns.values())]
        rows.append([row["class"], count, *cells])
    title = f"Classes, and the nearest other class by {by}"
    return [table(title, ["class", "samples", "nearest", *columns], rows)]


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


def best(record: Found) -> Lines:
    """The best candidates of a search for settings, each with its settings that differ."""
    candidates = record["candidates"][:_WORST]
    names = list(dict.fromkeys(key for one in candidates for key in one))
    accuracies = [name for name in names if name.endswith("accuracy")]
    same = {
        name
        for name in names
        if len(candidates) > 1 and len({str(one.get(name)) for one in candidates}) == 1
    }
    rows = [
        [
            *(_share(one.get(name)) for name in accuracies),
            _settings({name: one.get(name) for name in names if name not in {*accuracies, *same}}),
        ]
        for one in candidates
    ]
    title = f"{record['what']}: best of {record['tried']} on {record['chosen_on']}"
    headings = [*(name.replace("_", " ") for name in accuracies), "settings"]
    common = {name: candidates[0][name] for name in names if name in same - {*accuracies}}
    return [
        table(title, headings, rows, names=len(headings)),
        *([f"All of them: {_settings(common)}."] if _settings(common) else []),
    ]


def tuned(found: Found) -> Lines:
    """Lines of `tune`."""
    before, after, chosen = found["accuracy_before"], found["accuracy"], found["chosen"]
    said = f"Accuracy on {found['samples']:,} validation samples: {before:.4f} before"
    if chosen.keys() - {"temperature"}:
        said += f", {after:.4f} with the settings chosen; the difference is {after - before:.4f} "
        said += f"± {found['standard_error']:.4f}."
    else:
        said += "; no candidate is ahead by more than 1.5 standard errors, so the settings stay."
    errors = [found[key] for key in ("calibration_error_before", "calibration_error")]
    lines = [said, "Calibration error there: {:.4f} before, {:.4f} now.".format(*errors)]
    failed = Counter(one["failed"] for one in found["candidates"] if "failed" in one)
    lines += [f"Failed: {n} of the candidates, as {why}." for why, n in failed.items()]
    if chosen:
        lines.append(f"Chosen: {_settings(chosen)}.")
        wrote = f"Wrote {found['model']}"
        asked = f"{found['model']} was not changed: add --write to change it"
        lines.append(wrote if found["written"] else asked)
    return lines


def _settings(values: Found) -> str:
    return ", ".join(f"{key}={value}" for key, value in values.items() if value is not None)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _samples(count: int) -> str:
    return f"{count:,} sample{'s' * (count != 1)}"


def _classes(count: int) -> str:
    return f"{count:,} class{'es' * (count != 1)}"
