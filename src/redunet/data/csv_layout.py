"""How a CSV file is written: its delimiter, its encoding, its decimal point."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.csv

from redunet.safety.untrusted import open_regular

_BLOCK_BYTES = 2**23
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True)
class CsvLayout:
    """How a CSV file is written, found out from its beginning.

    Parameters
    ----------
    names : list of str
        Of the columns.
    encoding : str
        UTF-16 where the file begins with its mark, UTF-8 otherwise.
    delimiter : str
        Comma, semicolon or tab, whichever the line of names has most of.
    decimal : str
        A comma where semicolons divide values and values such as 1,5 are among them.
    newlines : bool, default=False
        Whether values between quotation marks may go over several lines.
    """

    names: list[str]
    encoding: str
    delimiter: str
    decimal: str
    newlines: bool = False

    @classmethod
    def of(cls, path: Path, newlines: bool = False) -> CsvLayout:
        """The layout of a file, from its first block."""
        with open_regular(path) as file:
            raw = file.read(_BLOCK_BYTES)
        encoding = _MARKS.get(raw[:2], "utf-8-sig")
        text = codecs.getincrementaldecoder(encoding)().decode(raw).lstrip("\r\n")
        if not text:
            raise ValueError("it is empty")
        head, _, rest = text.partition("\n")
        unquoted = re.sub(r'"[^"]*"', "", head)
        delimiter = max(",;\t", key=unquoted.count)
        names = next(csv.reader(io.StringIO(text), delimiter=delimiter))
        commas = delimiter == ";" and re.search(r"(^|;)-?\d*,\d+(;|$)", rest[:10_000], re.M)
        return cls(names, encoding, delimiter, "," if commas else ".", newlines)

    def open(self, file: Any, types: dict[str, Any]) -> Any:
        """A reader of some columns as given types, block after block."""
        encoding = "utf8" if self.encoding == "utf-8-sig" else self.encoding
        return pyarrow.csv.open_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=_BLOCK_BYTES, encoding=encoding
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=self.newlines
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=list(types),
                null_values=[""],
                strings_can_be_null=True,
                decimal_point=self.decimal,
            ),
        )
