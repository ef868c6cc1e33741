"""ReduNet over a stream: any experiment, and the paper's beside the paper's own figures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from redunet.progress import Progress, silent
from redunet.report.words import readout_name
from redunet_lab import report
from redunet_lab.comparison import Comparison
from redunet_lab.experiment import Experiment
from redunet_lab.methods import Method
from redunet_lab.paper import PAPER


def run_network(
    experiment: Experiment,
    out: Path,
    command: str | None = None,
    *,
    what: str | None = None,
    readings: Mapping[str, int] | None = None,
    paper: str | None = None,
    seeds: Sequence[int] | None = None,
    device: str = "auto",
    memory: str = "2GB",
    joint: bool = True,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> dict[str, Any]:
    """Run ReduNet over a stream; write record, figures and reports to a folder."""
    start = time.perf_counter()
    data = experiment.load(data_dir)
    seeds = (experiment.seed,) if seeds is None else seeds
    one = experiment.plan.n_ensemble == 1  # of an ensemble, each network has rates of its own
    extras = [*(["joint"] if joint else []), *(["rates"] if one else [])]
    runs = Comparison(experiment, [], seeds, data, out, device, memory, extras=extras)
    if readings is None:
        components = experiment.components(runs.vectors(seeds[0]).n_features)
        readout = experiment.model_settings["readout"]
        of_components = f"{components} components"
        readings = {of_components if readout == "subspace" else readout_name(readout): components}
    runs.methods = [replace(Method.of("redunet", experiment), readings=readings)]
    fresh = runs.run(progress)
    more: dict[str, Any] = {"seconds": round(time.perf_counter() - start, 1)} if fresh else {}
    features = experiment.model_settings["features"]
    record = runs.record(
        what or f"ReduNet on {experiment.title}, {features}",
        command,
        paper=PAPER.get(paper or ""),
        **more,
    )
    report.write(record, out)
    return record
