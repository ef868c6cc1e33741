"""Shared filters: what a cut network takes is counted right, and no label changes."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from benchmarks.growth import CASES, FORMS, RECORD, exponents, generated, measure
from benchmarks.growth_page import CUT, PAGE, filled
from benchmarks.shared_filters import Cuts, factors_of, of_factors, plain, rows_of, size, within
from redunet.core.construction import Schedule
from redunet.core.fusion import Fusion
from redunet.core.fusion_choice import narrow
from redunet.core.layer import Layer
from redunet.core.low_rank import LowRankLayer
from redunet.core.memberships import Sharpness
from redunet.core.network import build_network
from redunet.core.readouts import read_out


def made(which: str) -> tuple[Cuts, Tensor]:
    """Digits, in matrices, or few samples of many classes, in factors; and test samples."""
    samples = CASES["digits"].samples() if which == "digits" else generated(20, 40, 8)
    moments = samples.learnt(10)
    network = build_network(moments, 0.5, Schedule(2, 0.2, 0.9, "relative"))
    scores = read_out(network, "subspace", 12, 0.01).scores
    return Cuts(network, Sharpness(30.0, "relative"), scores), samples.tested(10)


MADE = {which: made(which) for which in ("digits", "generated")}


def of_classes(fusion: Fusion) -> list[Tensor]:
    """The tensors that belong to single classes."""
    found: list[Tensor] = []
    for layer in fusion.layers:
        if isinstance(layer, LowRankLayer):
            found += [layer.compression, *(stack.B for stack in layer.stacks), *layer.M]
        else:
            found.append(layer.C)
    return found


@pytest.mark.parametrize("which", MADE)
def test_numbers_are_those_of_the_tensors(which: str) -> None:
    cuts, _ = MADE[which]
    d = cuts.most
    for fusion in (cuts.shared(7), cuts.shared(30), cuts.own(3), cuts.shared_and_own(9, 3)):
        basis = None if fusion.space is None else fusion.space.basis
        of_all = [layer.E for layer in fusion.layers] + ([] if basis is None else [basis])
        found = size(fusion, d)
        assert found.numbers - found.of_classes == sum(one.numel() for one in of_all)
        assert found.of_classes == sum(one.numel() for one in of_classes(fusion))
    assert size(cuts.shared(7), d).filters == 7
    assert size(cuts.own(4), d).filters == 2 * (d + 10 * 4)


def test_the_plain_network_has_a_matrix_for_each_class_and_one_for_all() -> None:
    C = torch.zeros(3, 5, 5)
    layer = Layer(
        C[0], C, MADE["digits"][0].layers[0].coding, 0.1, MADE["digits"][0].layers[0].rate
    )
    assert plain(3, 5, 4).numbers == 4 * layer.products() == 4 * 4 * 25
    assert plain(3, 5, 4).filters == 4 * 4 * 5
    assert rows_of(MADE["digits"][0].layers[0]) == 11 * 64


@pytest.mark.parametrize("R", [3, 10, 25])
def test_factors_within_a_basis_are_the_matrices_within_it(R: int) -> None:
    cuts, _ = MADE["generated"]
    layer, basis = cuts.layers[1], torch.linalg.qr(torch.randn(40, R, dtype=torch.float64))[0]
    cut, matrices = within(layer, basis), narrow(layer, basis)
    assert isinstance(layer, LowRankLayer)
    assert isinstance(cut, LowRankLayer) == (R == 25)
    assert torch.allclose(cut.E, matrices.E, atol=1e-12)
    assert torch.allclose(cut.C, matrices.C, atol=1e-12 * float(matrices.C.abs().max()))


@pytest.mark.parametrize("which", MADE)
def test_a_class_keeps_its_leading_directions(which: str) -> None:
    layer = MADE[which][0].layers[1]
    factors = factors_of(layer)
    again = of_factors(layer, factors)
    scale = float(layer.C.abs().max())
    assert torch.allclose(again.C, layer.C, atol=1e-6 * scale)
    cut = of_factors(layer, {j: F[:, :3] for j, F in factors.items()})
    alphas = layer.C.new_tensor(layer.coding.alphas)[:, None]
    kept, every = (1 - torch.linalg.eigvalsh(one.C) / alphas for one in (cut, layer))
    assert torch.allclose(kept[:, :3], every[:, :3], atol=1e-6)
    assert float(kept[:, 3:].abs().max()) < 1e-9


@pytest.mark.parametrize("which", MADE)
def test_no_label_differs_whatever_the_network_is_cut_to(which: str) -> None:
    cuts, Z = MADE[which]
    whole = cuts.scores_of(cuts.network.transform(Z, cuts.sharpness)).argmax(dim=1)
    for directions in (2, 8, 16, 32):
        r = max(1, directions // 4)
        for pair in (
            (cuts.shared(directions // 2), cuts.shared(directions)),
            (cuts.own(directions // 2), cuts.own(directions)),
            (
                cuts.shared_and_own(directions // 2, max(1, r // 2)),
                cuts.shared_and_own(directions, r),
            ),
        ):
            labels, unchecked, done = cuts.answer(*pair, Z)
            assert torch.equal(labels, whole)
            assert torch.equal(labels[done], unchecked[done])


def test_the_directions_found_leave_as_many_labels_beyond_doubt_as_asked() -> None:
    cuts, Z = MADE["digits"]
    some, share = cuts.fewest(cuts.shared, cuts.most, Z, 0.5)
    more, larger_share = cuts.fewest(cuts.shared, cuts.most, Z, 0.99)
    assert 1 < some < more < 64
    assert 0.5 <= share < 0.99 <= larger_share


def test_the_record_of_digits_can_be_made_again() -> None:
    cases = json.loads(RECORD.read_text())["cases"]
    rows = next(one["rows"] for one in cases if one["case"] == "digits")
    again = measure(CASES["digits"], 4)
    old = next(row for row in rows if row["k"] == 4)
    assert again["plain"] == old["plain"]
    assert again["low_rank"] == old["low_rank"]
    for form in CUT:  # rounding may tip one sample
        assert abs(again[form]["directions"] - old[form]["directions"]) <= 2
        assert again[form]["labels_differ"] == 0


def test_the_record_has_no_label_that_differs_and_the_fitted_exponents() -> None:
    cases = json.loads(RECORD.read_text())["cases"]
    assert [one["case"] for one in cases] == list(CASES)
    for one in cases:
        assert [row["k"] for row in one["rows"]] == list(CASES[one["case"]].sizes)
        assert all(row[form]["labels_differ"] == 0 for row in one["rows"] for form in CUT)
        assert one["exponents"] == exponents(one["rows"])
        assert set(one["exponents"]) == set(FORMS)


def test_the_page_shows_the_record() -> None:
    text = PAGE.read_text()
    assert filled(text, json.loads(RECORD.read_text())) == text
    assert text.count("of benchmarks/results/growth.json: begin") == 5
