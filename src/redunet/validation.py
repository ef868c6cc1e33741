"""Settings declared once: the default, the constraint and the description of each.

A group of settings is a frozen dataclass derived from `Declared` whose fields are
made by `setting`. Defaults, checks, docstrings, help texts and the contents of
files are all read from there.
"""

from __future__ import annotations

import inspect
import math
import textwrap
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self, TypeVar

from redunet.errors import FileAccessError, SettingsError, did_you_mean

Constraint = Callable[[str, Any], Any]
"""From the name of a setting and a value to the value as it is kept, or a SettingsError."""

T = TypeVar("T", bound=type)


def setting(
    default: Any,
    constraint: Constraint,
    doc: str,
    kind: str,
    *,
    always_saved: bool = True,
    earlier: str | None = None,
) -> Any:
    """A field of a `Declared` dataclass.

    Parameters
    ----------
    default : value
    constraint : callable
        Checks a value.
    doc : str
        The description, one paragraph.
    kind : str
        The type as docstrings state it, such as "int" or ``{"a", "b"}``.
    always_saved : bool, default=True
        Whether files state it even at its default. Settings that came after the
        first files are saved only when in use, so that files stay equal.
    earlier : str, default=None
        The name that it had in earlier versions, which commands, TOML files and records may use.
    """
    metadata = {
        "constraint": constraint,
        "doc": " ".join(doc.split()),
        "kind": kind,
        "always_saved": always_saved,
        "earlier": earlier,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Declared:
    """A group of settings; an instance is always valid."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = one.metadata["constraint"](one.name, getattr(self, one.name))
            object.__setattr__(self, one.name, value)
        self._check_together()

    def _check_together(self) -> None:
        """Raise a SettingsError where settings do not go together."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The names of the settings, in order."""
        return tuple(one.name for one in fields(cls))

    @classmethod
    def of(cls, owner: object) -> Self:
        """Settings from an object's attributes of the same names."""
        return cls(**{name: getattr(owner, name) for name in cls.names()})

    @classmethod
    def renamed(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values by the names of today, where some are by earlier ones."""
        today = {one.metadata["earlier"]: one.name for one in fields(cls)}
        return {today.get(name, name): value for name, value in values.items()}

    def changed(self, values: Mapping[str, Any]) -> Self:
        """The settings with some of them replaced."""
        values = self.renamed(values)
        for name in values:
            if name not in self.names():
                raise SettingsError(
                    f"expected settings among {', '.join(self.names())}, got {name!r}"
                    f"{did_you_mean(name, self.names())}"
                )
        return replace(self, **values)

    def changed_by_file(self, path: Path) -> Self:
        """The settings with those replaced that a TOML file names."""
        return self.changed(settings_in_file(path))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, from which the constructor makes the same settings."""
        return asdict(self)

    def to_state(self) -> dict[str, Any]:
        """Plain values for a file: all but those that came later and are at their default."""
        return {
            one.name: getattr(self, one.name)
            for one in fields(self)
            if one.metadata["always_saved"] or getattr(self, one.name) != one.default
        }

    @classmethod
    def from_state(cls, values: Mapping[str, Any]) -> Self:
        """The settings that `to_state` took apart; one missing or too many is an error."""
        needed = {one.name for one in fields(cls) if one.metadata["always_saved"]}
        if not needed <= values.keys() <= set(cls.names()):
            raise SettingsError(
                f"expected the settings {', '.join(cls.names())}, got {', '.join(values)}"
            )
        return cls(**values)


def settings_in_file(path: Path) -> dict[str, Any]:
    """The values that a TOML file names."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileAccessError(f"cannot read {path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not a TOML file: {error}") from error


def parameters(*groups: type[Declared]) -> str:
    """The settings of groups as the entries of a numpydoc "Parameters" section."""
    entries = []
    for group in groups:
        for one in fields(group):
            entries.append(f"{one.name} : {one.metadata['kind']}, default={one.default!r}")
            entries.append(textwrap.indent(textwrap.fill(one.metadata["doc"], 84), "    "))
    return "\n".join(entries)


def documented(*groups: type[Declared]) -> Callable[[T], T]:
    """A class decorator: puts the settings of groups where its docstring says ``{settings}``."""

    def fill(cls: T) -> T:
        text = inspect.cleandoc(cls.__doc__ or "")
        cls.__doc__ = text.replace("{settings}", parameters(*groups))
        return cls

    return fill


def number(above: float, most: float = math.inf, *, optional: bool = False) -> Constraint:
    """A finite number above one bound and up to another, kept as a float; or None."""

    def check(name: str, value: Any) -> float | None:
        if value is None and optional:
            return None
        return checked_number(name, value, above=above, most=most)

    return check


def whole(least: int, most: int | None = None, *, optional: bool = False) -> Constraint:
    """A whole number from ``least`` on, up to ``most``; or None."""

    def check(name: str, value: Any) -> int | None:
        if value is None and optional:
            return None
        return whole_number(name, value, least=least, most=most)

    return check


def choice(*allowed: str) -> Constraint:
    """One of the words allowed."""
    return lambda name, value: one_of(name, value, allowed)


def flag(name: str, value: Any) -> bool:
    """The value, where it is true or false."""
    if isinstance(value, bool):
        return value
    raise SettingsError(f"expected {name} to be true or false, got {value!r}")


def checked_number(name: str, value: Any, *, above: float, most: float = math.inf) -> float:
    """The value as a float, where it is a finite number above one bound and up to another."""
    if not isinstance(value, bool) and isinstance(value, Real):
        try:
            real = float(value)
        except OverflowError:
            real = math.inf
        if math.isfinite(real) and above < real <= most:
            return real
    limits = [f" above {above:g}"] * math.isfinite(above) + [f" at most {most:g}"] * math.isfinite(
        most
    )
    raise SettingsError(f"expected {name} to be a number{' and'.join(limits)}, got {value!r}")


def whole_number(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """The value as an int, where it is a whole number from ``least`` on, or up to ``most``."""
    if not isinstance(value, bool) and isinstance(value, Integral):
        integer = int(value)
        if integer >= least and (most is None or integer <= most):
            return integer
    limit = "on" if most is None else f"to {most:,}"
    raise SettingsError(f"expected {name} to be a whole number from {least} {limit}, got {value!r}")


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> Any:
    """The value as a plain str, where it is one of the words allowed."""
    if isinstance(value, str) and value in allowed:
        return str(value)
    raise SettingsError(
        f"expected {name} to be one of {', '.join(allowed)}, got {value!r}"
        f"{did_you_mean(value, allowed)}"
    )
