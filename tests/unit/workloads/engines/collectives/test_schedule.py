"""Schedules cut into segments: each part's messages once for each, and copies of a message stay copies of one."""

from __future__ import annotations

import numpy as np

from gradwire.datatypes.plan import Combine
from gradwire.workloads.engines.collectives.schedule import Schedule

ALONE = -1
"""Of a message that is not one of several copies."""


def test_copies_of_a_message_stay_copies_of_its_segment() -> None:
    """The first message goes to two members as one, the next to one member."""
    rows = np.array(
        [
            (0, 1, 0, 0, Combine.COPY, 0, 1),
            (0, 2, 0, 0, Combine.COPY, 0, 1),
            (1, 2, 1, 1, Combine.COPY, 0, 1),
        ],
        np.int64,
    )
    whole = Schedule(3, 2, rows, np.array([4, 4, 5]), np.array([0, 0, ALONE]))
    cut = whole.segmented(2)
    assert cut.parts == 4
    assert cut.copies is not None
    assert cut.channel is not None
    assert cut.rows[:, 4:].tolist() == np.repeat(rows[:, 4:], 2, axis=0).tolist(), "nothing but the part is another"
    told = zip(cut.src, cut.dst, cut.part, cut.step, cut.channel, cut.copies, strict=True)
    assert [tuple(map(int, triple)) for triple in told] == [
        (0, 1, 0, 0, 4, 0),
        (0, 1, 2, 0, 4, 1),
        (0, 2, 0, 0, 4, 0),
        (0, 2, 2, 0, 4, 1),
        (1, 2, 1, 1, 5, ALONE),
        (1, 2, 3, 1, 5, ALONE),
    ]
