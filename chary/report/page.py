"""The report as one file of HTML that needs nothing else: no network, no other file, no program."""

import json
import re
from importlib.resources import files
from pathlib import Path

from chary.host.files import write_result
from chary.runs.schema import Record


def write_report(data: Record, destination: Path) -> None:
    """Write the page that shows this data (see `page_data`)."""
    write_result(destination, page(data))


def page(data: Record | None = None) -> str:
    """The page with its styles and scripts in it, and with this data; without, one to be fed later."""
    # A script ends at the first `</`, whatever it is in: no `<` of ours may be left in the data.
    inlined = json.dumps(data, allow_nan=False).replace("<", "\\u003c") if data else ""
    parts = {"data": inlined}

    def part(match: re.Match[str]) -> str:
        name = match[1]
        return parts[name] if name in parts else asset(name)

    # In one pass: what is put in is not looked at again.
    return re.sub(r"\{\{([\w.-]+)\}\}", part, asset("page.html"))


def asset(name: str) -> str:
    """One of the files that pages are made of."""
    return files("chary.report").joinpath("assets", name).read_text(encoding="utf-8")
