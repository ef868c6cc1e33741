"""The sentences beside a record's tables."""

from __future__ import annotations

from redunet.report.words import plain, three
from redunet_lab.report.numbers import Record, is_same, label, last, paper_rows, shown, signed

FORGETFUL = ("finetune", "lwf", "ewc", "si")
JOINT = (
    "Joint training learns all classes at once by gradient descent: what the gradient "
    "methods could reach if they forgot nothing. It has a figure for the last task alone."
)
MOST_SUMMED_UP = 4


def summary(record: Record) -> list[str]:
    """The outcome, in a sentence for each network."""
    methods = record["methods"]
    paper = paper_rows(record).get("ReduNet", ())
    said = []
    for method in [one for one in methods if one["method"] == "redunet"][:MOST_SUMMED_UP]:
        count = min(len(run["tasks"]) for run in method["runs"])
        text = f"{label(method)}: accuracy {shown(last(method))} on all classes seen after task "
        text += f"{count}"
        text += f" (mean of {len(method['runs'])} seeds)" if len(method["runs"]) > 1 else ""
        if len(paper) >= count:
            theirs = round(paper[count - 1], 3)
            apart = signed(round(last(method).mean, 3) - theirs)
            text += f"; the paper reports {three(theirs)}, a difference of {apart}"
        compared = [run["joint"]["equivalence"] for run in method["runs"] if run.get("joint")]
        if compared and all(map(is_same, compared)):
            text += "; identical to joint training, to the byte"
        said.append(f"{text}.")
    if len({method["method"] for method in methods}) > 1:
        best = max(methods, key=lambda method: last(method).mean)
        said.append(f"Highest after the last task: {label(best)}, {shown(last(best))}.")
    return said


def result_notes(record: Record) -> list[str]:
    """The sentences that a reader of the accuracies needs."""
    methods = record["methods"]
    said = []
    if any(method["method"] in FORGETFUL for method in methods):
        said.append(what_to_expect(len(record["stream"])))
    if any(method["method"] == "joint" for method in methods):
        said.append(JOINT)
    exact = [label(method) for method in methods if method["type"] == "moments"]
    if exact and len(methods) > 1:
        names = "all methods" if len(exact) == len(methods) else ", ".join(exact)
        said.append(f"Computed from class moments, and so the same task by task as joint: {names}.")
    seeds = sorted({run["seed"] for m in methods if m["random"] for run in m["runs"]})
    if seeds:
        deviation = "; ± is the standard deviation over seeds (n − 1)" if len(seeds) > 1 else ""
        said.append(f"Seeds of random methods: {', '.join(map(str, seeds))}{deviation}.")
    if record.get("chosen_on"):
        said.append(record["chosen_on"])
    if paper_rows(record):
        said.append(f"Theirs: as printed in {record['paper']['source']}, not run again here.")
    if benchmark := record.get("published"):
        said.append(f"Benchmark: {benchmark['source']}, after the last task, not run again here.")
    for run in [run for method in methods for run in method["runs"]]:
        if run.get("calibration_error") is not None:
            said.append(f"Expected calibration error: {run['calibration_error']:.4f}.")
    return said


def what_to_expect(n_tasks: int) -> str:
    """Why some methods end near chance in this setting."""
    return (
        f"About 1/{n_tasks} = {1 / n_tasks:.3g} is what fine-tuning, LwF, oEWC and SI are expected "
        f"to show after {n_tasks} tasks: without a task identity at test time the outputs of the "
        f"last task win, and a penalty on weights or old outputs never compares classes that were "
        f"not seen together."
    )


def changed_and_missing(record: Record) -> list[str]:
    """Settings that are not the usual ones or cannot work, and runs that are missing."""
    said = []
    if changed := [
        f"{label(method)}: {key} {plain(change['here'])} (usually {plain(change['usual'])})"
        for method in record["methods"]
        for key, change in (method.get("changed") or {}).items()
    ]:
        said.append(f"Not with the usual settings: {'; '.join(changed)}.")
    if missing := [
        f"{one['name']} seed {one['seed']}, {one['tasks_done']} tasks done"
        for one in record.get("missing") or ()
    ]:
        said.append(f"Missing: {'; '.join(missing)}.")
    return [*said, *(f"ReduNet: {doubt}." for doubt in record.get("doubts") or ())]
