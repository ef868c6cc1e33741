"""Write a fitted model as a file that runs without this package, and check it by running it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from redunet.core.moments import Label
from redunet.errors import DataError, SettingsError
from redunet.estimators import (
    ClosedForm,
    EnsembleClassifier,
    Estimator,
    ReduNetClassifier,
)
from redunet.estimators.inputs import InputPipeline
from redunet.estimators.settings import Settings, parse_memory
from redunet.export.checking import Answers, compare, drawn_vectors, random_samples
from redunet.export.contents import held_by
from redunet.export.feature_maps import feature_module
from redunet.export.formats import Run, format_of
from redunet.export.program import Form, Program, forms, input_shape, networks_of, program
from redunet.features import SquareRoot
from redunet.progress import Progress, silent
from redunet.safety.files import write_bytes

NOT_FINITE = (
    "a sample with NaN or infinity gets NaN as its scores and probabilities, and a label that "
    "means nothing"
)
"""Said in a file of samples that the model refuses."""


@dataclass(frozen=True)
class Exported:
    """An exported file, and how it was checked.

    Parameters
    ----------
    path : Path
    bytes : int
    input_shape : tuple of int
        Of one sample; the input is in float64.
    layers : int
        In the file.
    of_layers : int
        Of the network.
    dtype : str
        Of the layers in the file; all else is in float64.
    samples : int
        That the file was run on; the model gives all of them the same labels.
    made : str
        What the samples are where none were given; empty otherwise.
    largest_difference : float
        Between a score by the file and by the model.
    holds : tuple of str
        What the file holds.
    """

    path: Path
    bytes: int
    input_shape: tuple[int, ...]
    layers: int
    of_layers: int
    dtype: str
    samples: int
    made: str
    largest_difference: float
    holds: tuple[str, ...]


def export(
    model: Estimator,
    path: str | Path,
    X: ArrayLike | None = None,
    *,
    layers: Literal["auto", "all"] = "auto",
    without_features: bool = False,
    file_format: str | None = None,
    progress: Progress = silent,
) -> Exported:
    """Write a model as a graph from raw samples to labels, checked by running it.

    A graph cannot send some samples through more layers than others, as `predict` does. So
    networks of fewer layers, of growing accuracy, are tried on the samples, and the first one
    is taken whose labels would all be the model's even if its errors were four times
    as large; if there is none, all layers, in float32 or else in float64. The file is written
    only if it gives every sample the label that the model gives it.

    Parameters
    ----------
    model : estimator
    path : path of the file
        Whose suffix, .onnx or .pt2, decides the format unless ``file_format`` is given.
    X : array-like of shape (n, ...), default=None
        Samples to check labels on, best those that the model is for. None makes some:
        normal vectors with the second moments of the classes, or, with a feature map, random
        input to all of the graph and such vectors to what follows the feature map.
    layers : {"auto", "all"}, default="auto"
        "all" exports every layer of the network.
    without_features : bool, default=False
        Leave out the feature map: the graph takes feature vectors, and so do the samples.
    file_format : {"onnx", "torch"}, default=None
    progress : callable

    Returns
    -------
    Exported

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_digits
    >>> from redunet import ReduNetClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ReduNetClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = export(model, f"{folder}/digits.pt2", X[:100], layers="all")
    >>> found.layers, found.of_layers, found.samples
    (50, 50, 100)
    """
    path = Path(path)
    chosen = format_of(path, file_format)
    if isinstance(model, ClosedForm) and model.exported is None:
        raise SettingsError(
            f"expected a model that can be exported, got one of {model.name()}: use it with redunet"
        )
    if layers not in ("auto", "all"):
        raise SettingsError(f"expected layers to be auto or all, got {layers!r}")
    if without_features:
        model = over_vectors(model)
    labels, shape = model.moments_.labels, input_shape(model)
    if model.feature_map_ is not None:
        feature_module(model.feature_map_)  # an error comes before the work
    progress("answering the samples", 0.0)
    checks = _Checks.of(model, X)
    every = list(forms(model, layers == "all"))
    for place, form in enumerate(every, 1):
        progress(f"trying {len(form.blocks)} layers", 0.2 + 0.7 * place / len(every))
        _check_memory(model, form)
        made, last = program(model, form), place == len(every)
        if not last and not checks.safe(made, labels, shape):
            continue
        holds = held_by(model, form)
        about = {"labels": json.dumps(labels), "holds": "; ".join(holds), "not finite": NOT_FINITE}
        data = chosen.written(made, shape, labels, about)
        found = compare(checks.answers, chosen.running(data), shape)
        if not found.differ:
            write_bytes(path, data)
            return Exported(
                path,
                len(data),
                shape,
                len(form.blocks),
                len(every[-1].blocks),
                str(form.dtype).removeprefix("torch."),
                found.samples,
                checks.made,
                found.largest,
                holds,
            )
    raise DataError(
        f"expected the model's label for each of {found.samples:,} samples, got another one for "
        f"{found.differ:,} with every layer in float64: two classes have the same score there up "
        f"to rounding, so leave these samples out"
    )


def over_vectors(model: Estimator) -> Estimator:
    """A model without its feature map, to be given feature vectors."""
    state = model._fitted()
    if model.feature_map_ is None:
        return model
    if has_own_map(model):
        raise SettingsError(
            f"expected a model that can stand without its feature map, got one of "
            f"{type(model).__name__}, which has its own: export it with the map"
        )
    pipeline = InputPipeline(None, state.pipeline.normalize, state.pipeline.input_range)
    other = type(model)(**(model.get_params(deep=False) | {"features": None}))
    # What was built from the moments is shared: the network is the same.
    other._state = replace(state, pipeline=pipeline, feature_names=None, resize=False, encoder=None)
    return other


def has_own_map(model: Estimator) -> bool:
    """Whether a model's method has a feature map of its own."""
    return isinstance(model, ClosedForm) and model.own_map(1) is not None


@dataclass(frozen=True)
class _Checks:
    """Answers of the model that a program is checked by."""

    answers: Answers  # for raw samples
    of_vectors: Answers | None  # for feature vectors, where the raw samples are random ones
    made: str

    @classmethod
    def of(cls, model: Estimator, X: ArrayLike | None) -> _Checks:
        """A model's answers for samples, or for some that are made."""
        if X is not None:
            rows = model._rows_to_predict(model._fitted(), X)
            return cls(Answers.of(model, rows), None, "")
        if model.feature_map_ is None:
            return cls(Answers.of(model, drawn_vectors(model)), None, "drawn from the moments")
        if has_own_map(model):
            samples = random_samples(model)
            if isinstance(model.own_map(1), SquareRoot):
                samples = np.abs(samples)
            return cls(Answers.of(model, samples), None, "random input")
        vectors = Answers.of(over_vectors(model), drawn_vectors(model))
        return cls(
            Answers.of(model, random_samples(model)),
            vectors,
            "random input; and after the feature map vectors drawn from the moments",
        )

    def safe(self, made: Program, labels: Sequence[Label], shape: tuple[int, ...]) -> bool:
        """Whether all labels would be right even if errors were a few times as large."""
        answers = self.answers
        if self.of_vectors is not None:
            answers, made = self.of_vectors, made.without_first()
            shape = answers.X.shape[1:]
        return not compare(answers, _running(made, labels), shape).unsafe


def _running(made: Program, labels: Sequence[Label]) -> Run:
    """A program, run as it is."""

    def run(X: NDArray[np.float64]) -> tuple[list[Label], NDArray[np.float64]]:
        with torch.no_grad():
            index, scores, _ = made(torch.from_numpy(X))
        return [labels[place] for place in index.tolist()], scores.numpy()

    return run


def _check_memory(model: Estimator, form: Form) -> None:
    """Raise a SettingsError where the layers to export do not fit the memory that was granted."""
    if not form.blocks:
        return
    several = isinstance(model, EnsembleClassifier)
    networks = networks_of(model) if several else [model]
    size = sum(map(_bytes_of_layers, networks, form.members if several else [form]))
    if size > parse_memory(model.memory):
        raise SettingsError(
            f"expected layers that fit memory={model.memory}, got {len(form.blocks)} layers of "
            f"{size / 1e9:.3g} GB, as fewer do not give all labels: raise memory"
        )


def _bytes_of_layers(network: ReduNetClassifier, form: Form) -> int:
    layers, own = network.network_.layers, Settings.of(network).torch_dtype
    return layers.n_bytes // len(layers) * len(form.blocks) * form.dtype.itemsize // own.itemsize
