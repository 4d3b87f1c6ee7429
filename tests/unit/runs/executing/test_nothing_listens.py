"""A cluster of this machine, for one command: no other user of the machine reaches anything of it."""

from __future__ import annotations

import os
import socket
import stat
import threading
from pathlib import Path

import pytest
from distributed import get_worker

from gradwire.runs.executing.cluster.pool import connected
from tests.shared.listening import reachable_sockets


def test_what_listens_is_seen(tmp_path: Path) -> None:
    """The check itself: TCP, UDP, and Unix sockets with a path or an abstract name."""
    before = reachable_sockets(os.getpid())
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        assert reachable_sockets(os.getpid()) == before
        tcp.listen()
        udp.bind(("127.0.0.1", 0))
        unix.bind("\0gradwire-test-of-listening")
        unix.listen()
        kinds = sorted(found.split()[0] for found in reachable_sockets(os.getpid()) - before)
    assert kinds == ["tcp", "udp", "unix"]


def test_a_cluster_for_one_command_listens_nowhere() -> None:
    before = reachable_sockets(os.getpid())
    with connected(None, 2) as client:
        assert client.submit(os.getpid).result() == os.getpid()
        assert client.scheduler.address.startswith("inproc://")
        assert reachable_sockets(os.getpid()) - before == set()


MEETING = threading.Barrier(3)


def meet(_: int) -> int:
    return MEETING.wait(30)


def test_it_runs_as_many_points_at_once_as_asked() -> None:
    with connected(None, 3) as client:
        assert sum(client.nthreads().values()) == 3
        waited = client.map(meet, range(3), pure=False)
        assert sorted(client.gather(waited)) == [0, 1, 2]


def test_its_files_are_the_callers_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Dask's own folder is called alike for all users of a machine, and is put on sys.path."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    tmp_path.chmod(0o1777)
    with connected(None, 1) as client:
        local = Path(client.submit(lambda: get_worker().local_directory).result())
        assert local.is_relative_to(tmp_path)
        (top,) = tmp_path.iterdir()
        assert stat.S_IMODE(top.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []
