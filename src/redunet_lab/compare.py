"""Methods beside one another over one stream, and a network beside its own parts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from redunet.errors import SettingsError
from redunet.progress import Progress, silent
from redunet_lab import report
from redunet_lab.comparison import Comparison
from redunet_lab.experiment import Experiment
from redunet_lab.methods import FOR_VECTORS, PAIRS_UP_TO, Method, check_methods, names
from redunet_lab.paper import PAPER, PUBLISHED, SETTINGS

CHOSEN_ON = (
    "Nothing here was chosen on test data: the recipe was frozen before, and the variants follow "
    "from it by rule."
)


def compare(
    data: str | None,
    out: Path,
    command: str | None = None,
    *,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    recipe: str | None = None,
    config: Path | None = None,
    changes: Mapping[str, Mapping[str, Any]] | None = None,
    label: str | None = None,
    test: str | None = None,
    ablate: bool = False,
    joint: bool | None = None,
    checkpoints: bool = True,
    device: str = "auto",
    memory: str = "2GB",
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run methods over one stream; write record, figures and reports of all that is there.

    Each method and seed has a folder of its own, so several processes may work
    on different methods of one ``out`` side by side. Runs that are there already,
    finished or not, are continued. The record tells of all finished runs in the
    folder, whoever made them, and of what was begun or asked for and is missing.
    """
    start = time.perf_counter()
    changes = {key: dict(values) for key, values in (changes or {}).items()}
    check_methods([*([] if methods is None else methods or ["none"]), *changes])
    experiment = Experiment.of(
        data,
        recipe=recipe,
        usual=SETTINGS,
        config=config,
        changes=changes.pop("redunet", {}),
        label=label,
        test=test,
    )
    everyone = {key: Method.of(key, experiment, changes.get(key)) for key in names()}
    dataset = experiment.load(data_dir)
    vectors = dataset.x_train.ndim == 2
    on_moments_only = ablate or vectors
    few_classes = len(set(dataset.y_train.tolist())) <= PAIRS_UP_TO
    expected = [
        key
        for key, method in everyone.items()
        if (method.on_moments if on_moments_only else key != "subspace")
        and (vectors or key not in FOR_VECTORS)
        and (few_classes or key != "pairwise")
    ]
    wanted = expected if methods is None else list(dict.fromkeys(methods))
    if (ablate or joint) and "redunet" not in wanted:
        raise SettingsError("expected redunet among the methods, whose parts are to be compared")
    runs = Comparison(
        experiment,
        [everyone[key] for key in wanted],
        seeds,
        dataset,
        out,
        device,
        memory,
        extras=[
            *(["joint"] if (ablate if joint is None else joint) else []),
            *(["ablation"] if ablate else []),
        ],
        checkpoints=checkpoints,
    )
    fresh = runs.run(progress)
    title, count = experiment.title, len(runs.tasks(seeds[0]))
    what = f"Methods compared on {title}, {count} tasks"
    paper = PAPER.get(experiment.data)
    if ablate:
        what = f"Recipe {recipe} on {title}, {count} tasks" if recipe else what
        paper = paper and {key: paper[key] for key in ("row", "source")}
    more: dict[str, Any] = {"chosen_on": CHOSEN_ON} if recipe and ablate else {}
    if fresh:
        more["seconds"] = round(time.perf_counter() - start, 1)
    record = runs.record(
        what, command, wanted, paper=paper, published=PUBLISHED.get(experiment.data), **more
    )
    report.write(record, out)
    return record
