"""Lines out of bytes, and why following them ends."""

import os
import signal
import subprocess
import sys
import threading
from itertools import count

import pytest

from gradwire.vm.streaming import (
    FollowEnd,
    LineSplitter,
    TimeLimit,
    dies_with_parent,
    follow,
    is_stopped,
    living_of_group,
    pipe,
    process_group,
)

FINISHED = FollowEnd.FINISHED


def lines_of(*chunks: bytes) -> list[str]:
    lines: list[str] = []
    splitter = LineSplitter(lines.append)
    for chunk in chunks:
        splitter.feed(chunk)
    splitter.close()
    return lines


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"o", b"ne\nt", b"wo"], ["one", "two"]),
        ([b"terminal\r", b"\nline\r\n"], ["terminal", "line"]),
        ([b"\n\n"], ["", ""]),
        ([b"\xff\n"], ["\ufffd"]),
        ([], []),
    ],
)
def test_lines_come_out_whole_however_the_bytes_arrive(chunks: list[bytes], lines: list[str]) -> None:
    assert lines_of(*chunks) == lines


def test_a_line_that_is_too_long_comes_out_in_parts() -> None:
    lines: list[str] = []
    splitter = LineSplitter(lines.append, 4)
    for chunk in (b"ab", b"cdefghij", b"\nk\n", b"", b"lm", b"no", b"\n\n", b"end"):
        splitter.feed(chunk)
    splitter.close()
    assert lines == ["abcd", "efgh", "ij", "k", "lmno", "", "end"]


def test_following_ends_when_all_outputs_are_closed() -> None:
    seen: list[str] = []
    with pipe() as (first, first_end), pipe() as (second, second_end):
        first_end.write(b"a\n")
        second_end.write(b"b")
        first_end.close()
        second_end.close()
        assert follow({first: seen.append, second: seen.append}, time_limit_s=120) is FollowEnd.CLOSED
    assert sorted(seen) == ["a", "b"]


def test_what_was_written_before_the_end_is_still_handed_on() -> None:
    seen: list[str] = []
    with pipe() as (reader, writer):
        os.write(writer.fileno(), b"x" * 300_000 + b"\nlast\n")
        end = follow({reader: seen.append}, time_limit_s=120, finished=lambda: True)
    assert end is FollowEnd.FINISHED
    assert seen[-1] == "last"


def test_following_ends_at_its_time_limit() -> None:
    with pipe() as (reader, _):
        assert follow({reader: lambda _: None}, time_limit_s=0) is FollowEnd.TIMED_OUT


def test_what_is_written_just_before_the_end_is_handed_on() -> None:
    """A kernel says why it dies, and dies."""
    seen: list[str] = []
    with pipe() as (first, first_end), pipe() as (second, writer):

        def take(line: str) -> None:
            seen.append(line)
            if len(seen) == 1:
                os.write(writer.fileno(), b"the reason\n")

        os.write(first_end.fileno(), b"line\n")
        assert follow({first: take, second: seen.append}, time_limit_s=120, finished=lambda: bool(seen)) is FINISHED
    assert seen == ["line", "the reason"]


def test_time_in_which_this_process_did_not_run_does_not_count() -> None:
    wall_s = iter([0.0, 0.5, 1000.0, 1000.5])
    limit = TimeLimit(3.0, wall_s=lambda: next(wall_s))
    assert [limit.left_s() for _ in range(3)] == [2.5, 1.5, 1.0]


def test_time_in_which_the_other_process_was_stopped_does_not_count() -> None:
    held, wall_s = iter([False, True, True, False]), count()
    limit = TimeLimit(3.0, lambda: next(held), lambda: float(next(wall_s)))
    assert [limit.left_s() for _ in range(4)] == [2.0, 2.0, 2.0, 1.0]


def test_a_process_is_seen_to_be_stopped_and_to_go_on() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        assert not is_stopped(process.pid)
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        assert is_stopped(process.pid)
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        assert not is_stopped(process.pid)
        process.kill()
    assert not is_stopped(process.pid)


def test_following_ends_when_stopped() -> None:
    stop = threading.Event()
    stop.set()
    with pipe() as (reader, _):
        assert follow({reader: lambda _: None}, time_limit_s=120, stop=stop) is FollowEnd.STOPPED


def test_a_flood_does_not_outlast_the_time_limit() -> None:
    flood = [sys.executable, "-c", "import sys\nwhile True: sys.stdout.write('x' * 999 + '\\n')"]
    with pipe() as (reader, writer), process_group(flood, env={}, stdout=writer.fileno()):
        writer.close()
        assert follow({reader: lambda _: None}, time_limit_s=0.3) is FollowEnd.TIMED_OUT


def test_leaving_a_process_group_kills_the_children_of_its_leader() -> None:
    nested = ["sh", "-c", "sleep 1000 & echo $!; wait"]
    seen: list[str] = []
    with pipe() as (reader, writer), process_group(nested, env={"PATH": os.environ["PATH"]}, stdout=writer.fileno()):
        writer.close()
        follow({reader: seen.append}, time_limit_s=20, finished=lambda: bool(seen))
        child = int(seen[0])
        assert alive(child)
    assert not alive(child)


LARGE = """
import os, time
kept = b"1" * (400 << 20)
print(os.getpid(), flush=True)
time.sleep(1000)
"""


def test_leaving_a_process_group_waits_for_those_that_take_long_to_die() -> None:
    nested = ["sh", "-c", f"{sys.executable} -c '{LARGE}' & wait"]
    seen: list[str] = []
    with pipe() as (reader, writer), process_group(nested, env={}, stdout=writer.fileno()) as leader:
        writer.close()
        follow({reader: seen.append}, time_limit_s=60, finished=lambda: bool(seen))
        assert int(seen[0]) in living_of_group(leader.pid)
    assert living_of_group(leader.pid) == []


def alive(pid: int) -> bool:
    """False for zombies as well, which only wait for init to take note of them."""
    listing = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(listing.stdout.strip()) and not listing.stdout.startswith("Z")


def test_the_death_signal_is_set_by_a_program_and_the_command_is_kept() -> None:
    assert dies_with_parent(["make", "-j2"])[-2:] == ["make", "-j2"]
    assert "TERM" in dies_with_parent(["make"], "TERM")


def test_output_that_comes_all_the_time_asks_seldom_whether_its_process_is_stopped() -> None:
    asked: list[float] = []
    now_s = 0.0

    def held() -> bool:
        asked.append(now_s)
        return False

    limit = TimeLimit(3.0, held, lambda: now_s)
    for number in range(1, 1000):
        now_s = number / 1000
        assert limit.left_s() == pytest.approx(3.0 - now_s)
    assert len(asked) == 9
