"""Does the network earn its layers? ``python -m benchmarks.widths DATA RECIPE --filters A,B,C``.

The accuracy of a recipe's network over the number of its filters, beside closed forms without
layers on the same features: the recipe's own read-out, LDA and ridge regression. All on training
images that were held out; test images are not looked at. Each method has its ridge or shrinkage
from one list, the best on the held-out images themselves: a maximum, for each method alike. All
other settings are the recipe's, which were chosen for one width on training images, too. Writes
``benchmarks/results/widths-DATA-RECIPE.json``; ``python -m benchmarks.widths_page`` draws it.

The features of the widest map are computed once: fewer filters are its first ones, wherever a map
made with fewer gives just these features; otherwise that map computes its own.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.widest_features import Array, WidestFeatures, vectors_of
from redunet.cli.values import parsed
from redunet.core.readouts import read_out
from redunet.environment import environment
from redunet.errors import SettingsError
from redunet.estimators import LinearDiscriminant, ReduNetClassifier, Ridge
from redunet.estimators.inspection import at_depth
from redunet.estimators.predictor import StreamingWarning
from redunet.estimators.settings import InputSettings, Settings, resolve_device
from redunet.estimators.tuning import standard_error
from redunet.safety.files import write_bytes
from redunet_lab.experiment import Experiment
from redunet_lab.streams import pooled
from redunet_lab.tuning import held_out_rows

RESULTS = Path(__file__).parent / "results"
RIDGES = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
NETWORK, SAME = "network", "same read-out, no layers"
CLOSED = ("LDA", "ridge", SAME)
"""The methods without layers."""

_BATCH_BYTES = 2**29
"""Of the vectors that are learnt at once."""

Hits = NDArray[np.bool_]


def learnt(model: ReduNetClassifier, parts: Sequence[Array], y: Array, rows: Array) -> None:
    """Let a model learn the vectors of some samples, a batch at a time."""
    size = max(1, _BATCH_BYTES // (8 * sum(part.shape[1] for part in parts)))
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        model.partial_fit(vectors_of(parts, some), y[some])


def by_method(
    model: ReduNetClassifier, X: Array, y: Array, layers: bool = True
) -> Iterator[tuple[str, float, Hits]]:
    """Method, ridge or shrinkage, and which held-out samples it labels correctly."""
    depths = ((NETWORK, model.n_layers), (SAME, 0)) if layers else ((SAME, 0),)
    for name, depth in depths:
        yield from _by_readout(name, at_depth(model, depth), X, y)
    scaling = {**InputSettings.of(model).to_dict(), "device": model.device}
    for ridge in RIDGES:
        lda = LinearDiscriminant(ridge, **scaling).remember(model.moments_)
        yield "LDA", ridge, lda.predict(X) == y
        regression = Ridge(ridge, **scaling).remember(model.moments_)
        yield "ridge", ridge, regression.predict(X) == y


def _by_readout(
    name: str, model: ReduNetClassifier, X: Array, y: Array
) -> Iterator[tuple[str, float, Hits]]:
    """The same for the read-out of one network; what it keeps on its device goes with the model."""
    Z = torch.from_numpy(model.transform(X))
    network = model.network_
    Z = Z.to(network.last_means().device)
    components = Settings.of(model).components(model.moments_.n_features)
    chosen = [model.ridge] if model.readout in ("subspace", "coding") else RIDGES
    for ridge in chosen:  # one after another: read-outs of wide maps take memory
        readout = read_out(network, model.readout, components, ridge)
        labels = readout.scores(Z).argmax(dim=1)
        yield name, ridge, model.classes_[labels.cpu().numpy()] == y


def measured(
    experiment: Experiment,
    filters: Sequence[int],
    held_out: int,
    wider: Sequence[int] = (),
    device: str = "auto",
    memory: str = "2GB",
    data_dir: Path | None = None,
) -> list[dict[str, Any]]:
    """Accuracies of all methods for each number of filters, by one split of the training images.

    Parameters
    ----------
    experiment : Experiment
        Its seed draws the split and the filters.
    filters : sequence of int
    held_out : int
        Training images of each class that are held out; at most a third of them.
    wider : sequence of int, default=()
        More numbers of filters, for the methods without layers alone.
    device, memory, data_dir
        As for `ReduNetClassifier`, and where the data set may lie.

    Returns
    -------
    list of dict
        A row for each number of filters, ascending.
    """
    on, numbers = resolve_device(device), sorted({*filters, *wider})
    tasks = experiment.tasks(experiment.load(data_dir))
    x, y = pooled(tasks, "train")
    out = held_out_rows(y, held_out, experiment.seed)
    rest, held = np.flatnonzero(~out), np.flatnonzero(out)
    first = x[rest[np.isin(y[rest], tasks[0].classes)]]
    of_all = experiment.plan.fit_features_on == "whole-training-set"
    source = x[rest] if of_all else first
    plans = [experiment.changed({"n_filters": n}).plan for n in numbers]
    maps = [plan.features_from(source, on) for plan in plans]
    if len({features.n_features for features in maps}) < len(maps):
        raise SettingsError(
            f"expected a recipe whose features grow with n_filters, got {experiment.recipe}"
        )
    begun = time.monotonic()
    wide = WidestFeatures(maps[-1], x, on)
    seconds = time.monotonic() - begun
    rows = []
    for n, features in zip(numbers, maps, strict=True):
        begun = time.monotonic()
        parts = wide.narrowed(features)
        model: Any = experiment.plan.learner(None, device, memory).set_params(exact=True)
        learnt(model, parts, y, rest)
        best: dict[str, tuple[float, Hits]] = {}
        tried: dict[str, dict[str, float]] = {}
        X = vectors_of(parts, held)
        for method, ridge, hits in by_method(model, X, y[held], layers=n in filters):
            tried.setdefault(method, {})[f"{ridge:g}"] = float(hits.mean())
            if method not in best or hits.sum() > best[method][1].sum():
                best[method] = ridge, hits
        closed = max(CLOSED, key=lambda method: best[method][1].sum())
        row: dict[str, Any] = {
            "filters": n,
            "features": features.n_features,
            "seed": experiment.seed,
            "accuracy": {method: float(hits.mean()) for method, (_, hits) in best.items()},
            "ridge": {method: ridge for method, (ridge, _) in best.items()},
            "tried": tried,
            "best_closed_form": closed,
        }
        if NETWORK in best:
            network, other = best[NETWORK][1], best[closed][1]
            row["ahead"] = float(network.mean() - other.mean())
            row["standard_error"] = standard_error(network, other)
        row["seconds"] = round(time.monotonic() - begun, 1)
        row["seconds_of_features"] = round(seconds, 1)
        rows.append(row)
        print(f"{n} filters, seed {experiment.seed}: {row['accuracy']}", flush=True)
    return rows


def width_reaching(features: Sequence[float], accuracies: Sequence[float], wanted: float) -> float:
    """The smallest number of features at which a curve reaches an accuracy.

    Between the numbers that were measured it is a straight line over the logarithm.

    Returns
    -------
    float
        The first number where the accuracy is reached there already, infinity where nowhere.

    Examples
    --------
    >>> round(width_reaching([100, 1000, 10000], [0.5, 0.6, 0.65], 0.55))
    316
    >>> width_reaching([100, 1000], [0.5, 0.6], 0.7)
    inf
    """
    if accuracies[0] >= wanted:
        return float(features[0])
    for index in range(1, len(features)):
        low, high = accuracies[index - 1 : index + 1]
        if high >= wanted:
            share = (wanted - low) / (high - low)
            a, b = map(math.log, features[index - 1 : index + 1])
            return math.exp(a + share * (b - a))
    return math.inf


def summary(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each width: means over seeds, and the width at which a closed form is as good."""
    by_width: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        by_width.setdefault(row["features"], []).append(row)
    found = []
    for features, some in sorted(by_width.items()):
        values = {m: [row["accuracy"][m] for row in some] for m in some[0]["accuracy"]}
        mean = {method: float(np.mean(each)) for method, each in values.items()}
        deviation = {
            method: float(np.std(each, ddof=1)) if len(each) > 1 else None
            for method, each in values.items()
        }
        best = max(CLOSED, key=mean.__getitem__)
        one = {"filters": some[0]["filters"], "features": features, "accuracy": mean}
        found.append({**one, "deviation": deviation, "best_closed_form": best})
    widths = [one["features"] for one in found]
    closed = [one["accuracy"][one["best_closed_form"]] for one in found]
    for one in (each for each in found if NETWORK in each["accuracy"]):
        width = width_reaching(widths, closed, one["accuracy"][NETWORK])
        one["closed_form_features"] = None if math.isinf(width) else round(width)
    return found


def sentence(found: Sequence[dict[str, Any]], title: str) -> str:
    """What the record says, in words: of the widest network, and of the widest that is matched."""
    networks = [one for one in found if NETWORK in one["accuracy"]]
    last, matched = networks[-1], [one for one in networks if one["closed_form_features"]]
    best = last["best_closed_form"]
    said = (
        f"On {title} the network of {last['features']:,} features labels "
        f"{last['accuracy'][NETWORK]:.4f} of the held-out images correctly, the best closed form "
        f"without layers on the same features ({best}) {last['accuracy'][best]:.4f}."
    )
    for one in matched[-1:]:
        times = one["closed_form_features"] / one["features"]
        said += (
            f" What the network reaches with {one['features']:,} features, "
            f"{one['accuracy'][NETWORK]:.4f}, a closed form reaches with about "
            f"{one['closed_form_features']:,}, {times:.2f} times as many."
        )
    if not last["closed_form_features"]:
        said += (
            f" What it reaches with {last['features']:,} features no closed form reaches with up "
            f"to {found[-1]['features']:,}."
        )
    return said


def record_of(
    experiment: Experiment, rows: Sequence[dict[str, Any]], held_out: int, command: str
) -> dict[str, Any]:
    """The record of all splits."""
    found = summary(rows)
    return {
        "what": f"Accuracy over the number of features, {experiment.title}, {experiment.recipe}",
        "command": command,
        "data": experiment.data,
        "recipe": experiment.recipe,
        "settings": {**experiment.stream_settings, **experiment.model_settings},
        "seeds": sorted({row["seed"] for row in rows}),
        "chosen_on": f"{held_out} training images of each class that were held out; each method "
        f"has the best of {len(RIDGES)} ridges or shrinkages on these images, for each alike; "
        "all other settings are the recipe's, chosen for one width on training images, too; "
        "features are kept in float32; test images were not looked at",
        "ridges": RIDGES,
        **environment(),
        "summary": found,
        "sentence": sentence(found, experiment.title),
        "rows": list(rows),
    }


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.widths", description=__doc__)
    parser.add_argument("data", metavar="DATA", help="such as mnist or cifar10")
    parser.add_argument("recipe", metavar="RECIPE", help="such as images-fast")
    parser.add_argument("--filters", required=True, metavar="A,B,...")
    parser.add_argument(
        "--wider", default="", metavar="C,D,...", help="more filters, for methods without layers"
    )
    parser.add_argument("--per-class", type=int, metavar="N", help="training images; default all")
    parser.add_argument("--held-out", type=int, default=1000, metavar="N", help="of each class")
    parser.add_argument("--seeds", default="0", metavar="A,B,...", help="of splits and filters")
    parser.add_argument("--set", action="append", metavar="KEY=VALUE", help="of the recipe")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, help="the record")
    given = parser.parse_args(words)
    filters, wider, seeds = (
        [int(word) for word in text.split(",") if word]
        for text in (given.filters, given.wider, given.seeds)
    )
    changes = {**parsed(given.set), "train_per_class": given.per_class}
    experiment = Experiment.of(given.data, recipe=given.recipe, changes=changes)
    command = f"python -m benchmarks.widths {given.data} {given.recipe} --filters {given.filters}"
    command += f" --wider {given.wider}" if given.wider else ""
    command += f" --per-class {given.per_class}" if given.per_class else ""
    command += f" --held-out {given.held_out} --seeds {given.seeds}"
    command += "".join(f" --set {word}" for word in given.set or ())
    rows: list[dict[str, Any]] = []
    warnings.simplefilter("ignore", StreamingWarning)
    out = given.out or RESULTS / f"widths-{given.data}-{given.recipe}.json"
    for seed in seeds:
        one = experiment.changed({"seed": seed})
        where = given.device, given.memory, given.data_dir
        rows += measured(one, filters, given.held_out, wider, *where)
        record = record_of(experiment, rows, given.held_out, command)
        write_bytes(out, (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())
    print(record["sentence"])


if __name__ == "__main__":
    main()
