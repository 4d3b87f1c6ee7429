"""What the wall clock needs before it starts anything."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gradwire.faults import MachineFault
from gradwire.vm.host import NAMESPACES, run_on_host
from gradwire.vm.owners import is_gone, owner_of_process
from tests.shared.parts import in_order

ROOT = Path(__file__).parents[3]
NAMESPACES_WORK = subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode == 0


def test_the_wall_clock_is_refused_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineFault, match=r"needs root.*sudo"):
        run_on_host(["true"], env={}, time_limit_s=1, on_line=print, workdir=tmp_path)


@pytest.mark.root
@pytest.mark.parametrize(("end", "status"), [("exit 7", 7), ("kill -9 $$", 137), ("sleep 1000 & exit 3", 3)])
def test_output_and_status_come_out_and_what_is_left_in_the_background_is_not_waited_for(
    tmp_path: Path, end: str, status: int
) -> None:
    lines: list[str] = []
    script = f'pwd; echo "$NAME" >&2; {end}'
    workdir = tmp_path / "run"
    ended = run_on_host(
        ["sh", "-c", script],
        env={"NAME": "value"},
        time_limit_s=20,
        on_line=lines.append,
        workdir=workdir,
        openvswitch=False,
    )
    assert ended == status
    assert lines == [str(workdir), "value"]


@pytest.mark.root
def test_a_job_past_its_time_limit_is_ended_with_all_that_it_made(tmp_path: Path) -> None:
    script = f"setsid sh -c 'trap \"\" TERM; touch {tmp_path}/here; while :; do sleep 1; done' & wait"
    with pytest.raises(MachineFault, match=in_order("limit", "2 s")):
        run_on_host(["sh", "-c", script], env={}, time_limit_s=2, on_line=print, workdir=tmp_path, openvswitch=False)
    assert (tmp_path / "here").exists()
    assert not [pid for pid in _processes() if f"{tmp_path}/here" in _words(pid)]


@pytest.mark.root
def test_a_run_sees_no_network_but_its_own_and_leaves_others_as_they_are(tmp_path: Path) -> None:
    foreign = f"gwt{os.getpid() % 100_000}"
    made = [
        ["ip", "link", "add", foreign, "type", "veth", "peer", "name", f"{foreign}p"],
        ["ip", "link", "set", foreign, "up"],
        ["tc", "qdisc", "add", "dev", foreign, "root", "handle", "7:", "htb"],
    ]
    try:
        for command in made:
            subprocess.run(command, check=True, capture_output=True)
        before = _foreign(foreign)
        lines: list[str] = []
        script = (
            f"ls /sys/class/net; ip link add {foreign} type veth peer name other && tc qdisc add dev {foreign} root handle 9: htb; "
            f"ip link del {foreign}; "
            "ip link add one type veth peer name two; ovs-vsctl add-br s1"
        )
        run_on_host(["sh", "-c", script], env={}, time_limit_s=60, on_line=lines.append, workdir=tmp_path)
        assert foreign not in lines
        assert _foreign(foreign) == before
        assert not {"one", "two", "s1"} & {entry.name for entry in Path("/sys/class/net").iterdir()}
    finally:
        subprocess.run(["ip", "link", "del", foreign], check=False, capture_output=True)


def _foreign(device: str) -> str:
    shown = [
        ["ip", "-o", "link", "show", device],
        ["tc", "qdisc", "show", "dev", device],
    ]
    said = [subprocess.run(words, check=True, capture_output=True, text=True).stdout for words in shown]
    return "".join([*said, *(path.read_text() for path in sorted(Path("/proc/sys/net/core").glob("[rw]mem_*")))])


@pytest.mark.root
def test_nothing_outlives_a_caller_that_is_killed(tmp_path: Path) -> None:
    caller = (
        "import sys; from pathlib import Path; from gradwire.vm.host import run_on_host\n"
        "run_on_host(['sh', '-c', 'echo up; sleep 1000'], env={}, time_limit_s=60, workdir=Path(sys.argv[1]),"
        " on_line=lambda line: print(line, flush=True))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", caller, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"up\n"
        assert [pid for pid in _processes() if _owned_by(pid, process.pid)]
        process.kill()
        process.wait(120)
    deadline_s = time.monotonic() + 20
    while _left() and time.monotonic() < deadline_s:
        os.sched_yield()
    assert not _left()


def _owned_by(pid: int, owner: int) -> bool:
    return (owner_of_process(pid) or "").startswith(f"{owner:010d}.")


def _left() -> list[int]:
    return [pid for pid in _processes() if (owner := owner_of_process(pid)) and is_gone(owner)]


def _processes() -> list[int]:
    return [int(folder.name) for folder in Path("/proc").glob("[0-9]*")]


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.root
def test_a_wall_run_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(MachineFault, match="stopped"):
        run_on_host(
            ["sleep", "1000"], env={}, time_limit_s=20, on_line=print, workdir=tmp_path, openvswitch=False, stop=stop
        )
