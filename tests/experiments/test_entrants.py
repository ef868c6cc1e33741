"""Who takes part in a comparison: what is random, and whose settings and features they have."""

from __future__ import annotations

import pytest

from redunet import rivals
from redunet.experiments import entrants
from redunet.experiments.entrants import NAMES, Entrant
from redunet.experiments.plan import Plan


def test_what_is_random() -> None:
    fixed = [m for m in NAMES if not Entrant.of(m, "mnist", {}).random]
    assert fixed == ["redunet", "ncm", "lda", "ridge", "qda"]
    assert all(Entrant.of(method, "cifar10", {}).random for method in NAMES)


def test_the_network_has_the_papers_settings_where_there_are_some() -> None:
    mnist, cifar10, digits, fashion = (
        Entrant.of("redunet", data, {}).plan
        for data in ("mnist", "cifar10", "digits", "fashion_mnist")
    )
    assert (mnist.n_layers, mnist.n_components, mnist.features) == (200, 28, "pixels")
    assert (cifar10.n_layers, cifar10.features, cifar10.n_kernels) == (50, "lift", 5)
    assert (digits, fashion) == (Plan(data="digits"), Plan(data="fashion_mnist"))


@pytest.mark.parametrize("data", ["digits", "mnist", "fashion_mnist", "cifar10"])
def test_closed_form_methods_have_the_networks_features(data: str) -> None:
    ours = Entrant.of("redunet", data, {"redunet": {"n_kernels": 3}}).settings
    for method in rivals.CLOSED_FORM:
        theirs = Entrant.of(method, data, {"redunet": {"n_kernels": 3}}).settings
        assert {k: theirs[k] for k in entrants.FEATURES} == {k: ours[k] for k in entrants.FEATURES}
    assert ours["n_kernels"] == 3
