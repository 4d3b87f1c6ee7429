"""Hashes are not signatures: what a run cannot have left is refused by the name of its file, although its hash is right."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradwire.faults import InputFault
from tests.hostile import run_folders
from tests.hostile.run_folders import SOUNDS, seal_again, sound, write_files

ALL_KINDS = SOUNDS[1]


def point_of(which: str) -> str:
    return next(name for name in sound(which) if "/ring" in name and name.endswith("/task.json")).rpartition("/")[0]


def changed(folder: Path, name: str, change: Callable[[Any], Any], which: str = ALL_KINDS) -> Path:
    """A run folder in which a file of the ring's point has been changed, and its hash computed anew."""
    files = dict(sound(which))
    path = f"{point_of(which)}/{name}"
    if name.endswith(".npz"):
        with np.load(io.BytesIO(files[path])) as stored:
            arrays = {key: stored[key].copy() for key in stored.files}
        change(arrays)
        content = io.BytesIO()
        (np.savez_compressed if name == "queues.npz" else np.savez)(content, **arrays)
        files[path] = content.getvalue()
    else:
        message = json.loads(files[path])
        change(message)
        files[path] = json.dumps(message).encode()
    seal_again(files)
    write_files(folder, files)
    return folder


def at(*keys: str | int, value: Any) -> Callable[[Any], None]:
    """Puts a value at a place."""

    def put(message: Any) -> None:
        for key in keys[:-1]:
            message = message[key]
        message[keys[-1]] = value

    return put


def in_fabric(**values: Any) -> Callable[[Any], None]:
    def put(message: Any) -> None:
        message["fabric"] = json.dumps({**json.loads(message["fabric"]), **values})

    return put


RECORDS = [
    (at("iterations", value=10**300), "iterations has more digits"),
    (at("iterations", value=10**6), "iterations = 1000000, and the point's task has 3"),
    (at("warmup", value=2), "warmup = 2, and the point's task has 1"),
    (at("clock", value="wall"), "clock = wall"),
    (at("rate_probe", value=-1.0), "rate_probe = -1.0: must be 0"),
    (at("rate_probe", value=1e300), "rate_probe = 1e"),
    (at("counts", "bands", 0, "bytes_sent", value=-1), "bytes_sent = -1"),
    (at("counts", "bands", 0, "bytes_sent", value=2**62), "bytes_sent = 4611686018427387904"),
    (at("counts", "bands", 0, "port", value="h99-eth0"), "the network has no port 'h99-eth0'"),
    (at("counts", "bands", 0, "band", value=15), "a port's band = 15"),
    (at("counts", "bands", 1, "band", value=0), "has band 0 twice"),
    (at("counts", "tcp_retransmits", value=-5), "tcp_retransmits = -5"),
    (at("agents", 0, "hosts", value=[0, 1, 2, 9]), "an agent's host = 9"),
    (at("agents", 0, "hosts", value=[0, 1, 2, 2]), "two agents ran the same host"),
    (at("agents", 0, "lateness_ns_max", value=-(10**18)), "lateness_ns_max = -"),
    (at("agents", 0, "sockets", 0, "dst_host", value=-1), "a connection's host = -1"),
    (at("captures", 0, "file", value="../../../etc/passwd"), "a file is '../../../etc/passwd'"),
    (at("captures", 0, "port", value="nowhere"), "the network has no port 'nowhere'"),
    (at("captures", 0, "packets", value=-1), "packets = -1"),
    (at("faults", 0, "fault", "value", value=3.0), "'slow' is not one of the point's task"),
    (at("faults", 0, "begun_ns", value=-(2**40)), "begun_ns = -"),
]
TASKS = [
    (at("iterations", value=10**12), "iterations = 1000000000000"),
    (at("warmup", value=3), "warmup = 3: must be 0 to 2"),
    (at("plans", value=[]), "plans = 0"),
    (at("plans", 0, 1, value="/dev/zero"), "a plan's file is '/dev/zero'"),
    (at("plans", 0, 1, value="../plan-0.npz"), "a plan's file is '../plan-0.npz'"),
    (at("clock", value="sundial"), "clock = 'sundial'"),
    (at("faults", 0, "worker", value=4096), "'slow': its place does not exist"),
    (in_fabric(hosts=10**12), "fabric.hosts = 1000000000000"),
    (in_fabric(hosts="4"), "fabric.hosts is not a number"),
    (in_fabric(spines=10**9), "fabric.spines = 1000000000"),
    (in_fabric(rate_bps=float("nan")), "JSON is malformed"),
    (in_fabric(rate_bps=1e30), "rate_bps = 1e"),
    (in_fabric(rate_bps="fast"), "Expected `float`, got `str`"),
    (in_fabric(leaves=0), "its network cannot be built"),
    (in_fabric(mtu_bytes=10**9), "its network cannot be built"),
]
COMPLETIONS = [
    (at("divided_by", value=0), "divided_by = 0"),
    (at("division_error", value=-1.0), "division_error = -1.0"),
    (at("speed", "replay_s", value=-1.0), "replay_s = -1.0"),
    (at("speed", "payload_bytes", value=10**300), "payload_bytes has more digits"),
]
LOGS = [
    (lambda log: log.update(op=log["op"] + 10**9), "op: 1000000000 or"),
    (lambda log: log["iteration"].__setitem__(0, -1), "iteration: -1 or"),
    (lambda log: log.update(end_ns=log["end_ns"][:-1]), "its columns differ in length"),
    (lambda log: log.update({name: np.tile(column, 3) for name, column in log.items()}), "rows = "),
    (lambda log: log["start_ns"].__setitem__(0, 2**62), "start_ns: "),
]
PLANS = [
    (lambda plan: plan["dep_op"].__setitem__(0, 10**9), "a dependency does not exist"),
    (lambda plan: plan["dep_start"].__setitem__(1, -3), "dep_start does not divide"),
    (lambda plan: plan["ops.rank"].__setitem__(0, 99), "an op's rank does not exist"),
    (lambda plan: plan["rank_host"].__setitem__(0, 1000), "a rank's host: "),
    (lambda plan: plan["ops.duration_ns"].__setitem__(0, -1), "an op's duration: -1"),
    (lambda plan: plan["ops.size_bytes"].__setitem__(slice(None), 2**59), "sizes: add up to more"),
    (lambda plan: plan["ops.traffic_class"].__setitem__(0, 14), "an op's class: "),
    (lambda plan: plan["begin_op"].__setitem__(0, -1), "the begin of an iteration does not exist"),
    (lambda plan: plan.update({"ops.kind": plan["ops.kind"][:-1]}), "its ops' columns differ in length"),
    (lambda plan: plan["rank_role"].__setitem__(slice(None), 2), "worker needs an op|it has no workers"),
    (lambda plan: plan.update(scalars=np.frombuffer(b'{"name": 3}', np.uint8)), "KeyError|must be texts"),
]
QUEUES = [
    (lambda queues: queues.update(ports=np.array(["nowhere"] * len(queues["ports"]))), "has no port 'nowhere'"),
    (lambda queues: queues["waiting_bytes"].__setitem__((0, 0), -1), "waiting_bytes: -1"),
    (lambda queues: queues.update(marks=queues["waiting_bytes"] - 2**40), "marks: -"),
    (lambda queues: queues.update(marks=queues["waiting_bytes"][1:]), "its columns do not fit together"),
    (lambda queues: queues.update(time_ns=queues["time_ns"][:-1]), "its columns do not fit together"),
]
CASES = [
    (name, change, complaint)
    for name, cases in (
        ("record.json", RECORDS),
        ("task.json", TASKS),
        ("completed.json", COMPLETIONS),
        ("ops.npz", LOGS),
        ("plan-0.npz", PLANS),
        ("queues.npz", QUEUES),
    )
    for change, complaint in cases
]


@pytest.mark.parametrize(("name", "change", "complaint"), CASES, ids=[f"{name}-{text[:40]}" for name, _, text in CASES])
def test_what_no_run_leaves_is_refused_by_the_name_of_its_file(
    tmp_path: Path, name: str, change: Callable[[Any], Any], complaint: str
) -> None:
    with pytest.raises(InputFault, match=complaint) as refused:
        run_folders.report(changed(tmp_path / "run", name, change))
    assert f"{name}: " in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_an_honest_folder_is_read_with_hashes_computed_anew(tmp_path: Path) -> None:
    times = run_folders.report(changed(tmp_path / "run", "record.json", lambda _: None))
    assert len(times) == 2


def test_ops_in_a_circle_are_refused(tmp_path: Path) -> None:
    def close(plan: dict[str, Any]) -> None:
        waiting = np.repeat(np.arange(len(plan["ops.kind"])), np.diff(plan["dep_start"]))
        first = int(np.flatnonzero(plan["dep_lag"] == 0)[0])
        # What its dependency waits for, waits for it.
        onto = int(plan["dep_op"][first])
        back = np.flatnonzero(waiting == onto)[0]
        plan["dep_op"][back], plan["dep_lag"][back] = waiting[first], 0

    with pytest.raises(InputFault, match=r"plan-0\.npz: .*in a circle"):
        run_folders.report(changed(tmp_path / "run", "plan-0.npz", close))
