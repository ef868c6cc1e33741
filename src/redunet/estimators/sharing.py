"""Models whose classes are spread over the processes of a group, as one of them sees them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from redunet.core.moments import ClassMoments, Label
from redunet.core.ranks import ALONE, Ranks
from redunet.core.share import Share
from redunet.errors import SettingsError

_current: ContextVar[Ranks] = ContextVar("ranks", default=ALONE)


def current() -> Ranks:
    """The processes that build and answer together now; this one alone outside of a group."""
    return _current.get()


@contextmanager
def together(ranks: Ranks) -> Iterator[None]:
    """Let models be read, built and asked by several processes together within the block."""
    token = _current.set(ranks)
    try:
        yield
    finally:
        _current.reset(token)


@dataclass(frozen=True, eq=False)
class Part:
    """What is known of all classes by a process that has read the moments of some.

    Parameters
    ----------
    counts : dict from label to int
        Samples that people labelled, of all classes.
    self_labelled : dict from label to int
        Samples that the model labelled itself.
    share : Share
        The classes of this process; its counts are of all samples.
    """

    counts: dict[Label, int]
    self_labelled: dict[Label, int]
    share: Share


def shared(moments: ClassMoments, part: Part | None) -> tuple[ClassMoments, Share | None]:
    """The moments that this process builds with, and its share; None where it has all classes.

    Parameters
    ----------
    moments : ClassMoments
        Of all classes, or of those that this process has read.
    part : Part, or None
        In the second case.
    """
    ranks = current()
    if part is not None:
        if part.share.ranks is not ranks:
            raise SettingsError(
                "expected to be in the group of processes that read this model, each some of its "
                "classes, but it has ended: read the model again"
            )
        return moments, part.share
    if ranks.size == 1:
        return moments, None
    share = Share.of(moments, ranks)
    return moments.select(share.own_labels), share


def refuse_group(what: str) -> None:
    """Raise a SettingsError in a group of processes."""
    if current().size > 1:
        raise SettingsError(
            f"expected one process to {what} a model, got a group of {current().size}: do it "
            f"outside of the group"
        )


def refuse_part(part: Part | None, what: str) -> None:
    """Raise a SettingsError where a model has only some of its classes in this process."""
    if part is not None:
        share = part.share
        raise SettingsError(
            f"expected all classes in this process to {what} the model, got {len(share.own):,} of "
            f"{len(share.labels):,}, as it was read in a group of {share.ranks.size} processes: "
            f"use one process"
        )
