"""What the pages of a Parquet file unpack to, by their own headers.

The file's footer says so too, but the library that reads the file does not compare
the two: it makes as much room as each page's header asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

_SHORT, _LONG = 2**9, 2**16
"""Bytes read for a header, and for one that turns out to be longer."""

_BINARY, _LIST, _SET, _MAP, _STRUCT = 8, 9, 10, 11, 12
_BYTES = {3: 1, 7: 8}
_DEEPEST = 8


def page_sizes(file: BinaryIO, metadata: Any, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Bytes of each page, unpacked and packed.

    Parameters
    ----------
    file : binary file
    metadata : pyarrow.parquet.FileMetaData
        The footer of that file.
    groups : iterable of int
        The row groups to look at.
    """
    for index in groups:
        group = metadata.row_group(index)
        for number in range(group.num_columns):
            column = group.column(number)
            at = column.data_page_offset
            if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
                at = column.dictionary_page_offset
            end = at + column.total_compressed_size
            while at < end:
                length, unpacked, packed = _header_at(file, at)
                yield unpacked, packed
                at += length + packed


def _header_at(file: BinaryIO, at: int) -> tuple[int, int, int]:
    """The length of the page header there, and what it says of its page's size."""
    for most in (_SHORT, _LONG):
        file.seek(at)
        header = _Header(file.read(most))
        try:
            sizes = header.sizes()
        except IndexError:  # the header goes on
            continue
        if min(sizes) < 0:
            raise ValueError("a page is of negative size")
        return header.at, *sizes
    raise ValueError("a page has no header")


class _Header:
    """A page header in Thrift's compact protocol."""

    def __init__(self, raw: bytes) -> None:
        self.raw, self.at = raw, 0

    def sizes(self) -> tuple[int, int]:
        """Its second and third field: the size of the page, unpacked and packed."""
        found = {2: -1, 3: -1}
        for field, kind in self._fields():
            if field in found and kind == 5:
                found[field] = self._number()
            else:
                self._skip(kind, 1)
        return found[2], found[3]

    def _fields(self) -> Iterator[tuple[int, int]]:
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._number()
            yield field, head & 15

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("a page header is nested too deeply")
        if kind == _BINARY:
            self._forward(self._varint())
        elif kind in (_LIST, _SET):
            head = self._byte()
            self._skip_all(head >> 4 if head >> 4 < 15 else self._varint(), [head & 15], depth)
        elif kind == _MAP:
            if count := self._varint():
                kinds = self._byte()
                self._skip_all(count, [kinds >> 4, kinds & 15], depth)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind in _BYTES:
            self._forward(_BYTES[kind])
        elif kind in (4, 5, 6):
            self._varint()
        elif kind not in (1, 2):  # true and false
            raise ValueError("a page header has values of unknown type")

    def _skip_all(self, count: int, kinds: list[int], depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                if kind in (1, 2):  # a byte of its own, within a list
                    self._forward(1)
                else:
                    self._skip(kind, depth + 1)

    def _byte(self) -> int:
        self.at += 1
        return self.raw[self.at - 1]

    def _forward(self, count: int) -> None:
        self.at += count
        if self.at > len(self.raw):
            raise IndexError

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError("a page header has a number without end")

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
