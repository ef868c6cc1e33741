"""Parts of redunet that are imported when their name is first asked for.

Nothing else imports them, so the rest of redunet does not depend on them.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES: dict[str, dict[str, str]] = {
    "estimators": {"shift-invariant": "shift_invariant.classifier:ShiftInvariantClassifier"},
    "feature maps": {"patch-planes": "shift_invariant.patch_planes:PatchPlanes"},
    "feature names": {"patch-planes": "shift_invariant.patch_planes:NAMED"},
    "moments": dict.fromkeys(("correlations", "positions"), "shift_invariant.moments:ShiftMoments"),
}
"""Module and object of each part, by its group and its name in settings and model files."""


def names(group: str) -> tuple[str, ...]:
    """The names in a group."""
    return tuple(_HOMES[group])


def find(group: str, name: str) -> Any:
    """The part of that name; None where the group has none."""
    home = _HOMES[group].get(name)
    if home is None:
        return None
    module, attribute = home.split(":")
    return getattr(import_module(f"redunet.{module}"), attribute)
