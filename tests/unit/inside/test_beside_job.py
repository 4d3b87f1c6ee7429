"""What programs next to a strategy write is kept, as far as the disk takes it."""

from __future__ import annotations

from pathlib import Path

from gradwire.inside.beside_job import Kept
from gradwire.inside.program_protocol import OUTPUT_FOLDER, Output, output_file

SAID = Output(host=0, stream=1, data=b"said\n", program="talk")


def test_what_programs_write_is_kept_by_host(tmp_path: Path) -> None:
    kept = Kept(tmp_path, ["h1"])
    kept.say(SAID)
    kept.say(SAID)
    assert output_file(tmp_path, "talk/h1", 1).read_bytes() == b"said\nsaid\n"
    assert kept.trouble is None


def test_a_disk_that_takes_no_more_is_told_when_all_programs_have_ended(tmp_path: Path) -> None:
    """An error where they are heard would leave them running, and the machine would wait for them for ever."""
    (tmp_path / OUTPUT_FOLDER).touch()
    kept = Kept(tmp_path, ["h1"])
    kept.say(SAID)
    first = kept.trouble
    assert isinstance(first, OSError)
    kept.say(SAID)
    assert kept.trouble is first
