"""Tables as text: the same numbers in the terminal and in Markdown."""

from pathlib import Path
from typing import Any

from chary.errors import printable


def cell_text(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, list):  # sizes of layers
        return "x".join(map(str, value))
    if isinstance(value, int):
        return f"{value:,}" if abs(value) < 10**30 else "very large"
    return printable(str(value)).replace("\n", " ")


def markdown_table(rows: list[dict[str, Any]], columns: dict[str, str]) -> str:
    """Rows as Markdown; `columns` maps keys to headings."""
    lines = [list(columns.values()), ["---"] * len(columns)]
    lines += [[_in_markdown(cell_text(row.get(key))) for key in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _in_markdown(text: str) -> str:
    """Text that stays text; what stands between backticks does so by itself."""
    text = text.replace("|", "\\|")
    return text if text.startswith("`") else text.replace("<", "&lt;")


def write_page(
    destination: Path,
    title: str,
    rows: list[dict[str, Any]],
    columns: dict[str, str],
    *,
    notes: list[str],
    after: str = "",
) -> None:
    """A result as a page of Markdown: the command and the program that made it, what to know, and the
    table."""
    from chary.host.files import write_result
    from chary.host.machine import command_line, program

    made = [f"# {title}", f"    {command_line()}", f"Made by {program()}."]
    parts = [*made, *notes, markdown_table(rows, columns), after]
    write_result(destination, "\n\n".join(part.rstrip() for part in parts if part) + "\n")
