import signal

import pytest

from gradwire.inside.program_protocol import how_it_ended


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (3, "ended with status 3"),
        (128, "ended with status 128"),
        (128 + signal.SIGSEGV, "was ended by signal 11"),
        (128 + signal.SIGRTMAX, "was ended by signal 64"),
        (193, "ended with status 193"),
        (255, "ended with status 255"),
    ],
)
def test_only_a_status_of_a_signal_is_called_one(status: int, words: str) -> None:
    assert how_it_ended(status) == words
