"""Points on the workers of a Dask cluster, in the virtual-time kernel: the same to the nanosecond as on this machine."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import dask.config as dask_config
import numpy as np
import pytest
import tomli_w

import gradwire
from gradwire.datatypes.records import OpLog
from gradwire.runs.stored.stored_run import StoredRun
from tests.shared.listening import process_tree, reachable_sockets
from tests.shared.machine_code import bring_machine_code
from tests.shared.worker_processes import worker_processes

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SCENARIO = {
    "title": "one layer",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {
        "name": "toy",
        "batch": 1,
        "layers": [{"name": "fc", "kind": "fc", "size": ["2MB"], "forward": "200us", "backward": "400us"}],
    },
    "run": {"warmup": 1, "iterations": 2},
    "sweep": {"strategy.name": ["ring", "p3"]},
}


def test_a_cluster_gives_the_nanoseconds_of_this_machine(tmp_path: Path, virtual_kernel: Path) -> None:
    near = gradwire.run(SCENARIO, out=tmp_path / "near", progress=False)
    # The workers' machine has a cache of its own, without the kernel, which is sent.
    cache = tmp_path / "cache"
    bring_machine_code(cache)
    with (
        dask_config.set({"distributed.nanny.environ.GRADWIRE_CACHE": str(cache)}),
        worker_processes(2) as client,
    ):
        far = gradwire.run(SCENARIO, out=tmp_path / "far", executor="dask", scheduler=client, progress=False)
    assert near.valid
    assert far.valid
    assert (cache / virtual_kernel.name).read_bytes() == virtual_kernel.read_bytes()
    same = ["strategy", "iteration_time_s", "lower_bound_s", "fluid_time_s", "plan_digest", "verdict"]
    assert near.points[same].equals(far.points[same])
    for point in (tmp_path / "near" / "points").iterdir():
        there = tmp_path / "far" / "points" / point.name
        one, other = OpLog.load(point / "ops.npz"), OpLog.load(there / "ops.npz")
        for column in fields(OpLog):
            assert np.array_equal(getattr(one, column.name), getattr(other, column.name)), column.name
        assert (there / "log.txt").stat().st_size > 0
        completion = StoredRun(there).completion()
        assert completion is not None
        assert completion.worker.startswith("tls://127.0.0.1:")


def test_nothing_listens_while_a_command_runs_its_own_cluster(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(tomli_w.dumps(SCENARIO))
    command = [
        sys.executable,
        "-m",
        "gradwire",
        "run",
        str(path),
        "--executor",
        "dask",
        "--out",
        str(tmp_path / "out"),
        "--fresh",
    ]
    seen: set[str] = set()
    processes = 0
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None:
            seen |= reachable_sockets(running.pid)
            processes = max(processes, len(list(process_tree(running.pid))))
    assert running.returncode == 0
    assert processes > 2  # machines were seen, too
    assert seen == set()
