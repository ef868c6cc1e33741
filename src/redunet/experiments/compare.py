"""Methods beside one another: learners × seeds over one stream, each run resumable by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redunet.datasets import load
from redunet.errors import SettingsError
from redunet.estimators import storage
from redunet.estimators.metrics import summed_confusion
from redunet.experiments.entrants import FEATURES, NAMES, Entrant, check_methods
from redunet.experiments.plan import completed, planned
from redunet.experiments.reproduce import PAPER
from redunet.experiments.runner import read_record, record_so_far, run, write_record
from redunet.experiments.streams import StreamSettings, Task
from redunet.progress import Progress, silent
from redunet.report.blocks import Chapter
from redunet.report.comparison import comparison_sections
from redunet.report.document import to_markdown
from redunet.report.figures import methods_over_tasks
from redunet.report.page import page
from redunet.rivals import GRADIENT

PUBLISHED: dict[str, dict[str, Any]] = {
    "cifar10": {
        "last": {
            "fine-tuning": 0.196,
            "joint training": 0.922,
            "LwF": 0.196,
            "oEWC": 0.195,
            "SI": 0.195,
            "iCaRL": 0.490,
            "ER": 0.448,
            "DER++": 0.649,
        },
        "source": "Buzzega et al., NeurIPS 2020",
    },
}
"""Figures of the benchmark whose settings the gradient methods have, after the last task."""

TITLES = {"mnist": "MNIST", "fashion_mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}
_MOMENTS = ("counts", "sums", "second_moments")


def compare(
    data: str,
    out: Path,
    *,
    methods: Sequence[str] = tuple(NAMES),
    seeds: Sequence[int] = (0,),
    recipe: str | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    device: str = "auto",
    memory: str = "2GB",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run methods over one stream; leave record, figure and reports of all that is there.

    Each method and seed has a folder of its own, ``out/METHOD/seed-S``, so
    several processes may work on different methods side by side. Runs that
    are there already, whole or in part, are taken up. The record tells of all
    finished runs in the folder, whoever made them, and of what is missing.

    Parameters
    ----------
    data : str
        A data set of `redunet.datasets`.
    out : Path
    methods : sequence of str, default=all
        Keys of `redunet.experiments.entrants.NAMES`.
    seeds : sequence of int, default=(0,)
        A method in which nothing is random runs once, whatever the seeds.
    recipe : str, default=None
        ReduNet's features and network in place of those that are usual for the
        data; the closed-form methods have its features too.
    changes : mapping from a method to settings, default=None
        Settings other than the usual ones, or than the recipe's.
    device, memory
        As for `ReduNetClassifier`.
    data_dir : Path, default=None
        Where the data set may lie already.
    progress : callable, default=nothing
        Told what begins, and which share of the whole is done.

    Returns
    -------
    dict
        The record, as it was saved.
    """
    changes = dict(changes or {})
    if recipe is not None:
        whole = planned(recipe).to_dict()
        chosen = {
            key: value
            for key, value in whole.items()
            if key not in (*StreamSettings.names(), "seed")
        }
        changes["redunet"] = {**chosen, **changes.get("redunet", {})}
    check_methods([*(methods or ["none"]), *changes])
    dataset = load(data, data_dir)
    everyone = {method: Entrant.of(method, data, changes) for method in NAMES}
    entrants = [everyone[method] for method in dict.fromkeys(methods)]
    tasks = everyone["redunet"].plan.stream(dataset)
    jobs = {
        _folder(out, entrant.method, seed): (entrant, seed, entrant.record_settings(tasks, seed))
        for entrant in entrants
        for seed in entrant.seeds(seeds)
    }
    # Whatever speaks against this is told before anything runs.
    for entrant in entrants:
        entrant.learner(tasks, 0, device, memory)
    there = {folder: record["settings"] for folder, record in _found(out, everyone).items()}
    _check_alike({folder: settings for folder, (*_, settings) in jobs.items()} | there)
    done = {
        folder: len(record_so_far(folder / "record.json", settings)["tasks"])
        for folder, (*_, settings) in jobs.items()
    }
    for index, (folder, (entrant, seed, settings)) in enumerate(jobs.items()):
        words = entrant.name + (f", seed {seed}" if entrant.random else "")

        def tell(what: str, share: float, index: int = index, words: str = words) -> None:
            progress(f"{words}, {what}", (index + share) / len(jobs))

        own = entrant.tasks(tasks)
        if done[folder] < len(own):
            learner = entrant.learner(tasks, seed, device, memory)
            run(learner, own, settings, folder, progress=tell)
    record = assembled(out, everyone, tasks, seeds)
    leave(record, out)
    return record


def assembled(
    out: Path, everyone: Mapping[str, Entrant], tasks: tuple[Task, ...], seeds: Sequence[int]
) -> dict[str, Any]:
    """One record of all finished runs in a folder, and of the runs that are missing there.

    Parameters
    ----------
    out : Path
    everyone : mapping from a method to Entrant
        All methods.
    tasks : tuple of Task
    seeds : sequence of int
        Those that are there for some method are wanted of the others too.
    """
    found = _found(out, everyone)
    _check_alike({folder: record["settings"] for folder, record in found.items()})
    theirs = {(r["settings"]["method"], r["settings"]["seed"]): r for r in found.values()}
    random = [seed for method, seed in theirs if everyone[method].random]
    methods, missing = [], []
    for method, entrant in everyone.items():
        runs = []
        for seed in entrant.seeds(sorted({*seeds, *random})):
            one = theirs.get((method, seed), {"tasks": []})
            if len(one["tasks"]) == len(entrant.tasks(tasks)):
                runs.append(one)
            else:
                done = len(one["tasks"])
                missing.append({"name": entrant.name, "seed": seed, "tasks_done": done})
        if runs:
            methods.append(_method(entrant, runs))
    data = everyone["redunet"].plan.data
    return {
        "what": f"Methods compared on {TITLES.get(data, data)}, {len(tasks)} tasks",
        "command": _commands(data, methods),
        "data": data,
        "stream": [
            {
                "classes": list(task.classes),
                "train_samples": len(task.train_rows),
                "test_samples": len(task.test_rows),
            }
            for task in tasks
        ],
        "paper": PAPER.get(data),
        "published": PUBLISHED.get(data),
        "methods": methods,
        "missing": missing,
        "date": max((one["date"] for method in methods for one in method["runs"]), default=None),
    }


def leave(record: dict[str, Any], out: Path) -> None:
    """Save record, figure and reports."""
    write_record(out / "record.json", record)
    picture = methods_over_tasks(record)
    storage.write_bytes(out / "accuracy.png", picture)
    markdown = to_markdown(record, {"accuracy": "accuracy.png"}, comparison_sections)
    storage.write_bytes(out / "report.md", markdown.encode())
    chapter = Chapter(record["what"], comparison_sections(record))
    storage.write_bytes(out / "report.html", page([chapter]).encode())


def _method(entrant: Entrant, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A method's finished runs, with what was not as usual."""
    recorded = records[0]["settings"]
    usual = Entrant.of(entrant.method, entrant.plan.data, {}).settings
    settings = {key: value for key, value in recorded.items() if key in {*entrant.settings, *usual}}
    runs = [_run(record, whole_stream=entrant.method != "joint") for record in records]
    last = [next(iter(record["tasks"][-1]["readings"].values())) for record in records]
    confusion = summed_confusion([reading.get("confusion") for reading in last])
    return {
        "method": entrant.method,
        "name": entrant.name,
        "kind": "gradient" if entrant.method in GRADIENT else "moments",
        "random": entrant.random,
        "settings": settings,
        "changed": {
            key: {"usual": usual.get(key), "here": value}
            for key, value in settings.items()
            if value != usual.get(key)
        },
        "raw_data_kept": any(run["tasks"][-1]["bytes"]["exemplars"] for run in runs),
        **({"confusion": confusion} if confusion else {}),
        "runs": runs,
    }


def _run(record: dict[str, Any], whole_stream: bool) -> dict[str, Any]:
    """A run without what others of its method say too."""
    summary = record["summary"] if whole_stream else {"last": record["summary"]["last"]}
    return {
        "seed": record["settings"]["seed"],
        "tasks": [
            {
                "accuracy": round(row["accuracy"], 6),
                "accuracy_by_task": [round(value, 6) for value in row["accuracy_by_task"]],
                "seconds": row["seconds"],
                "bytes": bytes_by_kind(row["bytes_kept"]),
            }
            for row in record["tasks"]
        ],
        "summary": {key: round(value, 6) for key, value in summary.items()},
        **{key: record[key] for key in ("peak_memory_bytes", "date", "machine", "versions")},
    }


def bytes_by_kind(sizes: Mapping[str, int]) -> dict[str, int]:
    """Bytes of parameters, moments and exemplars, from those of each tensor in a model's file.

    Examples
    --------
    >>> bytes_by_kind({"counts": 80, "sums": 640, "features.mean": 8, "exemplars.images": 50})
    {'parameters': 8, 'moments': 720, 'exemplars': 50}
    """
    kinds = {"parameters": 0, "moments": 0, "exemplars": 0}
    for name, size in sizes.items():
        kept = "exemplars" if name.startswith("exemplars.") else "parameters"
        kinds["moments" if name in _MOMENTS else kept] += size
    return kinds


def _commands(data: str, methods: Sequence[Mapping[str, Any]]) -> str:
    """What a reader would type for these runs: a line for each set of seeds."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for method in sorted(methods, key=lambda method: not method["random"]):
        seeds = ",".join(str(run["seed"]) for run in method["runs"])
        first = next(iter(groups), seeds)  # any seeds will do where nothing is random
        groups.setdefault(seeds if method["random"] else first, []).append(method)
    lines = []
    for seeds, group in groups.items():
        words = [f"redunet compare --data {data} --seeds {seeds}"]
        if len(group) < len(NAMES):
            words.append(f"--methods {','.join(method['method'] for method in group)}")
        changes = {
            f"{'redunet' if key in FEATURES else method['method']}.{key}": change["here"]
            for method in group
            for key, change in method["changed"].items()
        }
        words += [f"--set {key}={_word(value)}" for key, value in changes.items()]
        lines.append(" ".join(words))
    return "\n".join(lines)


def _word(value: Any) -> str:
    """A setting as it is typed."""
    return ",".join(map(_word, value)) if isinstance(value, list) else str(value).lower()


def _folder(out: Path, method: str, seed: int) -> Path:
    return out / method / f"seed-{seed}"


def _found(out: Path, everyone: Mapping[str, Entrant]) -> dict[Path, dict[str, Any]]:
    """The records of all runs in a folder, finished or not, by the folder of each."""
    records = {}
    for method, entrant in everyone.items():
        for path in sorted((out / method).glob("seed-*/record.json")):
            record = read_record(path)
            record["settings"] = completed(record["settings"], entrant.settings)
            records[path.parent] = record
    return records


def _check_alike(runs: Mapping[Path, Mapping[str, Any]]) -> None:
    """Complain of runs that cannot stand in one table.

    All must have the same stream, all methods on features the same features,
    and all runs of a method the same settings but for the seed.
    """
    known: dict[tuple[str, str], Any] = {}
    for folder, settings in runs.items():
        for key in settings.keys() - {"method", "seed"}:
            whose = "" if key in (*StreamSettings.names(), *FEATURES) else settings["method"]
            if known.setdefault((whose, key), settings[key]) != settings[key]:
                raise SettingsError(
                    f"{folder} holds a run with another {key} than the others here: "
                    f"name another folder, or remove it"
                )
