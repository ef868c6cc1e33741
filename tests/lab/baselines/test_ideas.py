"""Each baseline's own piece of mathematics, computed once more by other means."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from redunet_lab.baselines.backbones import make_backbone
from redunet_lab.baselines.derpp import DarkExperienceReplay
from redunet_lab.baselines.ewc import OnlineEWC, fisher
from redunet_lab.baselines.icarl import ICaRL, herding
from redunet_lab.baselines.lwf import LearningWithoutForgetting, distillation
from redunet_lab.baselines.reservoir import Reservoir
from redunet_lab.baselines.si import SynapticIntelligence
from tests.lab.baselines.test_baselines import SHAPE, TASKS, images, make, weights

# Learning without Forgetting


def softened(outputs: NDArray[Any], temperature: float) -> NDArray[Any]:
    powers = np.exp(outputs / temperature)
    shares: NDArray[Any] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def test_distillation_is_the_cross_entropy_of_softened_outputs() -> None:
    rng = np.random.RandomState(0)
    old, new = rng.standard_normal((2, 7, 4))
    wanted = -np.mean(np.sum(softened(old, 3.0) * np.log(softened(new, 3.0)), axis=1))
    got = distillation(torch.from_numpy(old), torch.from_numpy(new), 3.0)
    assert float(got) == pytest.approx(wanted, rel=1e-12)


def test_lwf_adds_distillation_on_past_outputs_to_cross_entropy_on_those_seen() -> None:
    learner: LearningWithoutForgetting = make("lwf", alpha=1.5, temperature=2.0)
    learner.partial_fit(*TASKS[1])
    x, y = images(12, seed=3, labels=(0, 1))
    learner.new = [0, 1]
    learner.rng = np.random.RandomState(0)
    pictures, targets = torch.from_numpy(x), torch.from_numpy(y)
    before = learner.scores(pictures).numpy()
    learner.begin(pictures, targets)
    after = learner.scores(pictures).numpy()
    np.testing.assert_array_equal(after[:, [2, 3, 4, 5]], before[:, [2, 3, 4, 5]])
    assert np.mean(after[np.arange(12), y]) > np.mean(before[np.arange(12), y])
    with torch.no_grad():
        learner.network.head.weight += 0.1 * torch.randn(6, 100)
    rows = torch.arange(12)
    loss, outputs = learner.loss(*learner.inputs(learner.pictures.plain(pictures), targets, rows))
    now = outputs.detach().double().numpy()
    seen = softened(now[:, [0, 1, 2, 3]], 1.0)
    entropy = -np.mean(np.log(seen[np.arange(12), y]))
    old = softened(after[:, [2, 3]].astype(float), 2.0)
    kept = -np.mean(np.sum(old * np.log(softened(now[:, [2, 3]], 2.0)), axis=1))
    assert float(loss.detach()) == pytest.approx(entropy + 1.5 * kept, rel=1e-5)


# Elastic weight consolidation


def test_fisher_is_the_mean_squared_gradient_of_each_sample() -> None:
    network = make_backbone("mlp", SHAPE, 6, seed=1).eval()
    x, y = images(37, seed=2, labels=(0, 1, 4))
    inputs, targets = torch.from_numpy(x).float()[:, None] / 255, torch.from_numpy(y)
    wanted = [torch.zeros_like(p) for p in network.parameters()]
    for sample, target in zip(inputs, targets, strict=True):
        network.zero_grad()
        torch.log_softmax(network(sample[None]), dim=1)[0, target].backward()  # type: ignore[no-untyped-call]
        for total, p in zip(wanted, network.parameters(), strict=True):
            assert p.grad is not None
            total += p.grad.square() / 37
    got = fisher(network, inputs, targets)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-9)
    # And by hand for the outputs' bias, whose gradient is one-hot minus probabilities.
    shares = torch.softmax(network(inputs), dim=1).detach()
    by_hand = (torch.eye(6)[targets] - shares).square().mean(dim=0)
    torch.testing.assert_close(got[-1], by_hand, rtol=1e-4, atol=1e-9)


def test_ewc_adds_the_gradient_of_its_penalty() -> None:
    learner: OnlineEWC = make("ewc", penalty=7.0)
    learner.partial_fit(*TASKS[0])
    there = [p.detach().clone() for p in learner.network.parameters()]
    information = [f.clone() for f in learner.anchor.importance]
    with torch.no_grad():
        for p in learner.network.parameters():
            p.add_(torch.randn_like(p), alpha=0.01)
            p.grad = torch.zeros_like(p)
    learner.regularize()
    parameters = list(learner.network.parameters())
    penalty = sum(
        (f * (p - t).square()).sum() for f, p, t in zip(information, parameters, there, strict=True)
    )
    assert isinstance(penalty, Tensor)
    for p, wanted in zip(parameters, torch.autograd.grad(7.0 * penalty, parameters), strict=True):
        assert p.grad is not None
        torch.testing.assert_close(p.grad, wanted)


def test_ewc_adds_new_information_to_the_decayed_old() -> None:
    learner: OnlineEWC = make("ewc", decay=0.25)
    learner.partial_fit(*TASKS[0])
    old = [f.clone() for f in learner.anchor.importance]
    assert max(float(f.max()) for f in old) > 0
    learner.partial_fit(*TASKS[1])
    x, y = TASKS[1]
    learner.network.eval()
    new = fisher(learner.network, learner.pictures.plain(torch.from_numpy(x)), torch.from_numpy(y))
    wanted = [0.25 * o + n for o, n in zip(old, new, strict=True)]
    torch.testing.assert_close(learner.anchor.importance, wanted)
    torch.testing.assert_close(
        torch.cat([w.flatten() for w in learner.anchor.weights]), weights(learner)
    )


# Synaptic intelligence


def test_si_integrates_gradient_times_change_along_the_path() -> None:
    """Whole-batch descent over two tasks, with the path taken here once more."""
    learner: SynapticIntelligence = make(
        "si", epochs=5, batch_size=40, lr=0.2, strength=2.0, damping=0.1
    )
    network = copy.deepcopy(learner.network)
    parameters = list(network.parameters())
    omega = [torch.zeros_like(p) for p in parameters]
    anchor = [p.detach().clone() for p in parameters]
    for x, y in TASKS[:2]:
        earned = [torch.zeros_like(p) for p in parameters]
        inputs, targets = torch.from_numpy(x).float()[:, None] / 255, torch.from_numpy(y)
        for _ in range(5):
            own = torch.autograd.grad(cross_entropy(network(inputs), targets), parameters)
            loss = cross_entropy(network(inputs), targets)
            for p, o, a in zip(parameters, omega, anchor, strict=True):
                loss = loss + 2.0 * (o * (p - a).square()).sum()
            slope = torch.autograd.grad(loss, parameters)
            with torch.no_grad():
                for p, s, g, e in zip(parameters, slope, own, earned, strict=True):
                    before = p.clone()
                    p.sub_(s, alpha=0.2)
                    e -= g * (p - before)
        for o, e, p, a in zip(omega, earned, parameters, anchor, strict=True):
            o += e / ((p.detach() - a).square() + 0.1)
        anchor = [p.detach().clone() for p in parameters]
        learner.partial_fit(x, y)
    torch.testing.assert_close(learner.anchor.importance, omega, rtol=1e-3, atol=1e-6)
    assert max(float(o.max()) for o in omega) > 1e-3


# iCaRL


def test_herding_chooses_greedily() -> None:
    rng = np.random.RandomState(0)
    features = rng.standard_normal((30, 5))
    mean = features.mean(axis=0)
    chosen: list[int] = []
    for _ in range(12):
        costs = {
            row: np.linalg.norm(mean - features[[*chosen, row]].mean(axis=0))
            for row in range(30)
            if row not in chosen
        }
        chosen.append(min(costs, key=lambda row: costs[row]))
    assert herding(torch.from_numpy(features), 12).tolist() == chosen
    assert sorted(herding(torch.from_numpy(features), 99).tolist()) == list(range(30))


def test_icarl_shares_its_exemplars_out() -> None:
    learner: ICaRL = make("icarl", n_exemplars=21)
    sizes = []
    for task in TASKS:
        learner.partial_fit(*task)
        sizes.append({len(images) for images in learner.exemplars.values()})
    assert sizes == [{10}, {5}, {3}]
    assert sorted(learner.exemplars) == [0, 1, 2, 3, 4, 5]


def test_icarl_keeps_prefixes_of_the_herding_order() -> None:
    learner: ICaRL = make("icarl", n_exemplars=20).partial_fit(*TASKS[0])
    x, y = TASKS[0]
    for j in (0, 1):
        own = torch.from_numpy(x[y == j])
        order = herding(learner.features(own), 10)
        assert torch.equal(learner.exemplars[j], own[order])
    first = {j: images.clone() for j, images in learner.exemplars.items()}
    learner.partial_fit(*TASKS[1])
    assert all(torch.equal(learner.exemplars[j], first[j][:5]) for j in (0, 1))


def test_icarl_answers_the_nearest_mean_of_exemplars() -> None:
    learner: ICaRL = make("icarl", n_exemplars=20, epochs=5)
    for task in TASKS:
        learner.partial_fit(*task)
    x, _ = images(25, seed=8, labels=(0, 1, 2, 3, 4, 5))

    def unit(rows: NDArray[Any]) -> NDArray[Any]:
        scaled: NDArray[Any] = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
        return scaled

    def features(pixels: NDArray[Any]) -> NDArray[Any]:
        inside = torch.from_numpy(pixels).float()[:, None] / 255
        return unit(learner.network.body(inside).detach().double().numpy())

    means = [unit(features(learner.exemplars[j].numpy()).mean(axis=0)) for j in range(6)]
    distances = np.linalg.norm(features(x)[:, None] - np.array(means)[None], axis=2)
    np.testing.assert_array_equal(learner.predict(x), distances.argmin(axis=1))


def test_icarl_asks_past_outputs_of_the_old_network() -> None:
    learner: ICaRL = make("icarl").partial_fit(*TASKS[0])
    old = copy.deepcopy(learner.network)
    x, y = images(9, seed=4, labels=(2, 3))
    learner.new = [2, 3]
    pictures, targets = torch.from_numpy(x), torch.from_numpy(y)
    _, all_targets = learner.begin(pictures, targets)
    assert sorted(all_targets.tolist()) == sorted([*y.tolist(), *[0] * 10, *[1] * 10])
    with torch.no_grad():
        learner.network.head.weight += 0.1
    inside = learner.pictures.plain(pictures)
    loss, outputs = learner.loss(inside, targets)
    wanted = np.eye(6)[y]
    wanted[:, :2] = 1 / (1 + np.exp(-old(inside).detach().numpy()[:, :2]))
    p = 1 / (1 + np.exp(-outputs.detach().double().numpy()))[:, :4]
    by_hand = -np.mean(wanted[:, :4] * np.log(p) + (1 - wanted[:, :4]) * np.log(1 - p))
    assert float(loss.detach()) == pytest.approx(by_hand, rel=1e-5)


# Replay


@pytest.mark.parametrize("batch", [1, 7, 60])
def test_every_item_has_the_same_chance_to_stay(batch: int) -> None:
    rng = np.random.RandomState(batch)
    size, stream, repeats = 10, 60, 1500
    kept = np.zeros(stream)
    for _ in range(repeats):
        reservoir = Reservoir(size)
        for part in torch.split(torch.arange(stream), batch):
            reservoir.add(rng, part)
        (items,) = reservoir.items
        assert len(set(items.tolist())) == size
        kept[items.numpy()] += 1
    expected = repeats * size / stream
    # Each is binomial; five standard deviations, over 60 items.
    assert np.abs(kept - expected).max() < 5 * np.sqrt(expected * (1 - size / stream))


def test_a_reservoir_draws_distinct_items_and_keeps_their_parts_together() -> None:
    rng = np.random.RandomState(0)
    reservoir = Reservoir(8)
    reservoir.add(rng, torch.arange(5), 10 * torch.arange(5))
    one, ten = reservoir.draw(rng, 20)
    assert sorted(one.tolist()) == [0, 1, 2, 3, 4]
    reservoir.add(rng, torch.arange(5, 50), 10 * torch.arange(5, 50))
    one, ten = reservoir.draw(rng, 6)
    assert len(set(one.tolist())) == 6
    assert torch.equal(10 * one, ten)


def test_er_trains_on_the_batch_and_the_replayed_one_together() -> None:
    learner = make("er", replay_size=3)
    learner.partial_fit(*TASKS[0])
    learner.rng = np.random.RandomState(5)
    x, targets = torch.zeros(4, 1, *SHAPE), torch.full((4,), 2)
    both, labels = learner.inputs(x, targets, torch.arange(4))
    images, known = learner.reservoir.draw(np.random.RandomState(5), 3)
    assert torch.equal(both, torch.cat([x, learner.pictures.plain(images)]))
    assert labels.tolist() == [2, 2, 2, 2, *known.tolist()]
    kept, numbers = learner.reservoir.items
    for image, label in zip(kept.numpy(), numbers.tolist(), strict=True):
        assert any(np.array_equal(image, x) and label == y for x, y in zip(*TASKS[0], strict=True))


def test_derpp_adds_outputs_and_labels_of_two_draws() -> None:
    learner: DarkExperienceReplay = make("derpp", alpha=0.3, beta=0.7)
    learner.partial_fit(*TASKS[0])
    x, y = images(6, seed=11, labels=(2, 3))
    inputs = learner.inputs(
        learner.pictures.plain(torch.from_numpy(x)), torch.from_numpy(y), torch.arange(6)
    )
    batch, targets, replayed, remembered, others, known = inputs
    assert not torch.equal(replayed, others)
    loss, _ = learner.loss(*inputs)

    def entropy(pixels: Tensor, labels: Tensor) -> float:
        p = softened(learner.network(pixels).detach().double().numpy(), 1.0)
        return float(-np.mean(np.log(p[np.arange(len(p)), labels])))

    difference = learner.network(replayed).detach().numpy() - remembered.numpy()
    wanted = entropy(batch, targets) + 0.3 * np.mean(difference**2) + 0.7 * entropy(others, known)
    assert float(loss.detach()) == pytest.approx(float(wanted), rel=1e-5)


def test_derpp_remembers_the_outputs_an_image_had() -> None:
    learner: DarkExperienceReplay = make("derpp", epochs=1, batch_size=40)
    x, y = TASKS[0]
    first = copy.deepcopy(learner.network)
    learner.partial_fit(x, y)
    kept, _, outputs = learner.reservoir.items
    wanted = first(kept.float()[:, None] / 255).detach()
    torch.testing.assert_close(outputs, wanted, rtol=1e-5, atol=1e-6)
