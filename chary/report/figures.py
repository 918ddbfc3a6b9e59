"""Figures as files: whole or not at all."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from chary.errors import CharyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    beside = destination.with_name(f".{os.getpid()}-{destination.name}")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        try:
            figure.savefig(beside, dpi=130, format=kind)
            os.replace(beside, destination)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise CharyError(f"{destination}: cannot be written: {error.strerror or error}.") from error
    finally:
        plt.close(figure)
