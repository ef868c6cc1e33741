"""The Python batches of CIFAR-10: pickles, read without unpickling them.

A pickle is a program. The parser here knows only the instructions that genuine
batches consist of, runs nothing, and allows few enough of them, so that time and
memory are in proportion to the file. Names become `_Name` and calls `_Call`,
which only note what the pickle says; the arrays are made from the notes.
"""

import codecs
import struct
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redunet.errors import DataError

_ALLOWED = frozenset(
    {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }
)
_MOST_STEPS = 200_000
"""A genuine batch takes about 30,000, the longest way of writing one 60,000."""
_LONGEST_TUPLE = 9
_LONGEST_NAME = 100
_LONGEST_NUMBER = 24

_CONSTANTS: dict[bytes, Callable[[], Any]] = {
    b"N": lambda: None,
    b"\x88": lambda: True,
    b"\x89": lambda: False,
    b"]": list,
    b"}": dict,
    b")": tuple,
}
_NUMBERS = {b"J": "<i", b"K": "<B", b"M": "<H"}
_BYTES = {b"U": "<B", b"C": "<B", b"T": "<i", b"B": "<I", b"\x8e": "<Q"}
_TEXTS = {b"\x8c": "<B", b"X": "<I", b"\x8d": "<Q"}
_PUTS = {b"q": "<B", b"r": "<I"}
_GETS = {b"h": "<B", b"j": "<I"}
_SHORT_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
_SKIPPED = {b"\x80": 1, b"\x95": 8}  # the protocol's number and a frame's length

_GARBAGE = (AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error)
"""What going through garbage can raise."""


@dataclass(frozen=True)
class _Name:
    text: str


@dataclass(eq=False)
class _Call:
    name: str
    args: tuple[Any, ...]
    state: Any = None


class _Parser:
    """The instructions of a pickle, one after another."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, 0
        self._stack: list[Any] = []
        self._outer: list[list[Any]] = []  # stacks below each mark
        self._memo: dict[int, Any] = {}
        self._may_encode = len(raw)

    def parse(self) -> Any:
        """The value that the pickle describes."""
        for _ in range(_MOST_STEPS):
            step = self._take(1)
            if step == b".":
                return self._stack.pop()
            self._do(step)
        raise ValueError("it has too many instructions")

    def _do(self, step: bytes) -> None:
        push, pop = self._stack.append, self._stack.pop
        if step in _NUMBERS:
            push(self._number(_NUMBERS[step]))
        elif step in _CONSTANTS:
            push(_CONSTANTS[step]())
        elif step in _BYTES:
            push(self._take(self._number(_BYTES[step])))
        elif step in _TEXTS:
            push(self._take(self._number(_TEXTS[step])).decode("utf-8", "surrogatepass"))
        elif step in _PUTS:
            self._memo[self._number(_PUTS[step])] = self._stack[-1]
        elif step in _GETS:
            push(self._memo[self._number(_GETS[step])])
        elif step in _SHORT_TUPLES:
            count = _SHORT_TUPLES[step]
            items = [pop() for _ in range(count)]
            push(_tuple(items[::-1]))
        elif step in _SKIPPED:
            self._take(_SKIPPED[step])
        elif step in _OTHERS:
            _OTHERS[step](self)
        else:
            raise ValueError(f"instruction {step!r} is in no genuine one")

    def _push(self, value: Any) -> None:
        self._stack.append(value)

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._raw) - self._at:
            raise ValueError("it ends too early")
        self._at += count
        return self._raw[self._at - count : self._at]

    def _number(self, form: str) -> int:
        number: int = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return number

    def _line(self) -> bytes:
        return self._take(self._raw.index(b"\n", self._at) + 1 - self._at)[:-1]

    def _decimal(self) -> int:
        line = self._line()
        if len(line) > _LONGEST_NUMBER:
            raise ValueError("an integer is too large")
        return int(line.removesuffix(b"L"))

    def _long(self) -> None:
        raw = self._take(self._number("<B"))
        if len(raw) > 8:
            raise ValueError("an integer is too large")
        self._stack.append(int.from_bytes(raw, "little", signed=True))

    def _string(self) -> None:
        line = self._line()
        if len(line) < 2 or line[:1] not in b"'\"" or line[-1:] != line[:1]:
            raise ValueError("a string has no quotes")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes that mean nothing
            self._stack.append(codecs.escape_decode(line[1:-1])[0])

    def _mark(self) -> None:
        self._outer.append(self._stack)
        self._stack = []

    def _since_mark(self) -> list[Any]:
        items, self._stack = self._stack, self._outer.pop()
        return items

    def _append(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not list:
            raise TypeError("something is appended to what is no list")
        self._stack[-1].extend(items)

    def _set(self, items: list[Any]) -> None:
        if type(self._stack[-1]) is not dict or len(items) % 2:
            raise TypeError("an item is set where there is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (bytes, str):
                raise TypeError("a key is no word")
            self._stack[-1][key] = value

    def _set_one(self) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._set([key, value])

    def _dictionary(self) -> None:
        items = self._since_mark()
        self._stack.append({})
        self._set(items)

    def _global(self) -> None:
        module, name = self._line(), self._line()
        self._name(module.decode(), name.decode())

    def _stack_global(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        self._name(module, name)

    def _name(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise TypeError("a name is no text")
        if (module, name) not in _ALLOWED:
            wanted = f"{module}.{name}"[:_LONGEST_NAME]
            raise DataError(
                f"asks for {wanted!r}, which no CIFAR-10 batch needs: do not trust this file"
            )
        self._stack.append(_Name(name))

    def _reduce(self) -> None:
        args, name = self._stack.pop(), self._stack.pop()
        if type(name) is not _Name or type(args) is not tuple:
            raise TypeError("something is called that is no function")
        if name.text != "encode":
            if any(type(arg) is _Call for arg in args):
                raise TypeError("calls are nested")
            self._stack.append(_Call(name.text, args))
            return
        # How Python 3 writes bytes in old protocols.
        text, encoding = args
        if type(text) is not str or encoding not in ("latin1", b"latin1"):
            raise TypeError("a text has an unknown encoding")
        # One text can be fetched and encoded any number of times.
        self._may_encode -= len(text)
        if self._may_encode < 0:
            raise ValueError("texts are encoded several times")
        self._stack.append(text.encode("latin1"))

    def _build(self) -> None:
        state = self._stack.pop()
        if type(self._stack[-1]) is not _Call or self._stack[-1].state is not None:
            raise TypeError("a state is set where there is no array")
        self._stack[-1].state = state


def _tuple(items: list[Any]) -> tuple[Any, ...]:
    """A tuple as genuine files have them: short, and of no tuples of tuples."""
    if len(items) > _LONGEST_TUPLE or any(
        type(inner) is tuple for item in items if type(item) is tuple for inner in item
    ):
        raise ValueError("a tuple is too long or too deep")
    return tuple(items)


_OTHERS: dict[bytes, Callable[[_Parser], Any]] = {
    b"(": _Parser._mark,
    b"t": lambda self: self._push(_tuple(self._since_mark())),
    b"l": lambda self: self._push(self._since_mark()),
    b"d": _Parser._dictionary,
    b"e": lambda self: self._append(self._since_mark()),
    b"a": lambda self: self._append([self._stack.pop()]),
    b"u": lambda self: self._set(self._since_mark()),
    b"s": _Parser._set_one,
    b"c": _Parser._global,
    b"\x93": _Parser._stack_global,
    b"R": _Parser._reduce,
    b"b": _Parser._build,
    b"I": lambda self: self._push(self._decimal()),
    b"L": lambda self: self._push(self._decimal()),
    b"\x8a": _Parser._long,
    b"S": _Parser._string,
    b"V": lambda self: self._push(self._line().decode("raw-unicode-escape")),
    b"p": lambda self: self._memo.__setitem__(self._decimal(), self._stack[-1]),
    b"g": lambda self: self._push(self._memo[self._decimal()]),
    b"\x94": lambda self: self._memo.__setitem__(len(self._memo), self._stack[-1]),
}


def _read_array(note: Any) -> NDArray[np.uint8]:
    """Make the array that a call of numpy's ``_reconstruct`` was told of."""
    _, shape, dtype, is_fortran, raw = note.state
    if (
        note.name != "_reconstruct"
        or dtype.name != "dtype"
        or dtype.args[0] not in ("u1", b"u1")
        or is_fortran
        or type(raw) is not bytes
        or not all(type(length) is int for length in shape)
        or len(raw) != prod(shape)
    ):
        raise ValueError("data should be an array of bytes")
    return np.frombuffer(raw, dtype=np.uint8).reshape(shape)


def decode(raw: bytes, what: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Read one batch.

    Parameters
    ----------
    raw : bytes
        The file.
    what : str
        Its name, for the message.

    Returns
    -------
    pixels : ndarray of uint8, shape (n, 3072)
        Red, green and blue planes of 32×32, row after row.
    labels : ndarray of int64, shape (n,)
        Labels.

    Raises
    ------
    DataError
        It is no such batch, or it asks for anything that those do not need.
    """
    try:
        batch = _Parser(raw).parse()
        batch = {key.decode() if isinstance(key, bytes) else key: batch[key] for key in batch}
        labels = batch["labels"]
        if type(labels) is not list or not all(
            type(label) is int and abs(label) < 2**63 for label in labels
        ):
            raise ValueError("labels should be a list of integers")
        return _read_array(batch["data"]), np.array(labels, dtype=np.int64)
    except DataError as error:
        raise DataError(f"{what} {error}") from None
    except _GARBAGE as error:
        why = str(error)[:_LONGEST_NAME]
        raise DataError(f"{what} is no CIFAR-10 batch ({why}): download it again") from error
