"""Pictures of an episode that somebody had drawn into a run's folder."""

import base64
from collections.abc import Sequence
from typing import Any

from chary.host.files import open_plain
from chary.report.story import RunStory, thin

NAME = "strip.png"
MOST_RUNS = 12
MOST_BYTES = 3_000_000
PNG = b"\x89PNG\r\n\x1a\n"


def strips(stories: Sequence[RunStory]) -> list[dict[str, Any]]:
    """The run and the picture, for a page to hold; `chary eval RUN --video RUN/strip.png` draws it."""
    drawn = [story for story in stories if (story.folder.path / NAME).exists()]
    found = []
    for story in (drawn[index] for index in thin(len(drawn), MOST_RUNS)):
        try:
            with open_plain(story.folder.path / NAME) as file:
                picture = file.read(MOST_BYTES + 1)
        except OSError as error:
            story.warn(f"{NAME} cannot be read ({error.strerror or error})")
            continue
        if not picture.startswith(PNG) or len(picture) > MOST_BYTES:
            story.warn(f"{NAME} is no PNG picture of at most {MOST_BYTES // 1_000_000} MB")
            continue
        found.append({"run": story.name, "picture": base64.b64encode(picture).decode()})
    return found
