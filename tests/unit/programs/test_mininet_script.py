"""What a Mininet script is started with."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.programs.interpreter import own_interpreter
from gradwire.programs.mininet_script import (
    ScriptRequest,
    _remove_empty,
    check_link_rate,
    check_script,
    script_environment,
)
from gradwire.programs.outside import TAIL_BYTES, tail_of, wanted_outside


def request(folder: Path) -> ScriptRequest:
    return ScriptRequest(own_interpreter(), folder / "lab.py", (), 10e9, 1024, 1.0, 1.0, 1.0, folder)


def test_the_callers_own_programs_and_modules_stay_in_front(tmp_path: Path) -> None:
    caller = {"PATH": "/opt/bin:/usr/bin", "PYTHONPATH": "/mine", "DISPLAY": ":0", "TMPDIR": "/x", "LANG": "C"}
    env = script_environment(request(tmp_path), caller)
    assert env["PATH"].startswith("/opt/bin:/usr/bin:")
    assert env["PATH"].split(":")[-1] == "/run/gradwire/bin"
    assert "/usr/sbin" in env["PATH"].split(":")
    assert env["PYTHONPATH"] == "/run/gradwire/mininet-python:/mine"
    assert env["GRADWIRE_LINK_MBIT"] == "10000.000000"
    assert env["LANG"] == "C"
    assert not {"DISPLAY", "TMPDIR"} & env.keys()


def test_what_is_no_script_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match="no such file"):
        check_script(tmp_path / "lab.py")
    with pytest.raises(InputFault, match="is a folder"):
        check_script(tmp_path)
    (tmp_path / "lab.py").touch()
    assert check_script(tmp_path / "lab.py") == tmp_path / "lab.py"


@pytest.mark.parametrize("rate_bps", [0.0, 100.1e9])
def test_rates_that_no_link_has_are_refused(rate_bps: float) -> None:
    with pytest.raises(InputFault, match="up to 100 Gbit/s"):
        check_link_rate(rate_bps)


def test_programs_that_want_the_internet_are_known_by_their_words() -> None:
    assert wanted_outside(b"curl: (6) Could not resolve host: example.org")
    assert not wanted_outside(b"h1 -> X\n")


def test_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "h1.err").write_bytes(b"x" * TAIL_BYTES + b"Network is unreachable")
    assert wanted_outside(tail_of(tmp_path / "h1.err"))
    assert tail_of(tmp_path / "nothing") == b""


def test_only_empty_folders_are_removed(tmp_path: Path) -> None:
    kept, gone = tmp_path / "tmp" / "kept", tmp_path / "tmp" / "a" / "b"
    for folder in (kept, gone):
        folder.mkdir(parents=True)
    (kept / "file").touch()
    (tmp_path / "tmp" / "link").symlink_to(tmp_path)
    _remove_empty(tmp_path / "tmp")
    assert (kept / "file").exists()
    assert not gone.parent.exists()
