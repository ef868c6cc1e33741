"""Methods over the stream of an experiment: each run resumable by itself, one record of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redunet.errors import SettingsError
from redunet.estimators.inspection import rates_by_layer
from redunet.progress import Progress, part_of, silent
from redunet_lab.ablation import ablation, check_variants
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.equivalence import joint_check
from redunet_lab.experiment import Experiment, with_defaults
from redunet_lab.methods import Method, check_alike, names
from redunet_lab.record import VERSION, method_rows, read_run, run_so_far
from redunet_lab.runner import Evaluation, run
from redunet_lab.shared_moments import SharedMoments
from redunet_lab.streams import Arrays, Task, described


@dataclass(frozen=True, eq=False)
class Runs:
    """Methods × seeds over one stream, in a folder.

    Each method and seed has a folder of its own, ``out/METHOD/seed-S``, so
    several processes may work on different methods side by side. Methods on
    moments share a learner, ``out/moments/seed-S``, but for those with features of
    their own. Runs that are there already,
    finished or not, are continued.

    Parameters
    ----------
    experiment : Experiment
    methods : sequence of Method
    seeds : sequence of int
        A method in which nothing is random runs once, whatever the seeds.
    data : data set
    out : Path
    device, memory
        As for `ReduNetClassifier`.
    rates : bool, default=False
        Whether to record the rates of each layer of ReduNet.
    joint, ablate : bool, default=False
        Whether to compare ReduNet with joint training, and with its parts alone,
        after the last task, for the first seed.
    after_task : callable, default=None
        From what makes a model that has learnt nothing, ReduNet's model, the tasks
        seen, and the row of the record, to further entries of the row.
    checkpoints : bool, default=True
        Whether to save models after each task, so that runs resume from there.
    """

    experiment: Experiment
    methods: Sequence[Method]
    seeds: Sequence[int]
    data: Arrays
    out: Path
    device: str = "auto"
    memory: str = "2GB"
    rates: bool = False
    joint: bool = False
    ablate: bool = False
    after_task: Callable[[Any, Any, Any, dict[str, Any]], Mapping[str, Any]] | None = None
    checkpoints: bool = True
    _kept: dict[int, SharedMoments] = field(default_factory=dict)

    def tasks(self, seed: int = 0) -> tuple[Task, ...]:
        """The stream, with the subsets of a seed."""
        return self.experiment.changed({"seed": seed}).tasks(self.data)

    def run(self, progress: Progress = silent) -> None:
        """Run what is not finished; whatever is wrong is an error before anything runs."""
        self._check()
        together = [method for method in self.methods if _shares(method)]
        jobs = [([method], seed) for method, seed in self._each() if not _shares(method)]
        if together:
            jobs = [(together, seed) for seed in together[0].seeds(self.seeds)] + jobs
        for index, (methods, seed) in enumerate(jobs):
            who = methods[0].name if len(methods) == 1 else "methods on class moments"
            words = who + (f", seed {seed}" if methods[0].random else "")

            def tell(what: str, share: float, index: int = index, words: str = words) -> None:
                progress(f"{words}, {what}", (index + share) / len(jobs))

            if _shares(methods[0]):
                self._run_on_moments(methods, seed, tell)
            else:
                self._run_alone(methods[0], seed, tell)

    def _each(self) -> list[tuple[Method, int]]:
        return [(method, seed) for method in self.methods for seed in method.seeds(self.seeds)]

    def _check(self) -> None:
        settings = {}
        for method in self.methods:
            if self.experiment.plan.shifts and method.key in CLOSED_FORMS:
                raise SettingsError(
                    f"expected methods that can learn shifts with shifts=true, got {method.key}: "
                    f"leave it out of --methods"
                )
        for method, seed in self._each():
            folder, tasks = self._folder(method.key, seed), self.tasks(seed)
            settings[folder] = method.run_settings(tasks, seed)
            run_so_far(folder / "record.json", settings[folder])
            if not _shares(method):
                method.learner(tasks, seed, self.device)
        if first := next((method for method in self.methods if _shares(method)), None):
            shared = self.shared(first.seeds(self.seeds)[0])
            shared.learner()
            self.experiment.components(shared.n_features)
            if self.ablate:
                check_variants(shared)
        there = {self._folder(*key): record["settings"] for key, record in self.found().items()}
        check_alike(settings | there)

    def _run_on_moments(self, methods: Sequence[Method], seed: int, tell: Progress) -> None:
        shared, first = self.shared(seed), seed == methods[0].seeds(self.seeds)[0]
        learnt = 0.5 if self.ablate and first else 1.0  # taking apart takes as long, or longer
        taking_apart = part_of(tell, learnt, 1.0)
        evaluations = [
            shared.evaluation(
                method,
                self._folder(method.key, seed),
                method.run_settings(shared.tasks, seed),
                **(self._extras(shared, first, taking_apart) if method.key == "redunet" else {}),
            )
            for method in methods
        ]
        folder = self.out / "moments" / f"seed-{seed}" if self.checkpoints else None
        run(shared.learner, shared.tasks, evaluations, folder, part_of(tell, 0.0, learnt))

    def _run_alone(self, method: Method, seed: int, tell: Progress) -> None:
        tasks, folder = self.tasks(seed), self._folder(method.key, seed)
        evaluation = Evaluation(folder, method.run_settings(tasks, seed))

        def learner() -> Any:
            return method.learner(tasks, seed, self.device)

        checkpoints = folder if self.checkpoints else None
        run(learner, method.stream(tasks), [evaluation], checkpoints, tell)

    def shared(self, seed: int) -> SharedMoments:
        """The learner that the methods on moments share, for a seed; the last one is kept."""
        if seed not in self._kept:
            self._kept.clear()
            at_seed = self.experiment.changed({"seed": seed})
            tasks = at_seed.tasks(self.data)
            self._kept[seed] = SharedMoments(at_seed, tasks, self.device, self.memory)
        return self._kept[seed]

    def _extras(self, shared: SharedMoments, first: bool, tell: Progress) -> dict[str, Any]:
        """What is computed of ReduNet beside its labels."""
        at_end: dict[str, Callable[[Any], Any]] = {}

        def joint(model: Any) -> dict[str, Any]:
            shared.forget_vectors()  # two models take their room
            return joint_check(model, shared.tasks, shared.learner)

        if self.joint and first:
            at_end["joint"] = joint
        if self.rates:  # after the passes of the comparison, which leave them
            at_end["rates"] = rates_by_layer
        if self.ablate and first:
            at_end["ablation"] = lambda model: ablation(shared, model, tell)
        after = self.after_task
        return {
            "at_end": at_end,
            "after_task": after and (lambda *about: after(shared.learner, *about)),
        }

    def _folder(self, method: str, seed: int) -> Path:
        return self.out / method / f"seed-{seed}"

    def found(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The records of all runs in the folder, finished or not, by method and seed."""
        records = {}
        for key in names():
            for path in sorted((self.out / key).glob("seed-*/record.json")):
                record = read_run(path)
                wanted = Method.of(key, self.experiment).run_settings((), 0)
                record["settings"] = with_defaults(record["settings"], wanted)
                records[key, record["settings"]["seed"]] = record
        return records

    def _commands(self, command: str | None) -> str | None:
        """The commands that filled the folder, a line each: those recorded there, then this."""
        try:
            text = (self.out / "record.json").read_text(encoding="utf-8")
            before = (json.loads(text)["command"] or "").splitlines()
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            before = []  # none yet, or it is damaged, and replaced now
        lines = [*before, *([command] if command else [])]
        return "\n".join(dict.fromkeys(lines)) or None

    def record(
        self,
        what: str,
        command: str | None,
        expected: Sequence[str] = (),
        **more: Any,
    ) -> dict[str, Any]:
        """The record of all finished runs in the folder, and of the runs missing there.

        Parameters
        ----------
        what : str
            The title.
        command : str, or None
            What was typed; it follows the commands that earlier calls left in the folder.
        expected : sequence of str, default=none
            Methods that are listed as missing where they have not finished, beside those
            that have begun.
        **more
            Further entries.
        """
        found, tasks = self.found(), self.tasks(self.seeds[0])
        check_alike({self._folder(*key): record["settings"] for key, record in found.items()})
        own = {method.key: method for method in self.methods}
        rows: list[dict[str, Any]] = []
        missing, ablations = [], []
        begun = {key for key, _ in found}
        for key in names():
            method = own.get(key) or Method.of(key, self.experiment)
            others = [seed for other, seed in found if Method.of(other, self.experiment).random]
            finished = []
            for seed in method.seeds(sorted({*self.seeds, *others})):
                one = found.get((key, seed), {"tasks": []})
                if len(one["tasks"]) == len(method.stream(tasks)):
                    finished.append(one)
                elif key in expected or key in begun:
                    done = len(one["tasks"])
                    missing.append({"name": method.name, "seed": seed, "tasks_done": done})
            if finished:
                about = method.about(finished[0]["settings"])
                rows += method_rows(about, finished, method.readings, n_tasks=len(tasks))
                ablations += [one["ablation"] for one in finished if "ablation" in one]
        dates = [one["date"] for row in rows for one in row["runs"] if "date" in one]
        same = [one for row in rows[:1] for one in row["runs"][:1]]
        return {
            "kind": "experiment",
            "version": VERSION,
            "what": what,
            "command": self._commands(command),
            "data": self.experiment.data,
            "title": self.experiment.title,
            "recipe": self.experiment.recipe,
            "stream": described(tasks),
            **({"split": split} if (split := getattr(self.data, "split", None)) else {}),
            "methods": rows,
            "missing": missing,
            **({"doubts": doubts} if (doubts := self.experiment.doubts(self.data)) else {}),
            **({"ablation": ablations[0]} if ablations else {}),
            **more,
            "date": max(dates, default=None),
            **{key: one[key] for one in same for key in ("machine", "versions") if key in one},
        }


def _shares(method: Method) -> bool:
    """Whether a method answers from the moments that others learnt."""
    return method.on_moments and not method.own_features
