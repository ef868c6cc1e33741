"""Shared parts of the baselines: networks, pictures, the loop, files."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from redunet.errors import DataError, ModelFileError, ReduNetError, SettingsError
from redunet.estimators import storage
from redunet_lab.baselines import GRADIENT, GradientLearner
from redunet_lab.baselines.backbones import make_backbone
from redunet_lab.baselines.pictures import COLOUR_DEVIATION, COLOUR_MEAN, Pictures

SHAPE = (4, 4)


def images(n: int, seed: int = 0, labels: tuple[int, ...] = (0, 1)) -> tuple[Any, Any]:
    """Noisy pictures, each class bright in a place of its own."""
    rng = np.random.RandomState(seed)
    y = rng.choice(labels, size=n)
    x = rng.randint(0, 80, size=(n, *SHAPE))
    for row, label in enumerate(y):
        x[row, label // 4 * 2 : label // 4 * 2 + 2, label % 4] += 150
    return x.astype(np.uint8), y


def make(method: str, **values: Any) -> Any:
    given = {**settings(method, "mnist"), "epochs": 2}
    if "replay_size" in given:
        given["replay_size"] = 8
    if "n_exemplars" in given:
        given["n_exemplars"] = 20
    values = {"classes": range(6), "input_shape": SHAPE, "device": "cpu", **given, **values}
    return GRADIENT[method](**values)


def weights(learner: GradientLearner) -> Tensor:
    return torch.cat([p.detach().flatten() for p in learner.network.parameters()])


TASKS = [images(40, seed=t, labels=(2 * t, 2 * t + 1)) for t in range(3)]


def settings(method: str, data: str) -> dict[str, Any]:
    found: dict[str, Any] = GRADIENT[method].usual_settings(data)
    return found


def test_the_backbones_have_their_published_sizes() -> None:
    mlp = make_backbone("mlp", (28, 28), 10, seed=0)
    assert sum(p.numel() for p in mlp.parameters()) == 89_610
    resnet = make_backbone("resnet18", (32, 32, 3), 10, seed=0)
    assert sum(p.numel() for p in resnet.parameters()) == 11_173_962
    assert resnet(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert resnet.body[:-2](torch.zeros(1, 3, 32, 32)).shape == (1, 512, 4, 4)  # type: ignore[index]


def test_initial_weights_depend_on_the_seed_alone() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    one, same, other = (make("finetune", seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights(one), weights(same))
    assert not torch.equal(weights(one), weights(other))
    limit = (6 / (16 + 100)) ** 0.5
    first = one.network.body[1]
    assert 0.9 * limit < float(first.weight.detach().abs().max()) <= limit
    assert not first.bias.any()


def test_pictures_are_scaled_and_moved_as_by_hand() -> None:
    rng = np.random.RandomState(0)
    pictures = torch.from_numpy(rng.randint(0, 256, size=(20, 8, 6, 3)).astype(np.uint8))
    how = Pictures(white=255.0, augment=True)
    moves = how.moves(np.random.RandomState(1), 20, pictures.device)
    assert moves is not None
    assert {0, 1} == set(moves[:, 2].tolist())
    moved = how.moved(pictures, moves).numpy()
    for image, (down, right, mirrored), got in zip(
        pictures.numpy(), moves.tolist(), moved, strict=True
    ):
        crop = np.pad(image, ((4, 4), (4, 4), (0, 0)))[down : down + 8, right : right + 6]
        np.testing.assert_array_equal(got, crop[:, ::-1] if mirrored else crop)
    wanted = (pictures.numpy() / 255 - COLOUR_MEAN) / COLOUR_DEVIATION
    np.testing.assert_allclose(how.plain(pictures), wanted.transpose(0, 3, 1, 2), atol=1e-6)
    grey = Pictures(white=16.0, augment=False)
    assert grey.moves(np.random.RandomState(1), 20, pictures.device) is None
    np.testing.assert_array_equal(grey.plain(pictures[..., 0])[:, 0], pictures[..., 0] / 16)


@pytest.mark.parametrize("method", GRADIENT)
def test_a_rival_learns_one_task_and_answers_among_the_classes_seen(method: str) -> None:
    learner = make(method, epochs=40)
    learner.partial_fit(*TASKS[1])
    x, y = images(50, seed=9, labels=(2, 3))
    assert set(learner.predict(x)) <= {2, 3}
    assert np.mean(learner.predict(x) == y) > 0.9
    learner.partial_fit(*TASKS[0])
    assert set(learner.predict(np.concatenate([TASKS[0][0], x]))) <= {0, 1, 2, 3}


@pytest.mark.parametrize("method", GRADIENT)
def test_a_rival_goes_on_from_its_file_as_if_it_had_never_stopped(
    method: str, tmp_path: Path
) -> None:
    whole = make(method)
    for task in TASKS:
        whole.partial_fit(*task)
    part = make(method).partial_fit(*TASKS[0])
    for number, task in enumerate(TASKS[1:]):
        part.save(tmp_path / f"{number}")
        part = type(part).load(tmp_path / f"{number}", device="cpu").partial_fit(*task)
    assert torch.equal(weights(part), weights(whole))
    x, _ = images(30, seed=5, labels=(0, 1, 2, 3, 4, 5))
    np.testing.assert_array_equal(part.predict(x), whole.predict(x))
    part.save(tmp_path / "part")
    whole.save(tmp_path / "whole")
    assert (tmp_path / "part").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("method", GRADIENT)
def test_the_seed_decides_everything(method: str) -> None:
    one, same, other = (make(method, seed=s).partial_fit(*TASKS[0]) for s in (1, 1, 2))
    assert torch.equal(weights(one), weights(same))
    assert not torch.equal(weights(one), weights(other))


def test_fine_tuning_is_gradient_descent() -> None:
    """One epoch in one batch: a single step, computed here once more."""
    x, y = TASKS[0]
    learner = make("finetune", epochs=1, batch_size=40, lr=0.5)
    network = copy.deepcopy(learner.network)
    loss = cross_entropy(network(torch.from_numpy(x).float()[:, None] / 255), torch.from_numpy(y))
    parameters = list(network.parameters())
    slopes = torch.autograd.grad(loss, parameters)
    moved = [p.detach() - 0.5 * slope for p, slope in zip(parameters, slopes, strict=True)]
    wanted = torch.cat([p.flatten() for p in moved])
    learner.partial_fit(x, y)
    torch.testing.assert_close(weights(learner), wanted, rtol=1e-5, atol=1e-7)


def test_augmentation_is_seeded_and_changes_training() -> None:
    plain, moved, same = (
        make("finetune", augment=a).partial_fit(*TASKS[0]) for a in (False, True, True)
    )
    assert torch.equal(weights(moved), weights(same))
    assert not torch.equal(weights(moved), weights(plain))


def test_resnet_trains_too(tmp_path: Path) -> None:
    rng = np.random.RandomState(0)
    x = rng.randint(0, 256, size=(16, 8, 8, 3)).astype(np.uint8)
    y = np.arange(16) % 2
    x[y == 0] //= 4
    values: dict[str, Any] = {"input_shape": (8, 8, 3), "backbone": "resnet18", "augment": True}
    learner = make("finetune", **values, batch_size=8, epochs=3, lr=0.05).partial_fit(x, y)
    assert np.mean(learner.predict(x) == y) > 0.9
    learner.save(tmp_path / "file")
    again = type(learner).load(tmp_path / "file", device="cpu")
    np.testing.assert_array_equal(again.predict(x), learner.predict(x))


# Files and errors


def test_bytes_kept_are_named_by_what_they_are(tmp_path: Path) -> None:
    groups = {}
    for method in GRADIENT:
        make(method).partial_fit(*TASKS[0]).save(tmp_path / method)
        tensors, _ = storage.load(tmp_path / method)
        groups[method] = {name.split(".")[0] for name in tensors}
    with_exemplars = {m for m, names in groups.items() if names == {"parameters", "exemplars"}}
    assert with_exemplars == {"icarl", "er", "derpp"}
    assert all(groups[m] == {"parameters"} for m in set(GRADIENT) - with_exemplars)


def test_a_file_of_another_rival_is_refused(tmp_path: Path) -> None:
    make("er").partial_fit(*TASKS[0]).save(tmp_path / "file")
    with pytest.raises(ModelFileError, match=r"expected .* to be a file of derpp, got another"):
        GRADIENT["derpp"].load(tmp_path / "file")


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"classes": (1, 0)}, "expected classes, sorted"),
        ({"input_shape": (4,)}, "expected classes, sorted"),
        ({"epochs": 0}, "expected epochs to be a whole number from 1 on, got 0"),
        ({"batch_size": 2.5}, "expected batch_size to be a whole number from 1 on, got 2.5"),
        ({"backbone": "vgg"}, "expected backbone to be one of mlp, resnet18, got 'vgg'"),
        ({"device": "nowhere"}, "expected a device that PyTorch can use here"),
    ],
)
def test_settings_that_cannot_be_used_are_one_line(values: dict[str, Any], line: str) -> None:
    with pytest.raises(SettingsError, match=line):
        make("finetune", **values)


@pytest.mark.parametrize(
    ("x", "y", "line"),
    [
        (np.zeros((3, 5, 5)), [0, 0, 1], r"expected images of shape \(4, 4\), got .*\(3, 5, 5\)"),
        (np.zeros((0, 4, 4)), [], r"expected images of shape \(4, 4\), got .*\(0, 4, 4\)"),
        (np.zeros((2, 4, 4)), [0, 9], r"expected labels among .* got 9: name all classes"),
        (np.zeros((2, 4, 4)), [0], "expected one label for each of 2 samples, got 1"),
    ],
)
def test_bad_input_changes_nothing(x: Any, y: Any, line: str) -> None:
    learner = make("ewc").partial_fit(*TASKS[0])
    before, state = weights(learner), learner.state()
    with pytest.raises(ReduNetError, match=line):
        learner.partial_fit(x, y)
    assert torch.equal(weights(learner), before)
    assert all(torch.equal(learner.state()[name], kept) for name, kept in state.items())
    assert (learner.n_tasks, learner.seen) == (1, [0, 1])


def test_asking_before_learning_is_one_line() -> None:
    with pytest.raises(DataError, match="finetune has learnt nothing yet: call partial_fit first"):
        make("finetune").predict(TASKS[0][0])


def test_published_settings_are_those_of_the_benchmark() -> None:
    for data, method, name, value in (
        ("mnist", "ewc", "penalty", 90.0),
        ("cifar10", "si", "strength", 0.5),
        ("cifar10", "derpp", "beta", 0.5),
        ("cifar10", "joint", "epochs", 50),
        ("digits", "er", "white", 16.0),
        ("fashion_mnist", "lwf", "batch_size", 10),
    ):
        assert settings(method, data)[name] == value
    for data, shape in (("mnist", (28, 28)), ("cifar10", (32, 32, 3)), ("digits", (8, 8))):
        for method, kind in GRADIENT.items():
            kind(
                classes=tuple(range(10)), input_shape=shape, device="cpu", **settings(method, data)
            )
