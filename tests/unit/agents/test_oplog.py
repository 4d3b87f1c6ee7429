"""The table that a replay's ops are logged in."""

from __future__ import annotations

import pytest

from gradwire.agents.op_state import OpLogger


def test_rows_are_counted_as_they_are_added_and_no_more_than_there_is_room_for() -> None:
    logger = OpLogger(2)
    assert logger.rows == 0
    logger.add(0, 7, 10, 11, 12)
    assert logger.rows == 1
    log = logger.freeze()
    assert [column.tolist() for column in vars(log).values()] == [[0], [7], [10], [11], [12]]
    logger.add(1, 8, 20, 21, 22)
    assert logger.rows == 2
    assert log.op.tolist() == [7], "a log that was taken does not grow"
    with pytest.raises(IndexError):
        logger.add(2, 9, 30, 31, 32)
