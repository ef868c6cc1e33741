"""Recipes taken apart, side by side."""

from __future__ import annotations

from typing import Any

import pytest

from redunet_lab.report.ablation_tables import ablations_table, ingredients_table

WHOLE = {
    "recipe": False,
    "features": "patches-5+patches-8",
    "without": [],
    "n_maps": 2,
    "n_features": 400,
    "n_layers": 0,
    "step_kind": "relative",
    "step": 0.5,
    "whitening": None,
    "readout": "pairwise",
}
LAYERS = {"n_layers": 1, "step": 0.3, "whitening": 0.01, "readout": "regression"}


def row(accuracy: float, **changes: Any) -> dict[str, Any]:
    return {**WHOLE, **changes, "accuracy": accuracy}


def made(title: str, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"title": title, "recipe": "images-some", "ablation": list(rows)}


def test_parts_and_networks_of_two_recipes() -> None:
    first = made(
        "CIFAR-10",
        row(0.4, features="pixels", n_maps=1, n_features=12, readout="subspace"),
        row(0.5, features="pixels", n_maps=1, n_features=12),
        row(0.6, features="patches-5", n_features=200),
        row(0.65, n_maps=1, n_features=200),
        row(0.7, without=["roots"]),
        row(0.8, recipe=True),
        row(0.75, **LAYERS),
    )
    other = {**LAYERS, "n_layers": 2, "step": 0.5}
    second = made(
        "MNIST",
        row(0.95, n_features=50),
        row(0.97, n_features=50, recipe=True, **other),
        row(0.96, n_features=50, **{**other, "step_kind": "absolute", "whitening": None}),
    )
    assert ablations_table([first, second]).splitlines() == [
        "| features | CIFAR-10, images-some, 400 features | MNIST, images-some, 50 features |",
        "| --- | ---: | ---: |",
        "| pixels, nearest subspace | 0.4000 | – |",
        "| pixels alone | 0.5000 | – |",
        "| patches-5 alone | 0.6000 | – |",
        "| 1 of 2 maps | 0.6500 | – |",
        "| without roots | 0.7000 | – |",
        "| **the whole recipe** | 0.8000 | 0.9700 |",
        "",
        "| read-out | layers | whitening | CIFAR-10; layers: 1, relative step 0.3 | "
        "MNIST; layers: 2, relative step 0.5 |",
        "| --- | --- | --- | ---: | ---: |",
        "| **pairwise discriminants** | – | – | 0.8000 | 0.9500 |",
        "| **ridge regression** | yes | ρ = 0.01 | 0.7500 | 0.9700 |",
        "| ridge regression | the paper's step | – | – | 0.9600 |",
    ]


def test_a_record_without_its_recipe_has_no_table() -> None:
    with pytest.raises(StopIteration):
        ablations_table([made("MNIST", row(0.9))])


def test_of_more_than_two_kinds_all_are_named_by_their_number() -> None:
    def features(kinds: str) -> list[str]:
        record = made(
            "MNIST",
            row(0.1, features=kinds.split("+")[0], n_maps=1, n_features=100),
            row(0.2, features=kinds, without=["roots"], n_maps=1),
            row(0.3, features=kinds, recipe=True),
        )
        record["methods"] = [{"random": True, "runs": [{"seed": 7}]}]
        table = ingredients_table(record)
        assert table.caption.endswith("after the last task, seed 7; in bold the recipe")
        return [cells[0] for cells in table.rows]

    assert features("patches-5+patches-8") == [
        "patches-5, 100",
        "patches-5 + patches-8 without roots, 400",
        "patches-5 + patches-8, 400 in 2 maps",
    ]
    assert features("patches-5+patches-8+scattering") == [
        "patches-5, 100",
        "all 3 kinds without roots, 400",
        "all 3 kinds, 400 in 2 maps",
    ]
