"""Numbers, settings and names of read-outs as text."""

from __future__ import annotations

import json
from typing import Any

READOUT_NAMES = {
    "subspace": "nearest subspace",
    "coding": "coding length",
    "discriminant": "linear discriminant",
    "regression": "ridge regression",
    "quadratic": "quadratic discriminant",
    "pairwise": "pairwise discriminants",
}


def readout_name(readout: str) -> str:
    """Name of a read-out in tables."""
    return READOUT_NAMES.get(readout, readout)


def three(value: float) -> str:
    """A number to three decimals."""
    return f"{value:.3f}"


def plain(value: Any) -> str:
    """A setting as text."""
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
