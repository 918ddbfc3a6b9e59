"""The code on the pages of the docs, and a reader who follows a tutorial.

    python -m tests.pages docs/tutorials/csv.md

goes through a page in an empty folder that has the examples, as somebody who copies every block, and
ends at the first one that fails.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FENCED = re.compile(
    r'^( *)```(\w*)(?: title="(.*?)")?[^\n]*\n(.*?)^\1```$', re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """One block of code."""

    language: str
    title: str
    """The file that it belongs to, or nothing."""
    text: str


def blocks(page: str) -> Iterator[Block]:
    """Every block of code, the fenced ones first."""
    for indent, language, title, text in FENCED.findall(page):
        yield Block(language, title, textwrap.dedent(text) if indent else text)
    for text in re.findall(r"(?:\A|\n\n)((?:    .*\n|\n)+)", FENCED.sub("", page)):
        yield Block("", "", textwrap.dedent(text))


def follow(page: Path, folder: Path) -> None:
    """Do what the page says, block by block; shell and Python share the current folder. The caches are
    empty, as with somebody who begins."""
    shutil.copytree(ROOT / "examples", folder / "examples")
    tools = Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        **{f"CHARY_{kind.upper()}": str(folder / f".{kind}") for kind in ("cache", "state")},
    }
    lines = ["set -eu"]
    for number, block in enumerate(blocks(page.read_text())):
        if block.language == "sh":
            lines.append(block.text)
        elif block.language == "python":
            # Blocks of one file are pasted one below the other.
            lines.append(f"cat >> {block.title or f'block{number}.py'} <<'PASTED'")
            lines.append(f"{block.text}PASTED")
            lines.append("" if block.title else f"python block{number}.py")
    subprocess.run(["bash", "-c", "\n".join(lines)], cwd=folder, env=environment, check=True)


def main() -> None:
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            follow(Path(name).resolve(), Path(folder))
            print(f"{name}: followed in {(time.perf_counter() - began) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
