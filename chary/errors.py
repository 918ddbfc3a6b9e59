"""The one exception for problems that a user can mend."""

import difflib
from collections.abc import Iterable

LISTED = 20
"""Names that an error lists in full."""


class CharyError(Exception):
    """Bad input or a bad environment: says what is wrong, where, and what to do about it.

    The command line prints its message without a traceback and exits with code 2. Files may have put
    anything into it, so that what a terminal would obey is shown instead.
    """

    def __init__(self, *words: object):
        super().__init__(*(printable(word) if isinstance(word, str) else word for word in words))


class DivergedError(CharyError):
    """Training that diverged: a metric became NaN, infinite or very large."""


class TaskError(CharyError):
    """A simulator that failed, or a task in the world: an exception, a number that is none, a hang."""


def printable(text: str, keep: str = "\n\t") -> str:
    """Text that does nothing but be read: control characters and half characters as their codes."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode()
        for char in text
    )


def one_line(text: str) -> str:
    """The same without lines of its own, for names in a file that anybody may have written."""
    return printable(text, keep="")


def reason(error: BaseException) -> str:
    """An exception in a short line: the system's words for it, its first line, or its kind."""
    known = isinstance(error, OSError) and error.strerror
    text = known or str(error).strip() or type(error).__name__
    return text.splitlines()[0][:160]


def unknown_name(kind: str, name: str, known: Iterable[str], advice: str = "") -> CharyError:
    """An error for a name that is not in a registry, with the nearest names there are."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=3)
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    listed = f" There are: {', '.join(known[:LISTED])}{more}."
    hint = f" Did you mean {' or '.join(close)}?" if close else listed
    return CharyError(f"unknown {kind} '{name}'.{hint}{' ' + advice if advice else ''}")
