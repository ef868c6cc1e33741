"""Samples of no known class: how novel they are, who is rejected, and what stays exact."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from redunet import ReduNetClassifier, SettingsError
from redunet.estimators.predictor import StreamingWarning
from redunet.features import Flatten

pytestmark = pytest.mark.usefixtures("one_thread")

SHARES = (0.01, 0.05, 0.2)

Data = tuple[NDArray[Any], NDArray[Any]]


@pytest.fixture(scope="module")
def data() -> Data:
    """The digits 0 to 5."""
    X, y = load_digits(return_X_y=True)
    return X[y < 6], y[y < 6]


def network(**settings: Any) -> ReduNetClassifier:
    return ReduNetClassifier(n_layers=2, n_components=3, **settings)


def split(data: Data) -> tuple[Data, NDArray[Any], NDArray[Any]]:
    """Samples of four classes to learn, others of these four, and those of two classes more."""
    X, y = data
    known = y < 4
    half = np.arange(len(y)) % 2 == 0
    return (X[known & half], y[known & half]), X[known & ~half], X[~known]


@pytest.mark.parametrize(
    "settings",
    [{}, {"dtype": "float32"}, {"whitening": 0.1}, {"n_layers": 0}, {"memory": 0}, {"exact": True}],
)
def test_samples_of_unknown_classes_are_rejected(data: Data, settings: dict[str, Any]) -> None:
    learnt, known, unknown = split(data)
    model = network().set_params(**settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamingWarning)
        model.fit(*learnt)
        plain = network().fit(*learnt)
        answers = model.predict(unknown, reject=0.05)
        assert np.mean(answers == None) > 0.9  # noqa: E711
        kept = model.predict(known, reject=0.05)
        assert np.mean(kept == None) < 0.1  # noqa: E711
        answered = kept != None  # noqa: E711
        assert kept[answered].tolist() == model.predict(known)[answered].tolist()
        np.testing.assert_allclose(model.novelty(known), plain.novelty(known), rtol=1e-4)


def test_novelty_is_the_added_coding_length(data: Data) -> None:
    (X, y), known, _ = split(data)
    model = network(eps=0.7).fit(X, y)
    unit = known / np.linalg.norm(known, axis=1, keepdims=True)
    x = np.c_[unit, np.ones(len(unit))] / 2**0.5
    lengths = []
    for rows in (X[y == label] for label in range(4)):
        learnt = np.c_[rows / np.linalg.norm(rows, axis=1, keepdims=True), np.ones(len(rows))]
        base = np.eye(65) + 65 / 0.49 * (learnt.T @ learnt / len(rows) / 2)
        with_it = base + 65 / 0.49 * x[:, :, None] * x[:, None, :]
        lengths.append(np.linalg.slogdet(with_it)[1] - np.linalg.slogdet(base)[1])
    np.testing.assert_allclose(model.novelty(known), np.min(lengths, axis=0), rtol=1e-4)


def test_validation_samples_set_the_share(data: Data, tmp_path: Path) -> None:
    learnt, known, unknown = split(data)
    model = network().fit(*learnt)
    estimated = model.rejection_threshold(0.1)
    before = tmp_path / "before"
    model.save(before)
    model.calibrate_rejection(known)
    novelty = model.novelty(known)
    for share in (0.05, 0.1, 0.5):
        assert np.mean(novelty > model.rejection_threshold(share)) == pytest.approx(share, abs=0.01)
    assert np.mean(model.predict(unknown, reject=0.1) == None) > 0.9  # noqa: E711
    model.save(tmp_path / "with")
    again = ReduNetClassifier.load(tmp_path / "with")
    assert again.rejection_threshold(0.1) == model.rejection_threshold(0.1) != estimated
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "with").read_bytes()
    with pytest.raises(SettingsError, match="calibrated, got 4: set it back, or calibrate again"):
        model.set_params(eps=4.0).rejection_threshold(0.1)


class Hooked(Flatten):
    """A feature map that calls a function before its first samples of each answer."""

    calls = 0
    hook: Callable[[], object] | None = None

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """The samples as they are."""
        type(self).calls += len(X)
        hook, type(self).hook = type(self).hook, None
        if hook is not None:
            hook()
        return super().__call__(X)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("ask", ["predict", "novelty", "calibrate_rejection"])
def test_an_answer_belongs_to_one_state(data: Data, ask: str, exact: bool) -> None:
    """A model that another thread replaces while it answers labels and rejects by the old one."""
    (X, y), known, unknown = split(data)
    asked = np.concatenate([known, unknown])

    def answer(model: ReduNetClassifier) -> list[Any]:
        if ask == "predict":
            labels: list[Any] = model.predict(asked, reject=0.05).tolist()
            return labels
        if ask == "novelty":
            novelty: list[float] = model.novelty(asked).tolist()
            return novelty
        return [model.calibrate_rejection(known).rejection_threshold(share) for share in SHARES]

    for hook in ("forget", "calibrate_rejection"):
        model = network(features=Hooked((64,)), exact=exact).fit(X, y)
        expected, change = answer(model), {"forget": ([0, 1],), "calibrate_rejection": (unknown,)}
        model = network(features=Hooked((64,)), exact=exact).fit(X, y)
        Hooked.hook = partial(getattr(model, hook), *change[hook])
        assert answer(model) == expected
        assert Hooked.hook is None


def test_labels_and_rejections_share_one_pass_through_the_feature_map(data: Data) -> None:
    (X, y), known, _ = split(data)
    model = network(features=Hooked((64,))).fit(X, y)
    for exact in (False, True):
        model.set_params(exact=exact).predict(known, reject=0.05)
        Hooked.calls = 0
        model.predict(known, reject=0.05)
        assert Hooked.calls == len(known)


@pytest.mark.parametrize("change", ["partial_fit", "forget", "unlearn", "merge"])
def test_a_calibration_is_dropped_when_what_it_is_about_changes(
    data: Data, tmp_path: Path, change: str
) -> None:
    """And the file is that of a model which was never calibrated."""
    (X, y), known, _ = split(data)
    plain, calibrated = network().fit(X, y), network().fit(X, y).calibrate_rejection(known)
    arguments: dict[str, tuple[Any, ...]] = {
        "partial_fit": (X[:5], y[:5]),
        "forget": ([3],),
        "unlearn": (X[:5], y[:5]),
        "merge": (network().fit(X, y),),
    }
    for model, name in ((plain, "plain"), (calibrated, "calibrated")):
        getattr(model, change)(*arguments[change]).save(tmp_path / name)
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "calibrated").read_bytes()
    assert plain.rejection_threshold(0.05) == calibrated.rejection_threshold(0.05)


def test_thresholds_from_moments_forget_and_merge_exactly(data: Data) -> None:
    X, y = data
    never = network().fit(X[y != 2], y[y != 2])
    forgot = network().fit(X, y).forget([2])
    merged = network().fit(X[y > 2], y[y > 2]).merge(network().fit(X[y < 2], y[y < 2]))
    thresholds = {model.rejection_threshold(0.05) for model in (never, forgot, merged)}
    assert len(thresholds) == 1
    assert np.array_equal(never.novelty(X), forgot.novelty(X))


@pytest.mark.parametrize("share", [0, 1, -0.1, 5, "0.05", True, None, float("nan")])
def test_a_share_is_a_number_between_0_and_1(data: Data, share: Any) -> None:
    model = network().fit(*data)
    with pytest.raises(SettingsError, match=r"between 0 and 1, such as 0\.05, got"):
        model.rejection_threshold(share)
