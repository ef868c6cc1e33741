"""Tasks divide the classes, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from redunet.errors import SettingsError
from redunet_lab.streams import at_once, class_stream, moved


def data(k: int = 10, n: int = 12) -> Any:
    labels = np.arange(k * n) % k
    return SimpleNamespace(
        name="toy",
        x_train=np.arange(k * n)[:, None],
        y_train=labels,
        x_test=np.arange(k * n)[:, None] + 1000,
        y_test=labels[::-1],
    )


def test_five_tasks_of_two_classes_in_order() -> None:
    tasks = class_stream(data())
    assert [task.classes for task in tasks] == [(0, 1), (2, 3), (4, 5), (6, 7), (8, 9)]
    for task in tasks:
        assert set(task.y_train) == set(task.y_test) == set(task.classes)
        assert len(task.x_train) == len(task.y_train) == 24
    assert sorted(np.concatenate([t.x_train[:, 0] for t in tasks])) == list(range(120))


def test_classes_that_do_not_divide_evenly() -> None:
    sizes = [len(task.classes) for task in class_stream(data(), 4)]
    assert sizes == [3, 3, 2, 2]


def test_a_seed_shuffles_the_classes_and_no_more() -> None:
    one, same, other = (class_stream(data(), order_seed=seed) for seed in (0, 0, 1))
    orders = [[c for task in stream for c in task.classes] for stream in (one, same, other)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(10))


def test_tasks_by_name() -> None:
    tasks = class_stream(data(), tasks=[[7], [1, 3]])
    assert [task.classes for task in tasks] == [(7,), (1, 3)]
    assert set(tasks[1].y_test) == {1, 3}


def test_a_class_keeps_its_samples_whatever_the_tasks_are() -> None:
    subset: dict[str, Any] = {"train_per_class": 5, "test_per_class": 2}
    wide = class_stream(data(), 1, **subset)[0]
    narrow = class_stream(data(), tasks=[[6]], **subset)[0]
    assert len(wide.y_train) == 50
    assert len(wide.y_test) == 20
    assert wide.x_train[wide.y_train == 6].tolist() == narrow.x_train.tolist()
    again = class_stream(data(), tasks=[[6]], subset_seed=8, **subset)[0]
    assert again.x_train.tolist() != narrow.x_train.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_tasks": 0}, "expected 1 to 10 tasks for 10 classes, got 0"),
        ({"n_tasks": 11}, "expected 1 to 10 tasks for 10 classes, got 11"),
        ({"tasks": [[1], [1, 2]]}, "distinct classes"),
        ({"tasks": [[1], []]}, "distinct classes"),
        ({"tasks": [[42]]}, r"among \[0, 1, .*\], got \[\[42\]\]"),
        ({"tasks": [[1]], "n_tasks": 1}, "got both"),
        ({"tasks": [[1]], "order_seed": 1}, "got both"),
        ({"train_per_class": 0}, "at least one sample"),
    ],
)
def test_bad_divisions_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        class_stream(data(), **arguments)


def images(channels: tuple[int, ...] = ()) -> Any:
    found = data(3)
    draw = np.random.RandomState(0)
    for part in ("train", "test"):
        pixels = draw.randint(1, 256, (36, 6, 5, *channels), dtype=np.uint8)
        setattr(found, f"x_{part}", pixels)
    return found


def test_images_are_moved_and_zero_comes_in() -> None:
    one = np.arange(1, 7).reshape(1, 2, 3)
    assert moved(one, np.array([[0, 1]])).tolist() == [[[0, 1, 2], [0, 4, 5]]]
    assert moved(one, np.array([[-1, -2]])).tolist() == [[[6, 0, 0], [0, 0, 0]]]
    assert moved(one, np.array([[0, 0]])).tolist() == one.tolist()


@pytest.mark.parametrize("channels", [(), (3,)])
def test_test_images_alone_are_moved_each_by_its_own_way(channels: tuple[int, ...]) -> None:
    toy = images(channels)
    tasks, still = class_stream(toy, 3, test_shift=2, subset_seed=4), class_stream(toy, 3)
    seen = set()
    for task, plain in zip(tasks, still, strict=True):
        assert (task.x_train == plain.x_train).all()
        for image, before in zip(task.x_test, plain.x_test, strict=True):
            ways = [(a, b) for a in range(-2, 3) for b in range(-2, 3)]
            [way] = [w for w in ways if (moved(before[None], np.array([w]))[0] == image).all()]
            seen.add(way)
    assert len(seen) > 12
    whole = at_once(tasks).x_test
    each = np.concatenate([task.x_test for task in tasks])
    assert sorted(map(bytes, whole)) == sorted(map(bytes, each))
    same = class_stream(toy, tasks=[[1]], test_shift=2, subset_seed=4)[0]
    assert (same.x_test == tasks[1].x_test).all()


def test_only_images_that_are_large_enough_can_be_moved() -> None:
    for what, most in ((data(), 1), (images(), 5)):
        with pytest.raises(SettingsError, match=f"for test_shift={most}, got samples of shape"):
            class_stream(what, 1, test_shift=most)
