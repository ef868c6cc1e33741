"""The committed records, and the texts that quote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from redunet_lab.experiment import Plan

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
RESULTS = (ROOT / "results" / "tables.md").read_text(encoding="utf-8")
VECTORS = (ROOT / "results" / "vectors.md").read_text(encoding="utf-8")
RECIPES = (ROOT / "results" / "recipes.md").read_text(encoding="utf-8")
READOUTS = {"lda": "discriminant", "ridge": "regression"}
"""The read-out that each closed form is where a network has no layers."""


def record(name: str) -> Any:
    """The record of that name under ``results``, with the names of settings of today."""
    found = json.loads((ROOT / "results" / f"{name}.json").read_text(encoding="utf-8"))
    for part in (found, *found.get("methods", ())):
        if "settings" in part:
            part["settings"] = Plan.renamed(part["settings"])
    return found


def last_of_recipe(name: str) -> dict[str, float]:
    """What each method of a record reaches after the last task, mean over seeds."""
    return {
        one["method"]: float(np.mean([run["tasks"][-1]["accuracy"] for run in one["runs"]]))
        for one in record(name)["methods"]
    }
