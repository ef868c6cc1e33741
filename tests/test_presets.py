"""What is said of the presets for vectors and tables is what their records say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks import presets, splits
from redunet.estimators.recipes import RECIPES
from tests.records import RECIPES as PAGE
from tests.records import record

MEAN, LDA, PAPER, FEATURES, TABLES, *VECTORS = presets.methods(vectors=True)


def accuracies(data: str) -> dict[str, float]:
    found: dict[str, float] = json.loads(presets.RECORD.read_text())["accuracy"][data]
    return found


@pytest.mark.parametrize("data", presets.TABLES)
def test_presets_need_no_tuning_on_small_tables(data: str) -> None:
    found = accuracies(data)
    best = max(found[MEAN], found[LDA])
    assert found[FEATURES] >= best - 0.01
    assert found[TABLES] >= found[LDA] - 0.02


def test_presets_are_ahead_on_vectors_of_an_encoder() -> None:
    found = accuracies("clinc150")
    best = max(found[MEAN], found[LDA])
    assert min(found[name] for name in (FEATURES, TABLES, *VECTORS)) > best
    assert found[PAPER] < best


@pytest.mark.parametrize("module", [presets, splits])
def test_the_page_has_what_was_measured(module: Any) -> None:
    page = presets.PAGE.read_text(encoding="utf-8")
    assert module.MARK in page
    assert module.filled(page, json.loads(module.RECORD.read_text())) == page


def test_the_recipe_is_the_best_of_what_was_split_for() -> None:
    found = json.loads(splits.RECORD.read_text())
    assert sum(found["asked"]) == 18_000
    best = max(found["rows"], key=lambda row: row["accuracy"])
    assert best["case"].endswith("the recipe")
    chosen = {k: v for k, v in RECIPES["embeddings"].settings.items() if k != "features"}
    assert chosen.items() <= best["settings"].items()
    assert found["rows"][2]["settings"].items() >= splits.BEFORE.items()


@pytest.mark.parametrize(
    ("name", "least"), [("embeddings-clinc150", 0.945), ("embeddings-wide-clinc150", 0.955)]
)
def test_recipes_for_vectors_reach_their_marks(name: str, least: float) -> None:
    whole = record(name)
    last = [run["tasks"][-1]["accuracy"] for run in whole["methods"][0]["runs"]]
    assert whole["methods"][0]["method"] == "redunet"
    assert float(np.mean(last)) >= least
    assert len(whole["stream"]) == 10
    assert whole["command"].split(" --")[1:3] == ["data clinc150", f"recipe {whole['recipe']}"]
    assert f"<!-- recipe table: ../results/{name}.json -->" in PAGE
