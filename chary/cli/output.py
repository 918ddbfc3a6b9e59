"""Results on standard output: a table for people, or one JSON object for programs."""

import json
import sys
from typing import Annotated, Any

import tyro

from chary.errors import printable
from chary.report.tables import cell_text

Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
TrustCode = tuple[str, ...]
"""Code that a run folder names and the user trusts, by module:Name."""


def tell(text: str) -> None:
    """A line of the result, which may have names in it that are not ours."""
    print(printable(text))


def show(
    rows: list[dict[str, Any]],
    columns: dict[str, str],
    *,
    as_json: bool,
    title: str = "",
    **facts: Any,
) -> None:
    """Print rows; `columns` maps keys to headings, and JSON keeps every key and the other facts."""
    if as_json:
        from chary.host.files import jsonable

        print(json.dumps(jsonable({**facts, "rows": rows})))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(header_style="bold", box=box.SIMPLE_HEAD)
    for key, heading in columns.items():
        numeric = any(isinstance(row.get(key), int | float) for row in rows)
        justify = "right" if numeric else "left"
        table.add_column(heading, justify=justify, overflow="fold", no_wrap=numeric)
    for row in rows:
        table.add_row(*(escape(cell_text(row.get(key))) for key in columns))
    # A pipe has no width of its own; a narrow guess would fold every cell.
    console = Console(width=None if sys.stdout.isatty() else 160)
    if title:  # not the table's own, which would be folded to the table's width
        console.print(escape(printable(title)), highlight=False)
    console.print(table)
