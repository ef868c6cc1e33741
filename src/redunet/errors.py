"""Everything that can go wrong, by kind.

Each kind is also the built-in exception that a caller would expect, so that
code which knows nothing of this package still catches it. A message is one
line: what was expected, what came, what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches

_CPU_ALLOCATOR = "DefaultCPUAllocator: can't allocate memory"
"""PyTorch's message when the CPU's memory runs out, for which it has no type of error."""


class ReduNetError(Exception):
    """Any error that this package raises on purpose."""

    def __str__(self) -> str:
        return " ".join(line.strip() for line in super().__str__().splitlines())


class DataError(ReduNetError, ValueError):
    """Samples or labels that cannot be used as they are."""


class DataTypeError(DataError, TypeError):
    """Samples or labels of a type that cannot be used."""


class SettingsError(ReduNetError, ValueError):
    """A setting outside its range, or settings that do not go together."""


class NumericalError(ReduNetError, ArithmeticError):
    """A matrix that should have been positive definite was not."""


class ModelFileError(ReduNetError, ValueError):
    """A file that is no model, is damaged, or comes from a newer version."""


class GroupError(ReduNetError, ConnectionError):
    """Another process of a group has ended, or does not answer."""


class FileAccessError(ReduNetError, OSError):
    """A file or folder that could not be read or written."""


class BusyError(FileAccessError):
    """A file that another process is changing, for longer than one can wait."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: PyTorch says so by an error of its own of the type RuntimeError.

    Examples
    --------
    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("a mistake in memory.py"))
    (True, False)
    """
    if isinstance(error, MemoryError):
        return True
    on_device = type(error).__name__ == "OutOfMemoryError"  # torch's, which is not imported here
    return isinstance(error, RuntimeError) and (on_device or _CPU_ALLOCATOR in str(error))


def did_you_mean(word: object, names: Iterable[object]) -> str:
    """The end of a message about a word that is none of some names; empty where none is close.

    Examples
    --------
    >>> did_you_mean("table", ["images", "tables"])
    ": did you mean 'tables'?"
    """
    words = [name for name in names if isinstance(name, str)]
    near = get_close_matches(word, words, n=1, cutoff=0.7) if isinstance(word, str) else []
    return "".join(f": did you mean {one!r}?" for one in near)


def not_installed(package: str, extra: str, error: ImportError) -> SettingsError:
    """The error that an optional package, or one that it needs, cannot be imported.

    Examples
    --------
    >>> str(not_installed("River", "river", ImportError(name="river")))
    "expected River to be installed, but there is no river: pip install 'redunet[river]'"
    """
    return SettingsError(
        f"expected {package} to be installed, but there is no {error.name}: "
        f"pip install 'redunet[{extra}]'"
    )
