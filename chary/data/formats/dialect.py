"""How a CSV file is written: its encoding, separator and decimal sign, given or found out."""

import codecs
import csv
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from chary.errors import CharyError

SEPARATORS = (",", ";", "\t", "|")
WORDS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";"}
SAMPLE = 2**16
"""Bytes that the separator and the decimal sign are found out from."""
CHUNK = 2**20
MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""First bytes of a file that name its encoding; UTF-8's own mark needs no name."""


class Dialect(NamedTuple):
    """How a CSV file is written; None where it is to be found out."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def words(self) -> str:
        """The dialect in words, as `chary data import` prints it."""
        separator = {"\t": "tab"}.get(self.separator or "", f"'{self.separator}'")
        return f"separator {separator}, decimal sign '{self.decimal}', encoding {self.encoding}"


UNKNOWN = Dialect()
PLAIN = Dialect(",", ".", "utf-8")


def checked(separator: str | None, decimal: str | None, encoding: str | None) -> Dialect:
    """The dialect that a user gives, refused where it is none."""
    separator = WORDS.get(separator or "", separator)
    if separator is not None and len(separator.encode()) != 1:
        raise CharyError(f"--separator is '{separator}', but must be one character, or `tab`.")
    if decimal not in (None, ".", ","):
        raise CharyError(f"--decimal is '{decimal}', but must be '.' or ','.")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise CharyError(
                f"--encoding is '{encoding}', which is none that Python knows: utf-8, latin-1, "
                "cp1252 and utf-16 are common ones."
            ) from error
    return Dialect(separator, decimal, encoding)


def find(path: Path, given: Dialect) -> Dialect:
    """The file's dialect: what is given, and what its first lines show."""
    encoding = given.encoding or _encoding(path)
    with open(path, "rb") as file:
        text = codecs.getincrementaldecoder(encoding)("replace").decode(file.read(SAMPLE))
    lines = [line for line in text.lstrip("\ufeff").splitlines() if line.strip()]
    separator = given.separator or _separator(lines[:50])
    return Dialect(separator, given.decimal or _decimal(lines[1:200], separator), encoding)


def _encoding(path: Path) -> str:
    """UTF-8 if the whole file is; otherwise Windows' western encoding, which holds latin-1's letters."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open(path, "rb") as file:
        chunk = file.read(CHUNK)
        if chunk[:2] in MARKS:
            return MARKS[chunk[:2]]
        try:
            while chunk:
                decoder.decode(chunk)
                chunk = file.read(CHUNK)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "cp1252"
    return "utf-8"


def _separator(lines: Sequence[str]) -> str:
    """The sign that divides the heading, and most lines into as many cells as the heading."""
    if not lines:
        return ","

    def agreement(separator: str) -> tuple[float, int]:
        widths = [len(row) for row in csv.reader(lines, delimiter=separator)]
        return sum(width == widths[0] for width in widths) / len(widths), widths[0]

    found = {sign: agreement(sign) for sign in SEPARATORS}
    several = {sign: score for sign, score in found.items() if score[1] > 1}
    return max(several, key=lambda sign: several[sign]) if several else ","


def _decimal(lines: Sequence[str], separator: str) -> str:
    """A comma where numbers are written with one and none with a point."""
    if separator == ",":
        return "."
    cells = [cell.strip() for row in csv.reader(lines, delimiter=separator) for cell in row]
    with_comma = any(re.fullmatch(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?", cell) for cell in cells)
    with_point = any(re.fullmatch(r"[-+]?\d*\.\d+(?:[eE][-+]?\d+)?", cell) for cell in cells)
    return "," if with_comma and not with_point else "."
