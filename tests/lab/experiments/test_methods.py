"""Who takes part in a comparison: what is random, and whose settings and features they have."""

from __future__ import annotations

from typing import Any

import pytest

from redunet_lab.closed_forms import CLOSED_FORMS
from redunet_lab.experiment import FEATURES, Experiment, Plan
from redunet_lab.methods import Method, names
from redunet_lab.paper import SETTINGS

NAMES = [name for name in names() if name != "subspace"]


def method(key: str, data: str, **changes: Any) -> Method:
    return Method.of(key, Experiment.of(data, usual=SETTINGS, changes=changes))


def test_what_is_random() -> None:
    fixed = [key for key in NAMES if not method(key, "mnist").random]
    assert fixed == ["redunet", "ncm", "lda", "ridge", "qda", "pairwise", "slda", "air", "fecam"]
    assert all(method(key, "cifar10").random for key in NAMES)
    assert method("redunet", "mnist", train_per_class=9).random  # the seed draws the samples
    assert all(method(key, "mnist", shuffle=True).random for key in NAMES)


def test_settings_chosen_for_vectors_hold_for_any_recipe_that_leaves_them_as_they_are() -> None:
    for recipe in (None, "embeddings"):
        plain = Experiment.of("clinc150", recipe=recipe)
        assert Method.of("ranpac", plain).settings == {"n_projections": 10000, "ridge": 0.03}
    changed = {"features": "random-relu"}
    lifted = Experiment.of("clinc150", recipe="embeddings", changes=changed)
    assert Method.of("ranpac", lifted).settings["n_projections"] == 2000


def test_the_network_has_the_papers_settings_where_there_are_some() -> None:
    mnist, cifar10, digits, fashion = (
        method("redunet", data).experiment.plan
        for data in ("mnist", "cifar10", "digits", "fashion_mnist")
    )
    assert (mnist.n_layers, mnist.n_components, mnist.features) == (200, 28, "pixels")
    assert (cifar10.n_layers, cifar10.features, cifar10.n_kernels) == (50, "lift", 5)
    assert (digits, fashion) == (Plan(data="digits"), Plan(data="fashion_mnist"))


@pytest.mark.parametrize("data", ["digits", "mnist", "fashion_mnist", "cifar10"])
def test_closed_form_methods_have_the_networks_features(data: str) -> None:
    ours = method("redunet", data, n_kernels=3).run_settings((), 0)
    for key in CLOSED_FORMS:
        theirs = method(key, data, n_kernels=3).run_settings((), 0)
        assert {k: theirs[k] for k in FEATURES} == {k: ours[k] for k in FEATURES}
    assert ours["n_kernels"] == 3
