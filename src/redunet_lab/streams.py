"""A data set as a sequence of tasks, each with classes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from redunet.errors import SettingsError
from redunet.validation import Declared, flag, setting, whole
from redunet_lab.datasets.dataset import Samples


@dataclass(frozen=True, eq=False)
class Task:
    """Some classes of a data set, all their samples at once.

    Parameters
    ----------
    classes : tuple of labels
    data : data set
    train_rows, test_rows : ndarray of int
        Which rows of the data set belong to the task.
    test_moves : ndarray of shape (n, 2), default=None
        By how many pixels each test image of the data set is moved down and right.
    """

    classes: tuple[Any, ...]
    data: Samples
    train_rows: NDArray[np.intp]
    test_rows: NDArray[np.intp]
    test_moves: NDArray[np.intp] | None = None

    @property
    def x_train(self) -> NDArray[Any]:
        """Training samples of the task's classes."""
        return self.data.x_train[self.train_rows]

    @property
    def y_train(self) -> NDArray[Any]:
        """Their labels."""
        return self.data.y_train[self.train_rows]

    @property
    def x_test(self) -> NDArray[Any]:
        """Test samples of the task's classes, moved where they are to be."""
        samples = self.data.x_test[self.test_rows]
        return (
            samples if self.test_moves is None else moved(samples, self.test_moves[self.test_rows])
        )

    @property
    def y_test(self) -> NDArray[Any]:
        """Their labels."""
        return self.data.y_test[self.test_rows]


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise SettingsError(f"expected {name} to be the name of a data set, got {value!r}")


def _classes_of_tasks(name: str, value: Any) -> tuple[tuple[Any, ...], ...] | None:
    if value is None:
        return None
    try:
        return tuple(tuple(task) for task in value)
    except TypeError:
        raise SettingsError(
            f"expected {name} as lists of classes such as [[0, 1], [2]], got {value!r}"
        ) from None


@dataclass(frozen=True)
class StreamSettings(Declared):
    """A data set, and the division of its classes into tasks."""

    data: str = setting("digits", _text, "A data set of `redunet_lab.datasets`.", "str")
    n_tasks: int | None = setting(
        None,
        whole(1, optional=True),
        "Tasks of equally many classes; 5, or one a class, where ``tasks`` is not given either.",
        "int or None",
    )
    tasks: tuple[tuple[Any, ...], ...] | None = setting(
        None, _classes_of_tasks, "Or the classes of each task.", "tuple of tuples or None"
    )
    order_seed: int | None = setting(
        None,
        whole(0, 2**32 - 1, optional=True),
        "Shuffles the classes; None keeps them in order.",
        "int or None",
    )
    shuffle: bool = setting(
        False, flag, "Whether each seed shuffles the classes, in place of ``order_seed``.", "bool"
    )
    train_per_class: int | None = setting(
        None, whole(1, optional=True), "At most so many training samples a class.", "int or None"
    )
    test_per_class: int | None = setting(
        None, whole(1, optional=True), "At most so many test samples a class.", "int or None"
    )
    test_shift: int = setting(
        0,
        whole(0, 2**16),
        """Test images are moved at random by up to so many pixels down or up and left or right;
        what comes in from outside is 0.""",
        "int",
    )


def class_stream(
    data: Samples,
    n_tasks: int | None = None,
    *,
    tasks: Sequence[Sequence[Any]] | None = None,
    order_seed: int | None = None,
    train_per_class: int | None = None,
    test_per_class: int | None = None,
    subset_seed: int = 0,
    test_shift: int = 0,
) -> tuple[Task, ...]:
    """Tasks of a data set: its classes, divided.

    Parameters
    ----------
    data : data set
    n_tasks : int, default=None
        So many tasks of as many classes each, the first ones taking one more
        where they do not divide evenly; 5, or as many as there are classes,
        where ``tasks`` is not given either.
    tasks : sequence of sequences of labels, default=None
        Or the classes of each task by name.
    order_seed : int, default=None
        Shuffles the classes before they are divided; None keeps them sorted.
    train_per_class, test_per_class : int, default=None
        At most so many samples of each class, drawn without replacement.
    subset_seed : int, default=0
        Of that draw; a class's samples do not depend on the other classes.
    test_shift : int, default=0
        Test images are moved by up to so many pixels along each axis, drawn with that seed.

    Returns
    -------
    tuple of Task
    """
    known = np.unique(data.y_train)
    if tasks is None:
        classes = known
        if order_seed is not None:
            classes = np.random.RandomState(order_seed).permutation(known)
        n_tasks = min(5, len(classes)) if n_tasks is None else n_tasks
        if not 1 <= n_tasks <= len(classes):
            raise SettingsError(
                f"expected 1 to {len(classes)} tasks for {len(classes)} classes, got {n_tasks}"
            )
        tasks = [part.tolist() for part in np.array_split(classes, n_tasks)]
    elif n_tasks is not None or order_seed is not None:
        raise SettingsError("expected either lists of classes or a number of tasks, got both")
    flat = [label for task in tasks for label in task]
    if len(set(flat)) != len(flat) or not all(tasks) or not set(flat) <= set(known.tolist()):
        raise SettingsError(
            f"expected tasks of distinct classes among {known.tolist()}, got {list(tasks)}"
        )
    moves = _moves(data, test_shift, subset_seed) if test_shift else None
    return tuple(
        Task(
            tuple(task),
            data,
            _rows(data.y_train, task, train_per_class, subset_seed),
            _rows(data.y_test, task, test_per_class, subset_seed + 1),
            moves,
        )
        for task in tasks
    )


def moved(images: NDArray[Any], moves: NDArray[np.intp]) -> NDArray[Any]:
    """Images moved within their frame; what comes in from outside is 0.

    Examples
    --------
    >>> moved(np.array([[[1, 2], [3, 4]]]), np.array([[1, -1]])).tolist()
    [[[0, 0], [2, 0]]]
    """
    most, (height, width) = int(np.abs(moves).max(initial=0)), images.shape[1:3]
    around = [(0, 0), (most, most), (most, most), *[(0, 0)] * (images.ndim - 3)]
    windows = zip(np.pad(images, around), most - moves, strict=True)
    return np.stack([one[y : y + height, x : x + width] for one, (y, x) in windows])


def _moves(data: Samples, most: int, seed: int) -> NDArray[np.intp]:
    """The move of each test image: ndarray of shape (n, 2)."""
    shape = data.x_test.shape
    if len(shape) < 3 or most >= min(shape[1:3]):
        raise SettingsError(
            f"expected images of more than {most} pixels along each side for test_shift={most}, "
            f"got samples of shape {tuple(shape[1:])}"
        )
    return np.random.RandomState(seed).randint(-most, most + 1, (len(data.y_test), 2))


def at_once(tasks: Sequence[Task]) -> Task:
    """All tasks of a data set as a single one."""
    return Task(
        tuple(label for task in tasks for label in task.classes),
        tasks[0].data,
        np.sort(np.concatenate([task.train_rows for task in tasks])),
        np.sort(np.concatenate([task.test_rows for task in tasks])),
        tasks[0].test_moves,
    )


def described(tasks: Sequence[Any]) -> list[dict[str, Any]]:
    """A stream for a record: a row a task, with the test samples of all classes seen so far."""
    rows, seen = [], 0
    for task in tasks:
        seen += len(task.y_test)
        classes = [c.item() if isinstance(c, np.generic) else c for c in task.classes]
        rows.append({"classes": classes, "train_samples": len(task.y_train), "test_samples": seen})
    return rows


def pooled(tasks: Sequence[Any], part: Literal["train", "test"]) -> tuple[Any, Any]:
    """Samples and labels of all tasks together, one task after another."""
    x, y = (np.concatenate([getattr(task, f"{name}_{part}") for task in tasks]) for name in "xy")
    return x, y


def drawn(
    labels: NDArray[Any], seed: int, count: Callable[[int], int], classes: Sequence[Any] = ()
) -> NDArray[np.bool_]:
    """A mask of samples of each class, drawn without replacement."""
    mask = np.zeros(len(labels), dtype=bool)
    for index, label in enumerate(np.unique(labels)):
        if len(classes) and label not in classes:
            continue
        rows = np.flatnonzero(labels == label)
        draw = np.random.RandomState([seed, index]).permutation(rows)
        mask[draw[: count(len(rows))]] = True
    return mask


def _rows(
    labels: NDArray[Any], classes: Sequence[Any], per_class: int | None, seed: int
) -> NDArray[np.intp]:
    """Rows of the given classes, ascending."""
    if per_class is None:
        return np.flatnonzero(np.isin(labels, classes))
    if per_class < 1:
        raise SettingsError(f"expected at least one sample of each class, got {per_class}")
    return np.flatnonzero(drawn(labels, seed, lambda n: per_class, classes))
