"""Avalanche's interface over estimators, against Avalanche itself."""

from __future__ import annotations

import importlib.util
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from redunet import ReduNetClassifier, SettingsError
from redunet.estimators import LinearDiscriminant, Ridge

if importlib.util.find_spec("avalanche") is None:
    pytest.skip(
        "Avalanche is not installed: `make avalanche` runs this with avalanche-lib",
        allow_module_level=True,
    )

from tests.adapters.torchvision_operators import declare_where_missing

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    declare_where_missing()
    from avalanche.benchmarks import tensors_benchmark
    from avalanche.evaluation.metrics import accuracy_metrics, forgetting_metrics, loss_metrics
    from avalanche.training.plugins import EvaluationPlugin

    from redunet.adapters.avalanche import ReduNetStrategy

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore"),  # Avalanche's own, of the packages it uses
]

X, y = load_digits(return_X_y=True)
TASKS = [(0, 1, 2), (3, 4, 5, 6), (7, 8, 9)]


def benchmark(order: list[tuple[int, ...]], shape: tuple[int, ...] = (64,)) -> Any:
    """The digits as experiences: 1,200 samples to learn, the others to test."""

    def part(rows: Any, classes: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = rows[np.isin(y[rows], classes)]
        return torch.from_numpy(X[chosen]).reshape(-1, *shape), torch.from_numpy(y[chosen])

    rows = np.arange(len(y))
    return tensors_benchmark(
        train_tensors=[part(rows[:1200], classes) for classes in order],
        test_tensors=[part(rows[1200:], classes) for classes in order],
        task_labels=[0] * len(order),
    )


def evaluator() -> Any:
    return EvaluationPlugin(
        accuracy_metrics(epoch=True, experience=True, stream=True),
        loss_metrics(experience=True),
        forgetting_metrics(experience=True),
    )


@pytest.mark.parametrize("order", [TASKS, TASKS[::-1]])
def test_experiences_add_up_to_the_model_of_all_data(order: list[tuple[int, ...]]) -> None:
    strategy = ReduNetStrategy(estimator=LinearDiscriminant(), evaluator=evaluator())
    stream = benchmark(order)
    for experience in stream.train_stream:
        found = strategy.train(experience)
        [trained] = [v for k, v in found.items() if k.startswith("Top1_Acc_Epoch/train_phase")]
        assert trained > 0.9
    measured = strategy.eval(stream.test_stream)
    whole = LinearDiscriminant().fit(X[:1200], y[:1200])
    assert strategy.estimator.to_bytes() == whole.to_bytes()
    [accuracy] = [v for k, v in measured.items() if k.startswith("Top1_Acc_Stream/eval_phase")]
    assert accuracy == pytest.approx(whole.score(X[1200:], y[1200:]))
    losses = [v for k, v in measured.items() if k.startswith("Loss_Exp/eval_phase")]
    assert len(losses) == 3
    assert all(np.isfinite(loss) for loss in losses)


def test_a_network_is_asked_about_classes_to_come() -> None:
    stream = benchmark(TASKS)
    strategy = ReduNetStrategy(
        estimator=ReduNetClassifier(n_layers=2, n_components=10), evaluator=evaluator()
    )
    first, *_ = stream.train_stream
    strategy.train(first)
    found = strategy.eval(stream.test_stream)  # of classes 3 to 9 it knows nothing
    accuracies = [v for k, v in sorted(found.items()) if k.startswith("Top1_Acc_Exp/eval_phase")]
    assert accuracies[0] > 0.95
    assert accuracies[1:] == [0, 0]
    strategy.estimator.forget([2])
    assert strategy.estimator.classes_.tolist() == [0, 1]


def test_an_encoder_stands_before_it_and_stays_as_it_is() -> None:
    encoder = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 40), torch.nn.Dropout(0.9), torch.nn.ReLU()
    ).double()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    strategy = ReduNetStrategy(estimator=Ridge(), encoder=encoder, evaluator=None)
    stream = benchmark(TASKS, shape=(1, 8, 8))
    strategy.train(stream.train_stream)
    with torch.no_grad():
        vectors = encoder.eval()(torch.from_numpy(X[:1200]))
    assert strategy.estimator.moments_ == Ridge().fit(vectors, y[:1200]).moments_
    assert all(torch.equal(before[name], value) for name, value in encoder.state_dict().items())


def test_samples_are_not_learnt_twice() -> None:
    with pytest.raises(SettingsError, match="expected train_epochs=1, as samples"):
        ReduNetStrategy(train_epochs=2)
