"""Axes for the figures of runs: those that are given, or new ones, which a notebook shows. Nothing here uses pyplot or
its state."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradwire.analysis.report.charts import STYLE

SCREEN_DPI = 110
"""Resolution of pictures in a notebook; files have the resolution that `savefig` is given."""
SIZE_INCHES = (7.0, 3.6)


class ShownFigure(Figure):
    """A figure that a notebook shows, whether pyplot is there or not."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with mpl.rc_context(STYLE):
            self.savefig(buffer, format="png", dpi=SCREEN_DPI, bbox_inches="tight", facecolor="white")
        return buffer.getvalue()


class ShownAxes(Axes):
    """Axes whose figure a notebook shows, if they are the last value of a cell."""

    def _repr_png_(self) -> bytes:
        figure = self.figure
        assert isinstance(figure, ShownFigure), "they are made together"
        return figure._repr_png_()


@contextmanager
def drawing_on(ax: Axes | None, rows: int = 0) -> Iterator[Axes]:
    """Yields the given axes, or new ones in gradwire's style. rows: of the figure, where its height goes by them."""
    if ax is not None:
        yield ax
        return
    with mpl.rc_context(STYLE):
        width, height = SIZE_INCHES
        figure = ShownFigure(figsize=(width, max(height, 1.0 + 0.22 * rows)), layout="constrained")
        yield figure.add_subplot(axes_class=ShownAxes)
