"""The sections of a report of a record; one is empty where the record has nothing for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from redunet.errors import DataError
from redunet.report.blocks import Block, Chapter, Section, Table, Text
from redunet.report.shared_figures import (
    confusion_figure,
    confusion_view,
    rate_figure,
    rate_words,
)
from redunet.report.words import readout_name, three
from redunet_lab.report.ingredients import ingredients
from redunet_lab.report.notes import changed_and_missing, result_notes, summary
from redunet_lab.report.numbers import (
    UNKNOWN,
    Record,
    accuracy_cells,
    by_task,
    in_bytes,
    in_seconds,
    label,
    measure,
    n_tasks,
    over_seeds,
    paper_rows,
    shown,
    signed,
    task_headings,
)
from redunet_lab.report.record_figures import accuracy_figure
from redunet_lab.report.runs import candidates, searched, what_was_run

MEASURES = ("average", "forgetting", "decay")
KEPT = ("parameters", "moments", "exemplars")
PEAKS = ("memory", "device_memory")
COST = (
    "Methods on class moments add up moments while they learn, and build the rest when they first "
    "label: both times count. Bytes are counted in the file saved after the last task; parameters "
    "are all that is neither moments nor exemplars. Memory is the most held at once."
)

Contents = Callable[[Record], list[Block]]


def chapter(record: Record) -> Chapter:
    """Everything that a report of a record says, in order."""
    parts = [(title, part(record)) for title, part in _kind(record).items()]
    return Chapter(str(record["what"]), [Section(*part) for part in parts if part[1]])


def in_short(record: Record) -> list[Section]:
    """The sections that a command prints when it has finished."""
    wanted = (result, exactness, ingredients, orders, forgetting, candidates)
    parts = [(title, part) for title, part in _kind(record).items() if part in wanted]
    return [Section(title, part(record)) for title, part in parts]


def _kind(record: Record) -> dict[str, Contents]:
    """The sections of a record of its kind."""
    if (
        not isinstance(record, dict)
        or record.get("version") != 2
        or record.get("kind") not in KINDS
    ):
        raise DataError(
            "expected a record of kind 'experiment' or 'tune' and version 2, got another: give the "
            "record.json that run, reproduce, compare, demo or tune of this version wrote"
        )
    return KINDS[record["kind"]]


def places(record: Record) -> int:
    """Decimals of accuracies: with a recipe, methods differ by a few samples in ten thousand."""
    return 4 if record.get("recipe") else 3


def result(record: Record) -> list[Block]:
    """Accuracy after each task of all methods, and what to know about it."""
    if not record["methods"]:
        return []
    table = result_table(record)
    notes = [*result_notes(record), *changed_and_missing(record)]
    return [*map(Text, summary(record)), table, *map(Text, notes), *accuracy_figure(record)]


def result_table(record: Record) -> Table:
    """Accuracy on all classes seen after each task, beside what others report, and measures.

    Where some methods are trained by gradient, it says too what each of them keeps.
    """
    methods, theirs = record["methods"], paper_rows(record)
    benchmark = (record.get("published") or {}).get("last", {})
    kept = any(method["type"] == "gradient" for method in methods)
    measures = [] if kept else [key for key in MEASURES if any(_known(m, key) for m in methods)]
    tail = ["kept", "raw data kept"] if kept else measures
    blank = [UNKNOWN] * len(tail)
    rows: list[list[str]] = []
    strong = []

    def published(name: str) -> None:
        if name in theirs:
            values = _filled([*map(three, theirs[name])], record)
            rows.append([f"{name}, paper (theirs)", *values, *blank])
        if name in benchmark:
            unknown = [UNKNOWN] * (n_tasks(record) - 1)
            rows.append([f"{name}, benchmark (theirs)", *unknown, three(benchmark[name]), *blank])

    for method in methods:
        if method["method"] == "redunet":
            strong.append(len(rows))
        first, *more = method_rows(record, method, places(record))
        of_method = [kept_bytes(method), raw_data(method)] if kept else None
        rows.append([*first, *(of_method or [measure(method, key) for key in measures])])
        rows += [[*row, *blank] for row in more]
        published(method["name"])
    if "ReduNet" not in {method["name"] for method in methods}:
        published("ReduNet")
    caption = "Accuracy on all classes seen, after each task"
    caption += ", and over all tasks" if measures else ""
    return Table(caption, ["method", *task_headings(record), *tail], rows, strong=strong)


def method_rows(record: Record, method: Record, places: int = 3) -> list[list[str]]:
    """A method's accuracies; a network's difference from the paper's; those without layers."""
    rows = [[label(method), *accuracy_cells(record, method, places)]]
    paper = paper_rows(record).get("ReduNet")
    without = by_task(method, "no_layers_accuracy")
    if paper and without:
        # A difference is that of the figures as they are shown.
        pairs = zip(by_task(method), paper, strict=False)
        cells = [signed(round(one.mean, 3) - round(other, 3)) for one, other in pairs]
        rows.append(["difference from the paper", *_filled(cells, record)])
    if without:
        readout = readout_name(method["settings"].get("readout", "subspace"))
        cells = [shown(value, places) for value in without]
        rows.append([f"{readout}, no layers", *_filled(cells, record)])
    return rows


def kept_bytes(method: Record) -> str:
    """Bytes that a method keeps after the last task, mean over seeds, where models were saved."""
    sizes = [run["tasks"][-1].get("bytes") for run in method["runs"]]
    if None in sizes:
        return UNKNOWN
    return in_bytes(sum(float(size.get(kind, 0)) for size in sizes for kind in KEPT) / len(sizes))


def exactness(record: Record) -> list[Block]:
    """The incremental model beside one that had all the data at once."""
    table = exactness_table(record)
    if not table.rows:
        return []
    differing = [row[0] for row in table.rows if row[1:5] != ["identical"] * 4]
    said = "Joint training sees the data of all tasks at once; the incremental model saw each task "
    said += "once and kept no sample. Moments are compared as integers, networks to the last bit "
    said += f"of every layer, files to the byte. Compared: {len(table.rows)}. "
    said += f"Not identical: {'; '.join(differing) or 'none'}."
    return [table, Text(said)]


def exactness_table(record: Record) -> Table:
    """A row for each comparison with joint training."""
    rows: list[list[str]] = []
    single = len(record["methods"]) == 1 and not record["methods"][0]["random"]
    for method in record["methods"]:
        for run in method["runs"]:
            name = f"{label(method)}, seed {run['seed']}" if method["random"] else label(method)
            tasks = [
                (f"task {t}" if single else f"{name}, task {t}", task)
                for t, task in enumerate(run["tasks"], 1)
            ]
            final = {"accuracy": run["tasks"][-1]["accuracy"], "joint": run.get("joint")}
            for words, one in [*tasks, (name, final)]:
                if joint := one.get("joint"):
                    rows.append([words, *_compared(one["accuracy"], joint)])
    headings = ["model", "moments", "network", "file", "test labels", "accuracy", "joint"]
    return Table("Incremental and joint training", headings, rows)


def _compared(accuracy: float, joint: Record) -> list[str]:
    same = joint["equivalence"]
    verdicts = ["identical" if same[k] else "different" for k in ("moments", "network", "file")]
    labels = same["labels_that_differ"]
    verdicts.append(f"{labels} differ" if labels else "identical")
    return [*verdicts, f"{accuracy:.4f}", f"{joint['accuracy']:.4f}"]


def orders(record: Record) -> list[Block]:
    """The hashes of the model files after learning the classes in several orders."""
    if not (found := record.get("orders")):
        return []
    every, files = len(found["rows"]), found["files"]
    said = (
        f"All {every} orders, and all classes at once, gave one file: {found['joint_sha256']}"
        if files == 1
        else f"{every} orders and all classes at once gave {files} different files."
    )
    said += f" ({found['samples']:,} samples of {found['n_features']:,} features"
    said += "; the feature map was learnt from data)" if found["features_learnt_from_data"] else ")"
    rows = [
        [
            str(row["seed"]),
            " | ".join(" ".join(map(str, task)) for task in row["tasks"]),
            row["sha256"][:16],
        ]
        for row in found["rows"]
    ]
    headings = ["seed", "classes, task by task", "sha256 of the model file"]
    return [Text(f"{said}."), Table("Orders of the classes", headings, rows, text_columns=3)]


def forgetting(record: Record) -> list[Block]:
    """The hashes of the model files before and after a class was forgotten."""
    if not (found := record.get("forget")):
        return []
    same = "identical" if found["after"] == found["never_seen"] else "different"
    rows = [
        ["with all classes", found["before"]],
        [f"after forgetting {found['class']}", found["after"]],
        [f"of a model that never saw {found['class']}", found["never_seen"]],
    ]
    table = Table(f"Class {found['class']} is forgotten", ["model file", "sha256"], rows, 2)
    return [table, Text(f"The last two files are {same}, to the byte.")]


def accuracy_by_task(record: Record) -> list[Block]:
    """Accuracy on each task's own classes, after the last one."""
    rows = []
    for method in record["methods"]:
        last = [run["tasks"][-1].get("accuracy_by_task") for run in method["runs"]]
        if method["method"] != "joint" and last and None not in last:
            cells = [shown(value) for value in over_seeds(last)]
            rows.append([label(method), *_filled(cells, record)])
    if not rows:
        return []
    tasks = [", ".join(map(str, task["classes"])) for task in record["stream"]]
    headings = ["classes", *_filled(tasks, record)]
    return [Table("Accuracy on each task's own classes, after the last task", headings, rows)]


def confusion(record: Record) -> list[Block]:
    """Confusion matrices after the last task."""
    known = [
        confusion_view(label(method), method["confusion"])
        for method in record["methods"]
        if method.get("confusion")
    ]
    return [confusion_figure(known, "After the last task, over all seeds.")] if known else []


def objective(record: Record) -> list[Block]:
    """The objective by layer, of the first run that knows it."""
    for method in record["methods"]:
        for run in method["runs"]:
            if (run.get("rates") or {}).get("delta_R"):
                whose = f"{label(method)}, seed {run['seed']}, after task {len(run['tasks'])}"
                said = f"{rate_words(run['rates'])} {whose}."
                return [Text(said), rate_figure(run["rates"], f"Rate reduction by layer: {whose}")]
    return []


def cost(record: Record) -> list[Block]:
    """Time for all tasks, bytes kept after the last one, and the most memory held at once."""
    rows: list[list[str]] = []
    strong = []
    for method in record["methods"]:
        runs = method["runs"]
        times = [[_seconds(run, part) for run in runs] for part in ("learn", "evaluate")]
        sizes = [(run["tasks"][-1].get("bytes") or {}) for run in runs]
        kept = [[one.get(kind) for one in sizes] for kind in KEPT]
        peaks = [[run.get(f"peak_{kind}_bytes") for run in runs] for kind in PEAKS]
        if method["method"] == "redunet":
            strong.append(len(rows))
        rows.append(
            [
                label(method),
                *(_mean(values, in_seconds) for values in times),
                *(_mean(values, in_bytes) for values in (*kept, *peaks)),
                raw_data(method),
            ]
        )
    if not rows or not any(cell != UNKNOWN for row in rows for cell in row[1:-1]):
        return []
    headings = ["method", "seconds learning", "seconds labelling", *KEPT]
    headings += ["memory", "GPU memory", "raw data"]
    caption = "Time for all tasks, bytes kept after the last one, and memory"
    return [Table(caption, headings, rows, 1, strong), Text(COST)]


def _seconds(run: Record, part: str) -> float | None:
    """Seconds for all tasks; of shared moments, what the run as a whole took."""
    parts = [(task.get("seconds") or {}).get(part) for task in run["tasks"]]
    known = [value for value in parts if value is not None]
    if len(known) == len(parts):
        return float(sum(known))
    return (run.get("seconds") or {}).get(part)


def _mean(values: Sequence[float | None], written: Callable[[float], str]) -> str:
    known = [value for value in values if value is not None]
    return written(sum(known) / len(known)) if known and len(known) == len(values) else UNKNOWN


def raw_data(method: Record) -> str:
    """Which raw samples a method goes back to in later tasks."""
    if method["method"] == "joint":
        return "all"
    return "exemplars" if method["raw_data_kept"] else "none"


def _known(method: Record, key: str) -> bool:
    return measure(method, key) != UNKNOWN


def _filled(cells: Sequence[str], record: Record) -> list[str]:
    return [*cells, *[UNKNOWN] * (n_tasks(record) - len(cells))]


KINDS: dict[str, dict[str, Contents]] = {
    "experiment": {
        "Result": result,
        "Equal to joint training": exactness,
        "What each ingredient adds": ingredients,
        "Orders of the classes": orders,
        "Forgetting a class": forgetting,
        "Accuracy by task": accuracy_by_task,
        "Confusion matrix": confusion,
        "The objective by layer": objective,
        "Cost": cost,
        "What was run": what_was_run,
    },
    "tune": {"Best settings": candidates, "What was run": searched},
}
