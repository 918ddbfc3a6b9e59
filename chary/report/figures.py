"""What figures have in common, and how they become files: whole or not at all."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chary.errors import CharyError, printable
from chary.host.files import whole
from chary.runs.schema import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LONGEST = 100
"""Characters of a label; Matplotlib takes minutes for many."""
MOST_BANDS = 5
"""With more curves than this, bands around them hide one another."""
LABELS = {"success": "success", "score": "normalised score", "return": "return"}


def step_label(runs: Iterable[Record]) -> str:
    """What the steps of these runs, or groups of runs, are."""
    online = {bool(run["online"]) for run in runs}
    if len(online) > 1:
        return "gradient or environment steps"
    return "environment steps" if True in online else "gradient steps"


def speed_label(runs: Iterable[Record]) -> str:
    """What their speed counts."""
    return "steps/s" if any(run["online"] for run in runs) else "updates/s"


def figure_kind(destination: Path) -> str:
    """The kind of file that the name asks for; refuses what cannot be drawn."""
    from matplotlib.backend_bases import FigureCanvasBase

    kind = destination.suffix.lower().lstrip(".")
    if kind not in FigureCanvasBase.get_supported_filetypes():
        raise CharyError(
            f"{destination}: a figure cannot be written as '{destination.suffix}'; use .png or .pdf."
        )
    return kind


def save_figure(figure: "Figure", destination: Path) -> None:
    """Draw beside it, then into place: nothing half-drawn is ever found there. Closes the figure."""
    import matplotlib.pyplot as plt

    kind = figure_kind(destination)
    try:
        with whole(destination) as beside:
            figure.savefig(beside, dpi=130, format=kind)
    finally:
        plt.close(figure)


def palette(count: int) -> list[Any]:
    """As many colours, which repeat after twenty."""
    import matplotlib

    colours = matplotlib.colormaps["tab10" if count <= 10 else "tab20"]
    return [colours(i % colours.N) for i in range(count)]


def as_text(name: str) -> str:
    """A name as Matplotlib shall write it, if not too long: dollars are no marks of a formula."""
    return printable(name[:LONGEST]).replace("$", r"\$")
