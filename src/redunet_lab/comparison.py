"""Methods over the stream of an experiment: each run resumable by itself, one record of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from redunet.errors import SettingsError
from redunet.estimators.inspection import rates_by_layer
from redunet.progress import Progress, part_of, silent
from redunet_lab.ablation import ablation, check_variants
from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.datasets.dataset import Samples
from redunet_lab.equivalence import joint_check
from redunet_lab.experiment import FEATURES, Experiment
from redunet_lab.methods import Method, names
from redunet_lab.record import experiment_record, method_rows, read_run, run_so_far
from redunet_lab.runner import Entry, run
from redunet_lab.streams import Task
from redunet_lab.vectors import Vectors

_SHARED = {*FEATURES, "data", "train_per_class", "test_per_class", "label", "test", "shuffle"}
"""Settings that all runs of a folder have in common; others are a method's own."""


class Comparison:
    """Methods × seeds over one stream, in a folder.

    Each method and seed has a folder of its own, ``out/METHOD/seed-S``, so
    several processes may work on different methods side by side. Methods on
    moments share a learner, ``out/moments/seed-S``, but for those with features of
    their own. Runs that are there already, finished or not, are continued.
    """

    def __init__(
        self,
        experiment: Experiment,
        methods: Sequence[Method],
        seeds: Sequence[int],
        data: Samples,
        out: Path,
        device: str = "auto",
        memory: str = "2GB",
        *,
        extras: Collection[str] = (),
        checkpoints: bool = True,
    ) -> None:
        self.experiment, self.methods, self.seeds = experiment, methods, seeds
        self.data, self.out, self.device, self.memory = data, out, device, memory
        self.extras, self.checkpoints = extras, checkpoints
        self._vectors: dict[int, Vectors] = {}

    def tasks(self, seed: int = 0) -> tuple[Task, ...]:
        """The stream, with the subsets of a seed."""
        return self.experiment.changed({"seed": seed}).tasks(self.data)

    def vectors(self, seed: int) -> Vectors:
        """Features and test vectors that the methods on moments share; of one seed at a time."""
        if seed not in self._vectors:
            self._vectors.clear()
            at_seed = self.experiment.changed({"seed": seed})
            tasks = at_seed.tasks(self.data)
            self._vectors[seed] = Vectors(at_seed, tasks, self.device, self.memory)
        return self._vectors[seed]

    def run(self, progress: Progress = silent) -> bool:
        """Run the methods; whatever is wrong is an error before anything runs."""
        before = self._checked()
        together = [method for method in self.methods if method.shares_moments]
        jobs = [([m], seed) for m, seed in self._each() if not m.shares_moments]
        if together:
            jobs = [(together, seed) for seed in together[0].seeds(self.seeds)] + jobs
        for index, (methods, seed) in enumerate(jobs):
            who = methods[0].name if len(methods) == 1 else "methods on class moments"
            words = who + (f", seed {seed}" if methods[0].random else "")

            def tell(what: str, share: float, index: int = index, words: str = words) -> None:
                progress(f"{words}, {what}", (index + share) / len(jobs))

            if methods[0].shares_moments:
                self._run_on_moments(methods, seed, tell)
            else:
                self._run_alone(methods[0], seed, tell)
        return not before

    def _each(self) -> list[tuple[Method, int]]:
        return [(method, seed) for method in self.methods for seed in method.seeds(self.seeds)]

    def _checked(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The runs that are in the folder, once all that can be wrong has been looked at."""
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
            if not method.shares_moments:
                method.learner(tasks, seed, self.device)
        if first := next((method for method in self.methods if method.shares_moments), None):
            vectors = self.vectors(first.seeds(self.seeds)[0])
            vectors.learner()
            self.experiment.components(vectors.n_features)
            if "ablation" in self.extras:
                check_variants(vectors)
        found = self.found()
        there = {self._folder(*key): record["settings"] for key, record in found.items()}
        check_alike(settings | there)
        return found

    def _run_on_moments(self, methods: Sequence[Method], seed: int, tell: Progress) -> None:
        vectors, first = self.vectors(seed), seed == methods[0].seeds(self.seeds)[0]
        # Taking apart takes as long as learning, or longer.
        learnt = 0.5 if "ablation" in self.extras and first else 1.0
        apart = part_of(tell, learnt, 1.0)
        entries = [self._entry(method, seed, vectors, first, apart) for method in methods]
        folder = self.out / "moments" / f"seed-{seed}" if self.checkpoints else None
        telling = part_of(tell, 0.0, learnt)
        run(vectors.learner, vectors.tasks, entries, folder, vectors, telling)

    def _run_alone(self, method: Method, seed: int, tell: Progress) -> None:
        tasks, folder = self.tasks(seed), self._folder(method.key, seed)
        entry = Entry(folder, method.run_settings(tasks, seed))

        def learner() -> Any:
            return method.learner(tasks, seed, self.device)

        checkpoints = folder if self.checkpoints else None
        run(learner, method.stream(tasks), [entry], checkpoints, progress=tell)

    def _entry(
        self, method: Method, seed: int, vectors: Vectors, first: bool, tell: Progress
    ) -> Entry:
        """A method that answers from shared moments; of ReduNet with all extras."""

        def joint(model: Any) -> dict[str, Any]:
            vectors.forget()  # two models take their room
            return joint_check(model, vectors.tasks, vectors.learner)

        computed: dict[str, Callable[[Any], Any]] = {
            "joint": joint,
            "rates": rates_by_layer,  # after the passes of the comparison, which leave them
            "ablation": lambda model: ablation(vectors, model, tell),
        }
        wanted = self.extras if method.key == "redunet" else ()
        at_end = {k: one for k, one in computed.items() if k in wanted and (first or k == "rates")}
        return Entry(
            self._folder(method.key, seed),
            method.run_settings(vectors.tasks, seed),
            method.name,
            lambda: method.estimator(self.device, self.memory),
            method.readings,
            {"n_features": lambda model: vectors.n_features, **at_end},
        )

    def _folder(self, method: str, seed: int) -> Path:
        return self.out / method / f"seed-{seed}"

    def found(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The records of all runs in the folder, finished or not, by method and seed."""
        records = {}
        for key in names():
            for path in sorted((self.out / key).glob("seed-*/record.json")):
                record = read_run(path)
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
        self, what: str, command: str | None, expected: Sequence[str] = (), **more: Any
    ) -> dict[str, Any]:
        """The record of all finished runs in the folder, and of the runs missing there."""
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
        runs = [one for row in rows for one in row["runs"]]
        dates = [one["date"] for one in runs if "date" in one]
        if (split := getattr(self.data, "split", None)) is not None:
            more["split"] = split
        if diagnostics := self.experiment.diagnostics(self.data):
            more["doubts"] = diagnostics
        if ablations:
            more["ablation"] = ablations[0]
        more |= {key: one[key] for one in runs[:1] for key in ("machine", "versions") if key in one}
        return experiment_record(
            what,
            self._commands(command),
            self.experiment.data,
            self.experiment.title,
            tasks,
            rows,
            recipe=self.experiment.recipe,
            missing=missing,
            **more,
            date=max(dates, default=None),
        )


def check_alike(runs: Mapping[Path, Mapping[str, Any]]) -> None:
    """Raise an error for runs that cannot stand in one table.

    All must have the same stream, all methods on moments the same features,
    and all runs of a method the same settings but for the seed. Where the seed
    shuffles the classes, the stream is the same for each seed.
    """
    known: dict[tuple[str, str], Any] = {}
    for folder, settings in runs.items():
        for key in settings.keys() - {"method", "seed"}:
            whose = "" if key in _SHARED else settings["method"]
            if key == "tasks":
                whose = f"seed {settings['seed']}" if settings.get("shuffle") else ""
            if known.setdefault((whose, key), settings[key]) != settings[key]:
                raise SettingsError(
                    f"{folder} holds a run with another {key} than the others here: "
                    f"name another folder, or remove it"
                )
