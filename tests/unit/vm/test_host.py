"""What the wall clock needs before it starts anything."""

import os
import socket
import threading
from pathlib import Path

import pytest

from gradwire.faults import MachineFault
from gradwire.vm.host import daemon_commands, run_on_host, system_openvswitch_runs


def test_the_wall_clock_is_refused_without_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineFault, match=r"needs root.*sudo"):
        run_on_host(["true"], env={}, time_limit_s=1, on_line=print, workdir=tmp_path)


def test_the_machines_open_vswitch_counts_only_when_both_daemons_live(tmp_path: Path) -> None:
    assert not system_openvswitch_runs(tmp_path)
    (tmp_path / "ovs-vswitchd.pid").write_text(f"{os.getpid()}\n")
    assert not system_openvswitch_runs(tmp_path)
    with socket.socket(socket.AF_UNIX) as database:
        database.bind(str(tmp_path / "db.sock"))
        database.listen()
        assert system_openvswitch_runs(tmp_path)
        (tmp_path / "ovs-vswitchd.pid").write_text("garbage")
        assert not system_openvswitch_runs(tmp_path)


def test_private_daemons_keep_to_their_folder() -> None:
    database, switch = daemon_commands(Path("/tmp/here"))
    assert "--remote=punix:/tmp/here/db.sock" in database
    assert database[-1] == "/tmp/here/conf.db"
    assert switch[-1] == "unix:/tmp/here/db.sock"


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job without Open vSwitch needs nothing of root's."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("as_root")
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


@pytest.mark.usefixtures("as_root")
def test_a_job_past_its_time_limit_may_take_down_what_it_made(tmp_path: Path) -> None:
    script = "trap 'echo gone >taken-down; exit' TERM; sleep 1000 & wait"
    with pytest.raises(MachineFault, match=r"limit of 0\.3 s"):
        run_on_host(["sh", "-c", script], env={}, time_limit_s=0.3, on_line=print, workdir=tmp_path, openvswitch=False)
    assert (tmp_path / "taken-down").read_text() == "gone\n"


@pytest.mark.usefixtures("as_root")
def test_a_wall_run_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(MachineFault, match="stopped"):
        run_on_host(
            ["sleep", "1000"], env={}, time_limit_s=20, on_line=print, workdir=tmp_path, openvswitch=False, stop=stop
        )
