"""Real agent processes: a whole replay on one host, and what is said when one dies."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gradwire.agents.agent_processes import AgentDied, AgentGroup
from gradwire.agents.connections import HostEntry, SocketOptions
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import NOT_SERVED
from gradwire.faults import MachineFault
from gradwire.network.fabric import Fabric
from gradwire.network_namespace import network_namespace
from gradwire.vm.kernel_source import agent_command
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from tests.shared.parts import in_order
from tests.shared.small_jobs import compiled, job_of, profile_of

OWN_NETWORK = "/proc/self/ns/net"
SOCKETS = SocketOptions(buffer_bytes=1 << 20, unsent_bytes=1 << 18)
QUICK_S = 60.0
"""What an agent that dies may cost, beside starting Python: far less than the time limit of a run."""


def may_enter_networks() -> bool:
    try:
        with network_namespace(OWN_NETWORK):
            return True
    except MachineFault:
        return False


def local_plan() -> Plan:
    """One worker and one server on one host: nothing crosses the network."""
    profile = profile_of([(LayerKind.CONV, [250]), (LayerKind.FC, [100])])
    return compiled(job_of(profile, Cluster(1, 1)), "vanilla", {})["vanilla"]


def hosts(count: int) -> list[HostEntry]:
    return [HostEntry(index, "127.0.0.1", OWN_NETWORK) for index in range(count)]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def agents(folder: Path, count: int = 1, *, per_host: bool = False) -> Iterator[tuple[AgentGroup, list[int]]]:
    """A group and its pids; checks that nothing of it is left running, and that ending it was quick."""
    group = AgentGroup(Fabric(count, 1e9), folder, per_host=per_host)
    pids: list[int] = []
    try:
        with group:
            pids = [process.pid for process in group._processes]
            with group.carrying(hosts(count), SOCKETS):
                yield group, pids
    finally:
        assert pids
        assert not any(is_running(pid) for pid in pids)


@pytest.mark.namespaces
def test_replays_a_plan_and_then_another(tmp_path: Path) -> None:
    plan = local_plan()
    plan.save(tmp_path / "plan.npz")
    heard: list[int] = []
    with agents(tmp_path) as (group, _):
        for iterations in (3, 2):
            log, (summary,) = group.replay(plan, tmp_path / "plan.npz", iterations, heard.append)
            assert len(log.op) == iterations * len(plan.ops)
            assert summary.hosts == (0,)
            assert (summary.messages_sent, summary.bytes_sent, summary.bytes_received) == (0, 0, 0)
            ends = log.end_ns[np.isin(log.op, plan.end_op)]
            assert (np.diff(ends) >= 9_000_000).all()
    assert heard[-1] == 2
    assert 3 in heard


@pytest.mark.namespaces
def test_where_the_kernel_takes_no_lists_agents_are_in_python_and_say_so(tmp_path: Path) -> None:
    library = tmp_path / "agent.so"
    subprocess.run(agent_command(library), check=True)
    plan = local_plan()
    plan.save(tmp_path / "plan.npz")
    for path in (library, tmp_path / "missing.so"):
        group = AgentGroup(Fabric(1, 1e9), tmp_path)
        with group, group.carrying(hosts(1), SOCKETS, str(path)):
            _, (summary,) = group.replay(plan, tmp_path / "plan.npz", 2, lambda _: None)
        assert summary.code == NOT_SERVED


def replay(folder: Path, name: str, on_iteration: Callable[[int], None] = lambda _: None) -> None:
    """Replays a long run of the plan in file `name`."""
    with agents(folder) as (group, _):
        group.replay(local_plan(), folder / name, 10_000, on_iteration)


def test_a_plan_that_is_not_there(tmp_path: Path) -> None:
    start_s = time.monotonic()
    said = r"agent 0 \(ranks 0, 1 on h1\) died with exit status 1: .*missing.npz"
    with pytest.raises(AgentDied, match=said) as raised:
        replay(tmp_path, "missing.npz")
    log = tmp_path / "agent-0.log"
    assert str(log) in str(raised.value)
    assert "missing.npz" in log.read_text()
    assert time.monotonic() - start_s < QUICK_S


def replay_with_a_dead_agent(folder: Path) -> None:
    with agents(folder, 2, per_host=True) as (group, pids):
        os.kill(pids[0], signal.SIGKILL)
        os.waitid(os.P_PID, pids[0], os.WEXITED | os.WNOWAIT)
        group.replay(local_plan(), folder / "plan.npz", 1, lambda _: None)


def test_an_agent_that_was_killed_before_it_is_told_anything(tmp_path: Path) -> None:
    """Its input is closed then: neither telling it something nor ending it hides who died."""
    with pytest.raises(AgentDied, match=in_order("agent 0", "0, 1 on h1", "signal 9")):
        replay_with_a_dead_agent(tmp_path)


@pytest.mark.namespaces
@pytest.mark.parametrize(
    ("number", "said"),
    [
        (signal.SIGKILL, r"\(ranks 0, 1 on h1\) died with signal 9; its log is .*agent-0.log"),
        (signal.SIGSEGV, r"\(ranks 0, 1 on h1\) died with signal 11 .*sysctl -w vm.max_map_count=.*; its log is "),
    ],
)
def test_an_agent_that_is_killed_in_the_middle(tmp_path: Path, number: signal.Signals, said: str) -> None:
    local_plan().save(tmp_path / "plan.npz")
    killed_s: list[float] = []

    def killing(folder: Path) -> None:
        with agents(folder) as (group, pids):

            def kill(_: int) -> None:
                if not killed_s:
                    os.kill(pids[0], number)
                    killed_s.append(time.monotonic())

            group.replay(local_plan(), folder / "plan.npz", 10_000, kill)

    with pytest.raises(AgentDied, match=said):
        killing(tmp_path)
    assert time.monotonic() - killed_s[0] < QUICK_S


@pytest.mark.namespaces
def test_agents_in_the_middle_of_a_run_are_ended_at_once(tmp_path: Path) -> None:
    """An agent that replays does not read its input, so that closing it ends nothing."""
    local_plan().save(tmp_path / "plan.npz")
    stopped_s: list[float] = []

    def stop(_: int) -> None:
        stopped_s.append(time.monotonic())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replay(tmp_path, "plan.npz", stop)
    assert time.monotonic() - stopped_s[0] < QUICK_S
