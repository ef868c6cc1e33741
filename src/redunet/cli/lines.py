"""What the commands on model files leave on the screen."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import Any

from rich import box
from rich.table import Table

from redunet.widths import FirstThatFits

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
    table = simple_table(
        f"What `predict --reject` rejects, by {_samples(found['validation_samples'])}",
        ["reject", "novelty above", "estimated before"],
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
    table = simple_table("Receipts", ["line", "time", "withdrawn", "outcome", "file after"])
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
    table = simple_table("", ["", ""])
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
    table = simple_table(title, ["class", "samples", "correct", "recall", "precision"])
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
    table = simple_table(
        "The most frequent confusions", ["true", "predicted", "samples", "of its class"]
    )
    table.columns[1].justify = "left"
    for count, true, given in pairs[:_WORST]:
        table.add_row(
            str(labels[true]), str(labels[given]), f"{count:,}", f"{count / samples[true]:.1%}"
        )
    return table


def _confusion(found: Found) -> FirstThatFits:
    """The confusion matrix; on a narrow terminal its columns have numbers for names."""
    labels = [str(label) for label in found["labels"]]
    title = "Confusion matrix: true classes in rows, predicted in columns"
    numbers = [str(number) for number in range(1, len(labels) + 1)]
    numbered = [f"{number} {label}" for number, label in zip(numbers, labels, strict=True)]
    tables = []
    for headings, names in ((labels, labels), (numbers, numbered)):
        table = simple_table(title, ["", *headings])
        for name, row in zip(names, found["confusion"], strict=True):
            table.add_row(name, *(str(count) if count else "·" for count in row))
        tables.append(table)
    return FirstThatFits(*tables)


def simple_table(title: str, headings: Sequence[str]) -> Table:
    """An empty table, whose first column is of names."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1))
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", overflow="fold")
    return table


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _samples(count: int) -> str:
    return f"{count:,} sample{'s' * (count != 1)}"


def _classes(count: int) -> str:
    return f"{count:,} class{'es' * (count != 1)}"
