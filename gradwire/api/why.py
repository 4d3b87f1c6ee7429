"""Where an iteration's time went, for `Run.why`."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import pandas as pd


@dataclass(frozen=True)
class Why:
    """The critical path of one iteration."""

    #: The point in a few words.
    label: str
    #: Number of the iteration; 0 is the first, warm-up included.
    iteration: int
    #: Its time.
    duration_s: float
    #: Where the time went, in one sentence.
    sentence: str
    #: One row per kind of time: part, kind, duration_s, share, meaning.
    parts: pd.DataFrame
    #: The path in order: what, kind, start_s, end_s, duration_s.
    segments: pd.DataFrame

    @property
    def _title(self) -> str:
        return f"{self.label}: iteration {self.iteration}, {self.duration_s:.6f} s"

    @property
    def _shown(self) -> pd.DataFrame:
        """The parts that took time, as text."""
        took = self.parts[self.parts["duration_s"] > 0]
        columns = {
            "part": took["part"],
            "kind": took["kind"],
            "ms": [f"{1e3 * duration_s:.3f}" for duration_s in took["duration_s"]],
            "share": [f"{share:.1%}" for share in took["share"]],
            "meaning": took["meaning"],
        }
        return pd.DataFrame(columns)

    def __str__(self) -> str:
        """What `print` shows."""
        return f"{self._title}\n{self._shown.to_string(index=False)}\n{self.sentence}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = self._shown.to_html(index=False)
        return f"<p><b>{escape(self._title)}</b></p>{table}<p>{escape(self.sentence)}</p>"
