"""The parts that all baselines share: one network, one training loop, one file format."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from redunet.core.cuda_graph import Replayed
from redunet.errors import DataError, ModelFileError, SettingsError
from redunet.estimators import storage
from redunet.estimators.checks import checked_labels
from redunet.estimators.settings import resolve_device
from redunet.progress import silent
from redunet.validation import one_of, whole_number
from redunet_lab.baselines.backbones import BACKBONES, make_backbone
from redunet_lab.baselines.pictures import Pictures, send

_EVALUATION_BATCH = 500

_SMALL = {"backbone": "mlp", "batch_size": 10, "epochs": 1}
_LARGE = {
    "backbone": "resnet18",
    "batch_size": 32,
    "epochs": 50,
    "augment": True,
    "mixed_precision": True,
}


@dataclass(kw_only=True, eq=False)
class GradientLearner:
    """A network trained by plain stochastic gradient descent, one task after another.

    A method says what it is called in commands (``kind``) and tables (``title``),
    how it is drawn (``color``, ``marker``) and which settings were published for
    MNIST and CIFAR-10 (``published``); with ``at_once`` it is given all tasks as one.
    It says in `loss` what is minimised, and may add something before a task
    (`begin`), to a batch (`inputs`), to the gradients (`regularize`), after a step
    (`after_step`) and after a task (`end`).

    Parameters
    ----------
    classes : tuple of labels
        All that will ever come: the network has one output for each from the start.
    input_shape : tuple of int
        Height, width and, for colour, channels of an image.
    backbone : {"mlp", "resnet18"}
    lr : float
        Step size.
    batch_size : int
    epochs : int
        Passes over a task's images.
    weight_decay : float, default=0.0
    white : float, default=255.0
        The largest pixel value.
    augment : bool, default=False
        Whether training images are shifted and mirrored at random.
    mixed_precision : bool, default=False
        Whether a GPU trains with convolutions in bfloat16; weights stay in float32.
    seed : int, default=0
        Of initial weights, order and augmentation.
    device : str, default="auto"
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    color: ClassVar[str] = ""
    marker: ClassVar[str] = ""
    at_once: ClassVar[bool] = False
    published: ClassVar[Mapping[str, Mapping[str, Any]]]

    classes: tuple[Any, ...]
    input_shape: tuple[int, ...]
    backbone: str = "mlp"
    lr: float
    batch_size: int
    epochs: int
    weight_decay: float = 0.0
    white: float = 255.0
    augment: bool = False
    mixed_precision: bool = False
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        self.classes, self.input_shape = tuple(self.classes), tuple(self.input_shape)
        if sorted(set(self.classes)) != list(self.classes) or len(self.input_shape) not in (2, 3):
            raise SettingsError(
                f"expected classes, sorted, and input_shape=(height, width[, channels]), "
                f"got {self.classes} and {self.input_shape}"
            )
        for name, least in (("batch_size", 1), ("epochs", 1), ("seed", 0)):
            whole_number(name, getattr(self, name), least=least)
        one_of("backbone", self.backbone, BACKBONES)
        self.progress = silent
        self.pictures = Pictures(self.white, self.augment)
        self.n_tasks = 0
        self.past: list[int] = []
        self.new: list[int] = []
        self._device = resolve_device(self.device)
        network = make_backbone(self.backbone, self.input_shape, len(self.classes), self.seed)
        self.network = network.to(self._device)
        if self.backbone == "resnet18":
            self.network = self.network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @classmethod
    def usual_settings(cls, data: str) -> dict[str, Any]:
        """Settings for a data set.

        MNIST's and CIFAR-10's are those published with the benchmark that the
        paper follows: Buzzega et al., "Dark Experience for General Continual
        Learning" (2020), found there by grid search with 200 exemplars; plain
        SGD without momentum or schedule; CIFAR-10's in mixed precision. Other
        data sets take MNIST's, the digits, which have a fiftieth of the images,
        with 20 epochs.
        """
        if data == "cifar10":
            return {**_LARGE, **cls.published["cifar10"]}
        digits = {"epochs": 20, "white": 16.0} if data == "digits" else {}
        return {**_SMALL, **digits, **cls.published["mnist"]}

    # What a method may say.

    def begin(self, images: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Prepare for a task; the images and targets, (n,), to train on."""
        return images, targets

    def inputs(self, x: Tensor, targets: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        """Arguments of `loss`: x, its targets, and whatever else belongs to the batch."""
        return x, targets

    def loss(self, x: Tensor, targets: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        """Return what is minimised, cross-entropy over all outputs, and the outputs for x."""
        outputs = self.network(x)
        return cross_entropy(outputs, targets), outputs

    def regularize(self) -> None:
        """Add to the gradients."""

    def after_step(self, images: Tensor, targets: Tensor, outputs: Tensor) -> None:
        """Take note of a batch, images as they were before augmentation."""

    def end(self, images: Tensor, targets: Tensor) -> None:
        """Take note of the task just learnt."""

    def state(self) -> dict[str, Tensor]:
        """Tensors that are kept between tasks beside the network, by ``group.name``."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Take back what `state` gave."""

    # What all share.

    @property
    def seen(self) -> list[int]:
        """Outputs of the classes learnt so far, or being learnt, ascending."""
        return sorted({*self.past, *self.new})

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn one task.

        Parameters
        ----------
        X : array-like of shape (n, *input_shape), of pixels
        y : array-like of shape (n,), of labels among ``classes``

        Returns
        -------
        self
        """
        images, targets = self._checked(X, y)
        self.new = sorted(set(targets.tolist()))
        self.n_tasks += 1
        self.rng = np.random.RandomState([self.seed, self.n_tasks])
        images, targets = self.begin(images, targets)
        self._train(images, targets)
        self.end(images, targets)
        self.past = self.seen
        self.new = []
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Labels among the classes learnt: ndarray of shape (n,)."""
        if not self.seen:
            raise DataError(f"{self.kind} has learnt nothing yet: call partial_fit first")
        images = self._images(X)
        scores = torch.cat([self.scores(part) for part in torch.split(images, _EVALUATION_BATCH)])
        best = scores[:, self.seen].argmax(dim=1).cpu().numpy()
        labels: NDArray[Any] = np.asarray(self.classes)[np.asarray(self.seen)[best]]
        return labels

    @torch.no_grad()
    def scores(self, images: Tensor) -> Tensor:
        """A score for each output, (n, n_outputs), the largest one being the answer."""
        self.network.eval()
        scores: Tensor = self.network(self.pictures.plain(images))
        return scores

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything that the next task needs to a file."""
        weights = {f"parameters.network.{k}": v for k, v in self.network.state_dict().items()}
        content = {
            "rival": self.kind,
            "settings": {k: v for k, v in asdict(self).items() if k != "device"},
            "n_tasks": self.n_tasks,
            "past": self.past,
        }
        storage.save(path, weights | self.state(), content)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "auto") -> Self:
        """Read a learner from a file; it goes on as if it had never stopped."""
        tensors, content = storage.load(path)
        if not isinstance(content, dict) or content.get("rival") != cls.kind:
            raise ModelFileError(f"expected {path} to be a file of {cls.kind}, got another model")
        learner = cls(**content["settings"], device=device)
        learner.n_tasks, learner.past = content["n_tasks"], content["past"]
        prefix = "parameters.network."
        learner.network.load_state_dict(
            {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        )
        own = {k: v.to(learner._device) for k, v in tensors.items() if not k.startswith(prefix)}
        learner.restore(own)
        return learner

    def replayed(self, images: Tensor) -> Tensor:
        """Inputs of images that were put away, shifted and mirrored afresh."""
        moves = self.pictures.moves(self.rng, len(images), images.device)
        return self.pictures.plain(self.pictures.moved(images, moves))

    def _train(self, images: Tensor, targets: Tensor) -> None:
        self.network.train()
        optimizer = torch.optim.SGD(
            self.network.parameters(), lr=self.lr, weight_decay=self.weight_decay
        )

        mixed = self.mixed_precision and self._device.startswith("cuda")

        def step(*inputs: Tensor) -> Tensor:
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.bfloat16, enabled=mixed):
                loss, outputs = self.loss(*inputs)
            loss.backward()  # type: ignore[no-untyped-call]
            self.regularize()
            optimizer.step()
            return outputs.detach()

        stepper = Replayed(step, self._device)
        fastest = torch.backends.cudnn.flags(enabled=True, benchmark=True, allow_tf32=True)
        with stepper.own_stream(), fastest:
            for rows, x in self._batches(images):
                outputs = stepper(*self.inputs(x, targets[rows], rows))
                self.after_step(images[rows], targets[rows], outputs)

    def _batches(self, images: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows and inputs of each batch of each epoch."""
        for epoch in range(self.epochs):
            self.progress(f"epoch {epoch + 1} of {self.epochs}", epoch / self.epochs)
            order = send(self.rng.permutation(len(images)), images.device)
            moves = self.pictures.moves(self.rng, len(images), images.device)
            for first in range(0, len(images), self.batch_size):
                part = slice(first, first + self.batch_size)
                rows = order[part]
                moved = self.pictures.moved(images[rows], None if moves is None else moves[part])
                yield rows, self.pictures.plain(moved)

    def _checked(self, X: ArrayLike, y: ArrayLike) -> tuple[Tensor, Tensor]:
        images = self._images(X)
        labels = checked_labels(y, len(images))
        unknown = np.setdiff1d(labels, np.asarray(self.classes))
        if len(unknown):
            raise DataError(
                f"expected labels among {self.classes}, got {unknown.tolist()[0]!r}: "
                f"name all classes when the learner is made"
            )
        targets = torch.from_numpy(np.searchsorted(np.asarray(self.classes), labels))
        return images, targets.to(self._device)

    def _images(self, X: ArrayLike) -> Tensor:
        pixels = np.asarray(X)
        if pixels.shape[1:] != self.input_shape or not len(pixels):
            raise DataError(
                f"expected images of shape {self.input_shape}, got an array of {pixels.shape}"
            )
        return torch.from_numpy(np.ascontiguousarray(pixels)).to(self._device)
