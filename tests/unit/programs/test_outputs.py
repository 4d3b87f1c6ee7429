"""What programs write comes out whole in files, and line by line on the terminal."""

from __future__ import annotations

import io
from pathlib import Path

from gradwire.inside.program_protocol import Output, ProgramEnded, event_of, line_of
from gradwire.programs.execution import JobEvents, new_folders
from gradwire.programs.outputs import SHOWN_LINE_BYTES, Outputs


def test_lines_follow_their_hosts_names_and_files_have_every_byte(tmp_path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    with Outputs(tmp_path, ["h1", "h10"], {1: out, 2: err}) as outputs:
        for host, stream, data in ((0, 1, b"one\r\ntw"), (1, 1, b"\xff\n"), (0, 1, b"o\nunended"), (1, 2, b"wrong\n")):
            outputs.take(Output(host, stream, data))
    assert out.getvalue().splitlines() == ["h1  | one", "h10 | �", "h1  | two", "h1  | unended"]
    assert err.getvalue() == "h10 | wrong\n"
    files = {path.name: path.read_bytes() for path in (tmp_path / "output").iterdir()}
    assert files == {"h1.out": b"one\r\ntwo\nunended", "h10.out": b"\xff\n", "h10.err": b"wrong\n"}


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_program_writes_over_another_line_of_a_persons_terminal(tmp_path: Path) -> None:
    screen, pipe = Screen(), io.StringIO()
    forged = b"10%\rvalid: \x1b[2K\x1b[1A\x9b2Kforged\t\xe2\x80\xae\n"
    with Outputs(tmp_path, ["h1"], {1: screen, 2: pipe}) as outputs:
        outputs.take(Output(0, 1, forged))
        outputs.take(Output(0, 2, forged))
    assert screen.getvalue() == "h1 | 10%\\rvalid: \\x1b[2K\\x1b[1A\ufffd2Kforged\t\\u202e\n"
    assert pipe.getvalue() == "h1 | " + forged.decode(errors="replace")
    assert {path.read_bytes() for path in (tmp_path / "output").iterdir()} == {forged}


def test_a_line_that_does_not_end_is_shown_in_parts(tmp_path: Path) -> None:
    out = io.StringIO()
    with Outputs(tmp_path, ["h1"], {1: out}) as outputs:
        for _ in range(3):
            outputs.take(Output(0, 1, b"x" * SHOWN_LINE_BYTES + b"y"))
    lines = out.getvalue().splitlines()
    assert [len(line) - len("h1 | ") for line in lines] == [SHOWN_LINE_BYTES] * 3 + [3]
    assert (tmp_path / "output" / "h1.out").read_bytes() == (b"x" * SHOWN_LINE_BYTES + b"y") * 3


def test_messages_come_through_as_lines_and_other_lines_are_none() -> None:
    output = Output(3, 2, bytes(range(256)))
    assert "\n" not in line_of(output)
    assert event_of(line_of(output)) == output
    assert event_of("Kernel panic - not syncing") is None
    assert event_of("") is None


def test_the_first_failure_counts() -> None:
    heard = JobEvents()
    for event in (ProgramEnded(0, 0), ProgramEnded(2, 7), ProgramEnded(1, 9)):
        heard.take(event)
    assert (heard.failed, heard.statuses) == (("", 2), {("", 0): 0, ("", 2): 7, ("", 1): 9})


def test_a_run_gets_a_folder_that_no_other_has(tmp_path: Path) -> None:
    for name in ("exec-iperf3", "exec-iperf3.2"):
        assert next(new_folders(tmp_path, ["/usr/bin/iperf3"])).name == name
        (tmp_path / name).mkdir()


def test_programs_of_a_scenario_have_files_of_their_own_and_need_no_terminal(tmp_path: Path) -> None:
    with Outputs(tmp_path, ["h1"], {}) as outputs:
        outputs.take(Output(0, 1, b"listening\n", "server"))
        outputs.take(Output(0, 1, b"{}", "client"))
    assert (tmp_path / "output" / "server" / "h1.out").read_bytes() == b"listening\n"
    assert (tmp_path / "output" / "client" / "h1.out").read_bytes() == b"{}"
