"""A fitted model as one PyTorch module, from raw samples to labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from redunet.core.coarse_network import BLOCK_PATH, Block, blocks
from redunet.core.layer import sharpness_of
from redunet.estimators import EnsembleClassifier, Estimator, ReduNetClassifier
from redunet.estimators.ensemble import OfNetwork
from redunet.estimators.inputs import constant
from redunet.estimators.settings import Settings
from redunet.export.feature_maps import feature_module
from redunet.export.network import ExportedLayer, Layers, LinearMap, UnitRows
from redunet.export.readouts import Scores, module_of, scale_of


class Program(nn.Module):
    """From raw samples to the index of a class, scores and probabilities.

    With ``n_values`` of a raw sample, one with a value that is not finite gets NaN as its scores
    and probabilities; without, that is left to the steps, some of which lose NaN.
    """

    def __init__(
        self,
        before: nn.Sequential,
        layers: nn.Module,
        readout: Scores,
        n_values: int | None = None,
    ) -> None:
        super().__init__()
        self.before, self.layers, self.readout = before, layers, readout
        self.n_values = n_values

    def without_first(self) -> Program:
        """The program without its first step, the feature map."""
        return Program(nn.Sequential(*list(self.before)[1:]), self.layers, self.readout)

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Index, (n,), scores and probabilities, (n, k), of samples, (n, ...) in float64."""
        scores = self.scores(samples)
        index, probabilities = scores.argmax(1), self.readout.probabilities(scores)
        if self.n_values is None:
            return index, scores, probabilities
        zeros = samples.reshape(-1, self.n_values) * 0.0  # NaN where a value is not finite
        mark = zeros.sum(1, keepdim=True)
        return index, scores + mark, probabilities + mark

    def scores(self, samples: Tensor) -> Tensor:
        """Scores alone, (n, k)."""
        found: Tensor = self.readout(self.layers(self.before(samples)))
        return found


class MeanScores(Scores):
    """The mean of the scores of several programs."""

    def __init__(self, programs: Sequence[Program], scale: float | None) -> None:
        super().__init__(scale)
        self.programs = list(programs)
        for number, one in enumerate(programs):
            self.add_module(f"program_{number}", one)

    def forward(self, Z: Tensor) -> Tensor:
        """Scores, (n, k)."""
        first, *others = (one.scores(Z) for one in self.programs)
        return sum(others, first) * (1 / len(self.programs))


class Columns(nn.Module):
    """Some of the columns."""

    def __init__(self, places: Tensor) -> None:
        super().__init__()
        self.places = nn.Buffer(places)

    def forward(self, Z: Tensor) -> Tensor:
        """Columns, (n, m), of vectors, (n, d)."""
        return torch.index_select(Z, 1, self.places)


class Scaled(nn.Module):
    """Values of a known range within [-1, 1]."""

    def __init__(self, bound: float) -> None:
        super().__init__()
        self.scale = math.ldexp(1.0, -math.frexp(bound)[1])

    def forward(self, Z: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        return Z * self.scale


class WithConstant(nn.Module):
    """The constant that ``normalize="constant"`` appends to vectors of d features."""

    def __init__(self, d: int) -> None:
        super().__init__()
        last = torch.zeros(d + 1, dtype=torch.float64)
        last[-1] = constant(d)
        self.last = nn.Buffer(last)

    def forward(self, Z: Tensor) -> Tensor:
        """Vectors, (n, d)."""
        return torch.nn.functional.pad(Z, (0, 1)) + self.last


@dataclass(frozen=True)
class Form:
    """A way to export a network, or the networks of an ensemble."""

    blocks: tuple[Block, ...]  # of layers, each of which becomes one layer
    dtype: torch.dtype  # of the layers; all else is in float64
    members: tuple[Form, ...] = ()  # those of an ensemble, whose blocks together are these


def forms(model: Estimator, every_layer: bool) -> Iterator[Form]:
    """Ways to export a model, of growing accuracy.

    Blocks, twice as many each time, in float32, then all layers in float32, then in float64.
    """
    if isinstance(model, EnsembleClassifier):
        yield from _forms_together([[*forms(one, every_layer)] for one in networks_of(model)])
        return
    steps = model.network_.layers.steps if isinstance(model, ReduNetClassifier) else ()
    size = max(1, math.ceil(sum(steps) / BLOCK_PATH))
    while not every_layer and size <= len(steps) / 2:
        yield Form(tuple(blocks(steps, size)), torch.float32)
        size *= 2
    every = tuple(Block(index, step) for index, step in enumerate(steps))
    if steps:
        yield Form(every, torch.float32)
    yield Form(every, torch.float64)


def _forms_together(each: Sequence[Sequence[Form]]) -> Iterator[Form]:
    """Those of several networks at once, the most accurate ones last."""
    if not each:
        yield Form((), torch.float64)
    for place in range(max(map(len, each), default=0), 0, -1):
        ones = tuple(some[-min(place, len(some))] for some in each)
        yield Form(tuple(block for one in ones for block in one.blocks), ones[0].dtype, ones)


def networks_of(model: EnsembleClassifier) -> list[ReduNetClassifier]:
    """The members of an ensemble that have layers, or whitening."""
    return [one.network for one in model.solution_.members if isinstance(one, OfNetwork)]


def input_shape(model: Estimator) -> tuple[int, ...]:
    """The shape of one raw sample."""
    features = model.feature_map_
    return (model.n_features_in_,) if features is None else features.input_shape


def program(model: Estimator, form: Form) -> Program:
    """The module of a model, on the CPU."""
    features, n_values = model.feature_map_, math.prod(input_shape(model))
    before = [] if features is None else [feature_module(features)]
    if isinstance(model, EnsembleClassifier):
        no_layers = Layers([], None, torch.float64)
        return Program(nn.Sequential(*before), no_layers, _mean(model, form), n_values).eval()
    if model.normalize == "constant":
        before.append(WithConstant(model.moments_.n_features - 1))
    if isinstance(model, ReduNetClassifier):
        before.append(UnitRows())
        if model.whitening_ is not None:
            before.append(LinearMap(model.whitening_.A.cpu().mT.contiguous()))
        layers: nn.Module = _layers(model, form)
        readout = module_of(model.readout_, 1 / model.temperature_, model.readout)
    else:
        bounds = model.input_range
        before.append(UnitRows() if bounds is None else Scaled(max(map(abs, bounds))))
        layers = Layers([], None, torch.float64)
        solution = model.solution_
        readout = module_of(solution, scale_of(solution), model.name())
    return Program(nn.Sequential(*before), layers, readout, n_values).eval()


def _mean(model: EnsembleClassifier, form: Form) -> MeanScores:
    """The mean of the members' scores, each of the vectors of its group."""
    found, own = model.solution_, iter(form.members)
    programs: list[Program] = []
    places = model.moments_.parts(torch.arange(model.moments_.n_features)[None])
    for member, columns in zip(found.members, places, strict=True):
        if isinstance(member, OfNetwork):
            one = program(member.network, next(own))
        else:
            no_layers = Layers([], None, torch.float64)
            readout = module_of(member, 1.0, model.name())
            one = Program(nn.Sequential(UnitRows()), no_layers, readout)
        before = nn.Sequential(Columns(columns[0].contiguous()), *one.before)
        programs.append(Program(before, one.layers, one.readout))
    T = found.temperature
    return MeanScores(programs, scale_of(found.members[-1]) if T is None else 1 / T)


def _layers(model: ReduNetClassifier, form: Form) -> Layers:
    sequence = model.network_.layers
    sharpness = sharpness_of(Settings.of(model).confidence)
    path = {block.middle: block.path for block in form.blocks}
    made = []
    if path:
        for index, layer in enumerate(sequence.iter_reusing_memory()):
            if index in path:
                made.append(ExportedLayer(layer, sharpness, path[index], form.dtype))
            if len(made) == len(path):
                break
    return Layers(made, sequence.space, form.dtype)
