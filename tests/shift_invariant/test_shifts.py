"""The network of all circular shifts, against the ordinary one on explicitly shifted samples."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from redunet.core.construction import Schedule
from redunet.core.grid import GRID, unit_rows
from redunet.core.layer import Sharpness
from redunet.core.moments import ClassMoments
from redunet.core.network import build_network
from redunet.core.readouts import NearestSubspace
from redunet.errors import DataError, SettingsError
from redunet.shift_invariant.correlation import Correlator, primes_for
from redunet.shift_invariant.layout import Layout
from redunet.shift_invariant.moments import MAX_COUNT, ShiftMoment, ShiftMoments
from redunet.shift_invariant.network import build_shift_network
from redunet.shift_invariant.predictive import new_samples
from redunet.shift_invariant.readouts import NearestShiftSubspace, ShiftCodingLength
from tests import reference

LAYOUTS = [Layout(3, (5,)), Layout(2, (6,)), Layout(2, (3, 4)), Layout(1, (2, 3, 2))]
"""Of odd and even lengths, in one dimension and more."""

Y = [0, 0, 0, 1, 1, 1, 1, 2, 2]


def samples(layout: Layout, n: int = len(Y), seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, layout.d, generator=generator, dtype=torch.float64) + 0.5


def shifted(X: Tensor, layout: Layout, by: tuple[int, ...]) -> Tensor:
    """Every sample shifted circularly."""
    planes = X.reshape(len(X), layout.channels, *layout.positions)
    return planes.roll(by, tuple(range(2, planes.ndim))).reshape(X.shape)


def lifted(X: Tensor, layout: Layout) -> Tensor:
    """All shifts of all samples, (n · rows, d): one shift of all, then the next."""
    every = itertools.product(*map(range, layout.positions))
    return torch.cat([shifted(X, layout, by) for by in every])


def differences(layout: Layout) -> Tensor:
    """The place of p − p' for all positions p and p': (n, n)."""
    at = torch.stack(torch.unravel_index(torch.arange(layout.n), layout.positions))
    sizes = torch.tensor(layout.positions)[:, None, None]
    steps = (at[:, :, None] - at[:, None]) % sizes
    places: Tensor = torch.from_numpy(np.ravel_multi_index(tuple(steps.numpy()), layout.positions))
    return places


def matrix(layout: Layout, blocks: Tensor) -> Tensor:
    """The block-circulant matrix, (..., d, d), real, of blocks, (..., F, C, C)."""
    lead, C, n = blocks.shape[:-3], layout.channels, layout.n
    whole = blocks.new_empty(*lead, n, C, C)
    whole[..., layout.opposite[layout.frequencies], :, :] = blocks.conj()
    whole[..., layout.frequencies, :, :] = blocks
    planes = whole.movedim(-3, -1).reshape(*lead, C, C, *layout.positions)
    axes = tuple(range(-len(layout.positions), 0))
    # An operator takes X to B X: its entry for two positions depends on their difference.
    kernel: Tensor = torch.fft.ifftn(planes, dim=axes).real.reshape(*lead, C, C, n)
    return kernel[..., differences(layout)].transpose(-3, -2).reshape(*lead, layout.d, layout.d)


def second_moment(moment: ShiftMoment) -> Tensor:
    """S of all shifts, (d, d), int64, from the correlations."""
    layout, (first, second) = moment.layout, moment.layout.pairs
    whole = moment.correlations.new_empty(layout.channels, layout.channels, layout.n)
    whole[second, first] = moment.correlations[:, layout.opposite]
    whole[first, second] = moment.correlations
    return whole[..., differences(layout).mT].transpose(1, 2).reshape(layout.d, layout.d)


def both(layout: Layout) -> tuple[ShiftMoments, ClassMoments]:
    X = samples(layout)
    explicit = ClassMoments(layout.d).update(lifted(X, layout), Y * layout.n)
    return ShiftMoments(layout).update(X, Y), explicit


@pytest.mark.parametrize("layout", [*LAYOUTS, Layout(2, (7, 1)), Layout(4, (1,))])
def test_correlations_are_exact_integers(layout: Layout) -> None:
    draw = torch.Generator().manual_seed(1)
    X = torch.randint(-GRID, GRID + 1, (11, layout.d), generator=draw)
    X[0] = GRID  # the largest there are
    X[1] = -GRID
    correlator = Correlator(layout)
    for part in torch.split(X.to(torch.float64), 4):
        correlator.add(part)
    found = correlator.finish()
    planes = X.reshape(11, layout.channels, *layout.positions)
    axes = tuple(range(1, planes.ndim - 1))
    every = itertools.product(*map(range, layout.positions))
    for t, by in enumerate(every):
        for row, (a, b) in enumerate(layout.pairs.mT.tolist()):
            back = tuple(-step for step in by)
            assert found[row, t] == (planes[:, a] * planes[:, b].roll(back, axes)).sum()


def test_primes_have_the_roots_of_unity_and_tell_all_integers() -> None:
    for positions in ((28, 28), (5,), (12, 7), (1,), (4096,)):
        primes = primes_for(positions)
        assert all(q % size == 1 or size == 1 for q in primes for size in positions)
        assert len({*primes}) == 3
        assert max(primes) < 2**22
        assert math.prod(primes) > 2**64
        assert all(q % p for q in primes for p in range(2, math.isqrt(q) + 1))
    with pytest.raises(DataError, match="small common multiple, got \\(1009, 1013\\)"):
        primes_for((1009, 1013))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_moments_are_those_of_explicit_shifts_to_the_last_bit(layout: Layout) -> None:
    moments, explicit = both(layout)
    assert moments.counts == (3, 4, 2)
    for label in (0, 1, 2):
        assert torch.equal(second_moment(moments[label]), explicit[label].second_moment)
        assert moments[label].trace() == explicit[label].trace()
        each = moments[label].sum.repeat_interleave(layout.n)
        assert torch.equal(each, explicit[label].sum)
    assert torch.allclose(matrix(layout, moments.blocks()), explicit.Sigma(), atol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("kind", "sharpness"), [("relative", Sharpness(20.0, "relative")), ("absolute", 0.7)]
)
def test_the_network_is_that_of_explicit_shifts(layout: Layout, kind: Any, sharpness: Any) -> None:
    moments, explicit = both(layout)
    schedule = Schedule(4, 0.5, 0.9, kind)
    network = build_shift_network(moments, 0.5, schedule)
    oracle = build_network(explicit, 0.5, schedule)
    assert len(network.layers) == len(oracle.layers) == 4
    for layer, other in zip(network.layers, oracle.layers, strict=True):
        assert (matrix(layout, layer.E) - other.E).abs().max() < 1e-13 * other.E.abs().max()
        assert (matrix(layout, layer.C) - other.C).abs().max() < 1e-13 * other.C.abs().max()
        assert layer.gamma.tolist() == other.gamma.tolist()
        assert layer.step == pytest.approx(other.step, rel=1e-14)
        wanted = other.rate.R, other.rate.R_c
        assert (layer.rate.R, layer.rate.R_c) == pytest.approx(wanted, rel=1e-13)
    assert (matrix(layout, network.last) - oracle.last_moments()).abs().max() < 1e-12
    Z = unit_rows(samples(layout, 7, seed=5) - 0.5)
    memberships = network.memberships(Z, sharpness)
    assert (memberships - oracle.memberships(Z, sharpness)).abs().max() < 1e-12
    features = network.transform(Z, sharpness)
    assert (features - oracle.transform(Z, sharpness)).abs().max() < 1e-13


@pytest.mark.parametrize("layout", LAYOUTS)
def test_subspaces_are_those_of_explicit_shifts_where_waves_fit(layout: Layout) -> None:
    moments, explicit = both(layout)
    schedule = Schedule(2, 0.5, 0.9, "relative")
    network, oracle = (
        build_shift_network(moments, 0.5, schedule),
        build_network(explicit, 0.5, schedule),
    )
    Z = network.transform(unit_rows(samples(layout, 6, seed=7)), 1.0)
    U, compared = layout.to_spectrum(Z), 0
    weights = layout.multiplicity[:, None].expand(-1, layout.channels).flatten()
    for r in range(1, layout.d):
        scores = NearestShiftSubspace.from_network(network, r).scores(U)
        wanted = NearestSubspace.from_network(oracle, r).scores(Z)
        for j, Sigma_j in enumerate(network.last):
            order = torch.linalg.eigvalsh(Sigma_j).flatten().argsort(descending=True)
            if r in weights[order].cumsum(0).tolist():  # no wave is cut in two
                assert torch.allclose(scores[:, j], wanted[:, j], atol=1e-12)
                compared += 1
    assert compared >= layout.d


@pytest.mark.parametrize("layout", LAYOUTS)
def test_coding_lengths_are_those_of_a_sample_with_all_its_shifts(layout: Layout) -> None:
    moments, _ = both(layout)
    network = build_shift_network(moments, 0.5, Schedule(1, 0.3, 1.0, "relative"))
    z = network.transform(unit_rows(samples(layout, 1, seed=7)), 1.0)
    [scores] = ShiftCodingLength.from_network(network).scores(layout.to_spectrum(z))
    orbit, d, total = lifted(z, layout), layout.d, sum(moments.counts)

    def nats(N: int, Sigma: Tensor) -> float:
        inside = torch.eye(d, dtype=torch.float64) + d / (N * 0.25) * Sigma
        return (N + d) / 2 * float(torch.logdet(inside))

    for score, n_j, Sigma_j in zip(
        scores, moments.counts, matrix(layout, network.last), strict=True
    ):
        N, n = n_j * layout.n, layout.n
        added = nats(N + n, Sigma_j + orbit.mT @ orbit) - nats(N, Sigma_j)
        assert float(score) == pytest.approx(-(added - n * math.log(n_j / total)), rel=1e-10)


@given(st.sampled_from(LAYOUTS), st.integers(0, 99), st.data())
@settings(max_examples=25, deadline=None)
def test_a_shift_moves_features_and_changes_nothing_else(
    layout: Layout, seed: int, data: st.DataObject
) -> None:
    by = tuple(data.draw(st.integers(-9, 9)) for _ in layout.positions)
    moments = ShiftMoments(layout).update(samples(layout), Y)
    assert moments == ShiftMoments(layout).update(shifted(samples(layout), layout, by), Y)
    network = build_shift_network(moments, 0.4, Schedule(3, 0.5, 0.9, "relative"))
    Z = unit_rows(samples(layout, 4, seed) - 0.5)
    moved = shifted(Z, layout, by)
    sharpness = Sharpness(30.0, "relative")
    features, after = network.transform(Z, sharpness), network.transform(moved, sharpness)
    assert (after - shifted(features, layout, by)).abs().max() < 1e-12
    one, other = network.memberships(Z, sharpness), network.memberships(moved, sharpness)
    assert (one - other).abs().max() < 1e-11
    for readout in (
        NearestShiftSubspace.from_network(network, layout.d // 2),
        ShiftCodingLength.from_network(network),
    ):
        a, b = (readout.scores(layout.to_spectrum(part)) for part in (features, after))
        assert (a - b).abs().max() < 1e-9 * a.abs().max()


@given(st.sampled_from(LAYOUTS), st.integers(0, 2**32), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_order_batches_and_merging_make_no_difference(
    layout: Layout, seed: int, n_batches: int
) -> None:
    draw = random.Random(seed)
    X, y = samples(layout), list(Y)
    empty = ShiftMoments(layout)
    joint = empty.update(X, y)
    rows = draw.sample(range(len(y)), len(y))
    cuts = sorted(draw.choices(range(len(y) + 1), k=n_batches - 1))
    parts = [rows[a:b] for a, b in itertools.pairwise([0, *cuts, len(y)])]
    batches = [(X[part], [y[row] for row in part]) for part in parts if part]
    one_by_one = empty
    merged = empty
    for batch in batches:
        one_by_one = one_by_one.update(*batch)
        merged = merged + empty.update(*batch)
    assert joint == one_by_one == merged == empty.update_from(batches)
    assert (
        joint.select([0, 2])
        == joint.drop([1])
        == empty.update(X[[0, 1, 2, 7, 8]], [0] * 3 + [2] * 2)
    )
    for batch in batches:
        rest = [other for other in batches if other is not batch]
        assert joint - empty.update(*batch) == empty.update_from(rest)
    tensors = joint.to_tensors()
    again = ShiftMoments.from_tensors(joint.labels, tensors)
    assert again == joint
    assert all(torch.equal(tensors[name], t) for name, t in one_by_one.to_tensors().items())


def test_a_file_holds_each_correlation_once() -> None:
    layout = Layout(3, (4, 4))
    tensors = ShiftMoments(layout).update(samples(layout), Y).to_tensors()
    assert {name: tuple(t.shape) for name, t in tensors.items()} == {
        "counts": (3,),
        "sums": (3, 3),
        "positions": (2,),
        "correlations": (3, 3 * 16 + 3 * 10),  # (4, 4) has 10 shifts up to their signs
    }
    assert all(t.dtype == torch.int64 for t in tensors.values())


def test_what_is_no_table_is_refused() -> None:
    layout = Layout(2, (4,))
    moments = ShiftMoments(layout).update(samples(layout), Y)
    tensors = moments.to_tensors()
    for name, wrong in (
        ("positions", torch.tensor([5])),
        ("positions", torch.tensor([2**13, 2])),
        ("counts", tensors["counts"][:2]),
        ("sums", tensors["sums"][:, :1]),
        ("correlations", tensors["correlations"][:, 1:]),
    ):
        with pytest.raises((DataError, SettingsError), match="expected"):
            ShiftMoments.from_tensors((0, 1, 2), {**tensors, name: wrong})
    with pytest.raises(DataError, match="in int64"):
        ShiftMoments.from_tensors((0, 1, 2), {**tensors, "sums": tensors["sums"].double()})
    with pytest.raises(DataError, match="each once"):
        ShiftMoments.from_tensors((0, 2, 1), tensors)
    huge = {**tensors, "correlations": tensors["correlations"] * 2**20}
    with pytest.raises(DataError, match="unit sphere"):
        ShiftMoments.from_tensors((0, 1, 2), huge)


def test_only_what_was_learnt_can_be_withdrawn() -> None:
    layout = Layout(2, (6,))
    X = samples(layout)
    moments = ShiftMoments(layout).update(X, Y)
    with pytest.raises(DataError, match="leaves moments that no samples have"):
        moments - ShiftMoments(layout).update(-samples(layout, 1, seed=8), [2])
    with pytest.raises(DataError, match="leaves moments that no samples have"):
        moments - ShiftMoments(layout).update(X[[7, 8, 8]], [2, 2, 2])
    assert moments - moments == ShiftMoments(layout)


def test_grids_that_do_not_fit_are_refused_in_one_line() -> None:
    with pytest.raises(DataError, match="a multiple of 12 features, got 25: set positions"):
        Layout.of(25, (3, 4))
    for wrong in ((), (0,), (2, 2, 2, 2), (2**15,), (3.0,)):
        with pytest.raises(SettingsError, match="expected positions as 1 to 3 lengths"):
            Layout(1, wrong)  # type: ignore[arg-type]
    moments = ShiftMoments(Layout(2, (6,))).update(samples(Layout(2, (6,))), Y)
    others: list[Any] = [ShiftMoments(Layout(1, (12,))), ClassMoments(12)]
    for other in others:
        with pytest.raises(DataError, match=r"expected moments of 2 channels on a grid of \(6,\)"):
            moments + other
    with pytest.raises(DataError, match="expected 12 features, got 13"):
        moments.update(torch.ones(1, 13), [0])
    with pytest.raises(DataError, match="zero vectors only"):
        build_shift_network(
            ShiftMoments(Layout(1, (4,))).update(torch.zeros(2, 4), [0, 0]), 0.5, Schedule(1, 1, 1)
        )
    one = moments[0]
    with pytest.raises(DataError, match=f"expected 1 to {MAX_COUNT:,} samples"):
        ShiftMoment(one.layout, MAX_COUNT + 1, one.sum, one.correlations)


def test_spectra_keep_lengths_and_lead_back() -> None:
    for layout in LAYOUTS:
        Z = samples(layout)
        U = layout.to_spectrum(Z)
        assert torch.allclose(U.abs().square().sum(dim=(0, 2)), Z.square().sum(dim=1), rtol=1e-14)
        assert torch.allclose(layout.from_spectrum(U), Z, atol=1e-14)


def test_drawn_samples_have_the_moments_they_are_drawn_from() -> None:
    layout = Layout(2, (4,))
    moments = ShiftMoments(layout).update(samples(layout, 60), [0] * 30 + [1] * 30)
    Z, classes = new_samples(moments, 40_000)
    assert Z.shape == (40_000, 8)
    assert classes.bincount().tolist() == [20_000, 20_000]
    for j in (0, 1):
        found = Z[classes == j].mT @ Z[classes == j] / 20_000
        assert (found - matrix(layout, moments[j].blocks()) / 30 / layout.n).abs().max() < 0.04


def test_forged_correlations_are_refused_in_one_line() -> None:
    X = torch.randn(6, 12)
    for layout in (Layout(3, (4,)), Layout(2, (2, 3)), Layout(12, (1,)), Layout(1, (12,))):
        shifts = ShiftMoments(layout).update(X, ["ant"] * 6)
        shifts.check_values(None)
        good = shifts.to_tensors()
        assert ShiftMoments.from_tensors(["ant"], good) == shifts
        for name, place, value in (
            ("sums", 0, 1),
            ("sums", 0, 2**40),
            ("correlations", 0, 1),
            ("correlations", -1, 2**43),
            ("correlations", -1, -(2**63) + 2**50),
        ):
            bad = {key: tensor.clone() for key, tensor in good.items()}
            bad[name].view(-1)[place] += value
            with pytest.raises(DataError, match="class 'ant': expected") as caught:
                ShiftMoments.from_tensors(["ant"], bad)
            assert "\n" not in str(caught.value)


def test_the_network_is_the_papers_sample_by_sample() -> None:
    layout = Layout(2, (3, 2))
    X = samples(layout)
    on_grid = torch.from_numpy(reference.gridded(X.numpy()))
    every = lifted(on_grid, layout).numpy()
    oracle = reference.train(every, np.array(Y * layout.n), 3, 0.5, 0.5, 0.9)
    moments = ShiftMoments(layout).update(X, Y)
    network = build_shift_network(moments, 0.5, Schedule(3, 0.5, 0.9))
    for layer, other in zip(network.layers, oracle.layers, strict=True):
        assert np.abs(matrix(layout, layer.E).numpy() - other.E).max() < 1e-13
        assert np.abs(matrix(layout, layer.C).numpy() - np.stack(other.C)).max() < 1e-12
    x = samples(layout, 1, seed=3)
    z = network.transform(unit_rows(x), 1.0)[0].numpy()
    assert np.abs(z - reference.transform(oracle, x[0].numpy(), 1.0)).max() < 1e-13


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16])
def test_the_dtype_of_equal_values_makes_no_difference(dtype: torch.dtype) -> None:
    layout = Layout(2, (3, 3))
    X = torch.randint(-99, 99, (9, layout.d), generator=torch.Generator().manual_seed(0))
    assert ShiftMoments(layout).update(X.to(dtype), Y) == ShiftMoments(layout).update(X, Y)
