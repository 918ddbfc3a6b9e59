"""Pages say what `chary ... --help` says: `{{ chary train msg }}` becomes that text when built."""

import contextlib
import io
import os
import re
from typing import Any

from chary.cli import main


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the text of every page."""
    return re.sub(r"^\{\{ chary (.+) \}\}$", _help, markdown, flags=re.MULTILINE)


def _help(found: re.Match[str]) -> str:
    os.environ["COLUMNS"] = "82"
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.suppress(SystemExit):
        main([*found[1].split(), "--help"])
    plain = re.sub(r"\x1b\[[0-9;]*m", "", told.getvalue())
    return f"```text\n{plain.strip()}\n```"
