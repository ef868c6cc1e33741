"""Which variants a recipe is taken apart into."""

from __future__ import annotations

from typing import Any

from redunet.core.readouts import READOUTS
from redunet_lab.ablation import variants as experiments
from redunet_lab.experiment import Experiment, Plan
from redunet_lab.recipes import settings

PLAN = Plan(data="digits").changed(settings("images-fast"))


def variants(plan: Plan) -> list[Plan]:
    return [one.plan for one in experiments(Experiment(plan))]


def test_the_variants_are_all_combinations_of_the_ingredients() -> None:
    def key(plan: Plan) -> tuple[Any, ...]:
        return plan.features, plan.whitening, plan.n_layers, plan.step_kind, plan.readout

    found = variants(PLAN)
    assert len(found) == len(set(found)) == 24
    assert found.count(PLAN) == 1
    assert {key(plan) for plan in found} == {
        ("pixels", None, 0, "relative", "subspace"),
        ("pixels", None, 1, "relative", "discriminant"),
        *(
            ("patches", rho, depth, "relative", readout)
            for rho in (None, 0.01)
            for depth in (0, 1)
            for readout in READOUTS
            if readout != "pairwise"
        ),
        ("patches", None, 1, "absolute", "discriminant"),
    }
    # Nothing but the ingredients differs.
    for plan in found:
        same = {"features", "sqrt", "whitening", "n_layers", "readout"}
        same |= {"step", "step_kind", "step_decay"}
        changed = {k for k, v in plan.to_dict().items() if v != PLAN.to_dict()[k]}
        assert changed <= same


def test_a_recipe_may_have_whitening_and_no_layers_or_pixels() -> None:
    whitened = PLAN.changed({"whitening": 0.3, "n_layers": 0})
    found = variants(whitened)
    assert len(found) == 23
    assert {plan.whitening for plan in found} == {None, 0.3}
    assert {(plan.n_layers, plan.step, plan.step_kind) for plan in found if plan.n_layers} == {
        (1, 0.3, "relative")
    }
    paper = Plan(data="mnist").changed(settings("paper-mnist"))
    assert len(variants(paper)) == 20
    assert paper in variants(paper)


def test_feature_maps_side_by_side_are_tried_one_by_one() -> None:
    together = Plan(data="mnist").changed(settings("images-best"))
    alone = [plan for plan in variants(together) if plan.features in together.kinds]
    assert alone == [together.changed({"features": kind}) for kind in ("patches", "larger-patches")]
    for step in ("sqrt", "mirrored"):
        assert together.changed({step: False}) in variants(together)
    assert len(variants(together)) == 27


def test_the_first_of_several_maps_is_tried_alone() -> None:
    several = Plan(data="cifar10").changed(settings("images-ensemble"))
    assert variants(several).count(several.changed({"n_ensemble": 1})) == 1
    assert all(plan.n_ensemble == 1 for plan in variants(several) if plan.features == "pixels")


def test_pairs_are_tried_where_they_are_the_recipes_own() -> None:
    pairs = [one for one in variants(PLAN.changed({"readout": "pairwise"})) if one.n_layers]
    assert sum(one.readout == "pairwise" for one in variants(PLAN)) == 0
    assert {one.whitening for one in pairs if one.readout == "pairwise"} == {None, 0.01}


def test_few_pixels_have_the_usual_number_of_components() -> None:
    found = [one.plan for one in experiments(Experiment(PLAN), n_pixels=64)]
    assert {one.n_components for one in found if one.features == "pixels"} == {None}
    assert {one.n_components for one in found if one.features != "pixels"} == {PLAN.n_components}
    assert PLAN.n_components is not None
    assert found[0].network().components(64) == 28
