"""`gradwire exec`: what a program finds on its host, and what becomes of one that fails, never ends, or takes too much memory."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gradwire.agents.capture import recorder
from tests.end_to_end.programs.running import ENVIRONMENT, INTERRUPTIBLE, execute, left_behind
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SIZE = ("--workers", "2", "--rate", "10gbit")
LOOK_AROUND = """
hostname
echo "$GRADWIRE_INDEX of $GRADWIRE_HOSTS, rank $RANK of $WORLD_SIZE at $MASTER_ADDR"
ls /sys/class/net | xargs
getent ahosts h1 | head -n 1 | cut -d " " -f 1 >"$TMPDIR/first"; getent ahostsv4 h2 | head -n 1 | cut -d " " -f 1 >"$TMPDIR/second"
cat "$TMPDIR/first" "$TMPDIR/second" | xargs; rm "$TMPDIR/first" "$TMPDIR/second"
cat /sys/class/net/lo/operstate >/dev/null && touch "$TMPDIR/mine" /dev/shm/$GRADWIRE_HOST && ls "$TMPDIR" /dev/shm | xargs
cat /etc/resolv.conf 2>/dev/null
pwd
printf unended >&2
"""


def test_a_program_finds_a_host_of_its_own_with_its_peers(tmp_path: Path) -> None:
    done = execute(tmp_path, *SIZE, "--launch", "torch", "--", "sh", "-c", LOOK_AROUND)
    assert done.status == 0, done.err
    for index, host in enumerate(("h1", "h2")):
        assert done.output(host).splitlines() == [
            host,
            f"{index} of h1 h2, rank {index} of 2 at 10.0.0.1",
            f"{host}-eth0 lo",
            "10.0.0.1 10.0.0.2",
            f"/dev/shm: {host} /run/tmp/{host}: mine",
            str(tmp_path),  # and no name server: it would have no answer
        ]
        assert f"{host} | {host}\n" in done.out
        assert f"{host} | unended\n" in done.err
        assert done.output(host, "err") == "unended"
    assert "valid: " in done.out
    assert "line rate" in done.out
    assert left_behind(tmp_path) == []
    assert not (tmp_path / "run" / ".kernel").exists()


def test_a_script_finds_gradwire_and_nothing_beside_it(tmp_path: Path) -> None:
    look = "import gradwire.faults, os; print(gradwire.faults.__name__, *os.listdir(os.environ['PYTHONPATH']))"
    command = f'PYTHONPATH="${{PYTHONPATH##*:}}" exec python3 -c "{look}"'
    done = execute(tmp_path, *SIZE, "--hosts", "h1", "--", "sh", "-c", command)
    assert done.status == 0, done.err
    assert done.output("h1") == "gradwire.faults gradwire\n"


def test_a_program_that_fails_is_named_and_ends_the_others(tmp_path: Path) -> None:
    script = 'echo begun; [ $GRADWIRE_HOST = h2 ] && { echo "no licence" >&2; exit 3; }; sleep 1000'
    done = execute(tmp_path, *SIZE, "--", "sh", "-c", script)
    assert done.status == 3
    assert tells(done.err, "failed:", "sh on h2", "status 3", "run/output/h2.err")
    assert (done.output("h1"), done.output("h2", "err")) == ("begun\n", "no licence\n")
    assert done.summary()["report"]["duration_s"] < 1
    assert done.summary()["statuses"] == {"h2": 3}
    assert "network carried all" in done.out
    assert "valid" not in done.out + done.err


def test_a_program_that_a_signal_ends_has_its_status(tmp_path: Path) -> None:
    done = execute(tmp_path, *SIZE, "--hosts", "h2", "--", "sh", "-c", "kill -SEGV $$")
    assert done.status == 128 + signal.SIGSEGV
    assert tells(done.err, "sh on h2", "signal 11")


def test_a_program_that_never_ends_is_ended_in_virtual_time(tmp_path: Path) -> None:
    done = execute(
        tmp_path, *SIZE, "--hosts", "h1", "--time-limit", "100s", "--", "sh", "-c", "echo begun; sleep 1000000"
    )
    assert done.status == 3
    assert tells(done.err, "100 s", "virtual", "sh on h1")
    assert done.output("h1") == "begun\n"
    assert done.summary()["report"]["duration_s"] == pytest.approx(100, abs=0.2)


def test_a_program_that_computes_for_long_is_ended_in_wall_time(tmp_path: Path) -> None:
    done = execute(tmp_path, *SIZE, "--wall-limit", "15s", "--", "sh", "-c", "while :; do :; done")
    assert done.status == 3
    assert tells(done.err, "15 s", "wall", "sh on", "h1, h2")
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("waiting", ["while :; do :; done", "exec cat /dev/zero >/dev/null"])
def test_a_program_that_stops_the_clock_is_named(tmp_path: Path, waiting: str) -> None:
    done = execute(tmp_path, *SIZE, "--stall-limit", "4s", "--", "sh", "-c", f"test $GRADWIRE_HOST = h1 || {waiting}")
    assert done.status == 2
    name = "cat" if "cat" in waiting else "sh"
    # Its last system call is not known if it was stopped by something else since.
    said = rf"no virtual time has passed for 4 s of wall time, while {name} on h2 \(process \d+(, last system call number \d+)?\)"
    assert re.search(said, done.err)
    assert "--stall-limit" in done.err
    assert left_behind(tmp_path) == []


def test_a_program_that_takes_too_much_memory_is_told_so(tmp_path: Path) -> None:
    greedy = "hoard = []\nwhile True: hoard.append(b'x' * (16 << 20))"
    done = execute(tmp_path, *SIZE, "--hosts", "h2", "--memory", "512M", "--", "python3", "-c", greedy)
    assert done.status in (1, 128 + signal.SIGKILL)
    assert "MemoryError" in done.err or tells(done.err, "512 MiB", "full", "--memory")


def test_files_that_take_all_memory_are_told_so_even_if_that_ends_the_switches(tmp_path: Path) -> None:
    fill = "for place in /dev/shm $TMPDIR; do dd if=/dev/zero of=$place/file bs=1M; done"
    done = execute(tmp_path, *SIZE, "--hosts", "h2", "--memory", "512M", "--", "sh", "-c", fill)
    assert done.status not in (0, 2, 4)
    assert tells(done.err, "memory", "full", "--memory")


def test_a_file_that_is_no_program_is_refused_by_the_kernel(tmp_path: Path) -> None:
    program = tmp_path / "notes.txt"
    program.write_bytes(b"\x01\x02")
    program.chmod(0o755)
    done = execute(tmp_path, *SIZE, "--", "./notes.txt")
    assert done.status == 2
    assert "not a program" in done.err


def test_ctrl_c_ends_everything_and_keeps_what_was_written(tmp_path: Path) -> None:
    command = [*INTERRUPTIBLE, "exec", "--out", "run", *SIZE, "--", "sh", "-c", "echo begun; sleep 100000000"]
    with subprocess.Popen(
        [*command[:-4], "--time-limit", "100000h", *command[-4:]],
        cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        assert running.stdout.readline().endswith("begun\n")
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert tells(err, "interrupted", "in run")
    assert (tmp_path / "run" / "output" / "h1.out").read_text() == "begun\n"
    assert left_behind(tmp_path) == []


def test_much_output_comes_out_whole(tmp_path: Path) -> None:
    begin_s = time.monotonic()
    done = execute(tmp_path, *SIZE, "--hosts", "h1", "--", "seq", "300000")
    assert done.status == 0, done.err
    assert done.output("h1") == "".join(f"{i}\n" for i in range(1, 300001))
    assert done.summary()["report"]["duration_s"] < 0.1, "the program waited for its reader"
    assert time.monotonic() - begin_s < 120


def test_a_line_without_an_end_takes_time_in_proportion(tmp_path: Path) -> None:
    """With a copy of all that came before for each chunk, these took eight seconds of virtual time, which waits for the reader."""
    done = execute(tmp_path, *SIZE, "--hosts", "h1", "--", "sh", "-c", "head -c 40000000 /dev/zero | tr '\\0' x")
    assert done.status == 0, done.err
    assert (tmp_path / "run" / "output" / "h1.out").stat().st_size == 40_000_000
    assert done.summary()["report"]["duration_s"] < 1, "the program waited for its reader"


def test_output_beyond_the_limit_is_dropped_and_told_once(tmp_path: Path) -> None:
    script = "seq 20000; sleep 1; seq 20000; echo ended >&2"
    done = execute(tmp_path, *SIZE, "--output-limit", "100K", "--", "sh", "-c", script)
    assert done.status == 0, done.err
    assert done.err.count("102,400 bytes") == 1
    assert tells(done.err, "WARNING:", "102,400 bytes", "--output-limit")
    kept = sum(path.stat().st_size for path in (tmp_path / "run" / "output").iterdir())
    written = 2 * (2 * len("".join(f"{i}\n" for i in range(1, 20001))) + len("ended\n"))
    assert kept == 102_400
    assert done.summary()["report"]["dropped_output_bytes"] == written - kept
    assert done.summary()["report"]["duration_s"] == pytest.approx(1, abs=0.1)


def test_ports_are_captured(tmp_path: Path) -> None:
    done = execute(tmp_path, *SIZE, "--hosts", "h1", "--capture", "h2", "--", "ping", "-c", "3", "h2")
    assert done.status == 0, done.err
    captured = (tmp_path / "run" / "capture" / "h2-eth0.pcapng").read_bytes()
    assert captured.startswith(recorder.section_block("")[:4])
    assert captured.count(bytes([10, 0, 0, 1, 10, 0, 0, 2])) == captured.count(bytes([10, 0, 0, 2, 10, 0, 0, 1])) == 3


def test_mpirun_reaches_the_other_hosts_without_ssh(tmp_path: Path) -> None:
    done = execute(
        tmp_path, *SIZE, "--launch", "mpi", "--", "mpirun", "-np", "2", "sh", "-c", "echo $(hostname) $TMPDIR"
    )
    assert done.status == 0, done.err
    assert sorted(done.output("h1").splitlines()) == ["h1 /run/tmp/h1", "h2 /run/tmp/h2"]
