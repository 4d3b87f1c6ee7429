"""Real scripts, recorded: against real processes with Gloo, counted by torch.profiler, and against closed forms."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gradwire.programs.script_recording import RecordingRequest, record
from tests.shared.snippets import ROOT

pytestmark = pytest.mark.programs

PYTHON = sys.executable
SCRIPT = str(ROOT / "examples" / "llama.py")
RANKS = 4
SIZES = {"tiny": (4, 256, 8, 4, 688, 2048), "1b": (16, 2048, 32, 8, 8192, 128256)}
KINDS = {"c10d::allreduce_": "all-reduce", "c10d::_allgather_base_": "all-gather"}
KINDS["c10d::_reduce_scatter_base_"] = "reduce-scatter"
PROFILED = """
import os, runpy, sys
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.profiler import ProfilerActivity, profile
out, sys.argv = sys.argv[1], sys.argv[2:]
recording, steps = profile(activities=[ProfilerActivity.CPU], record_shapes=True), []
def after_step(*_):
    steps.append(1)
    if len(steps) == 3:
        recording.start()
    if len(steps) == 4:
        recording.stop()
        recording.export_chrome_trace(f"{out}/{os.environ['RANK']}.json")
register_optimizer_step_post_hook(after_step)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def recorded(folder: Path, world: int, *arguments: str) -> list[dict[str, Any]]:
    """The tasks of the iteration that is recorded of examples/llama.py."""
    request = RecordingRequest([PYTHON, SCRIPT, *arguments], [0], world, 8, 8, False, 300, folder)
    (path,) = record(request)
    tasks: list[dict[str, Any]] = json.loads(path.read_text())["tasks"]
    return tasks


def counted(tasks: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Calls and bytes by kind."""
    calls, size = Counter[str](), Counter[str]()
    for task in tasks:
        if task["kind"] != "compute":
            calls[task["kind"]] += 1
            size[task["kind"]] += task["bytes"]
    return {kind: (calls[kind], size[kind]) for kind in calls}


def tensors_of(size: str) -> tuple[list[int], list[int]]:
    """Parameters of a block, tensor by tensor, and of all that is outside of blocks: their first dimension, and the rest."""
    _, width, heads, key_heads, inner, vocabulary = SIZES[size]
    keys = width // heads * key_heads
    block = [(width, width), (keys, width), (keys, width), (width, width), (width, 1), (width, 1)]
    block += [(inner, width), (inner, width), (width, inner)]
    outside = [(vocabulary, width), (width, 1), (vocabulary, width)]
    return [first * rest for first, rest in block], [first * rest for first, rest in outside]


def padded(size: str, ranks: int) -> tuple[int, int]:
    """Elements of a block and of what is outside, each tensor's rows padded to a multiple of the ranks, as FSDP has
    them."""
    _, width, heads, key_heads, inner, vocabulary = SIZES[size]
    keys = width // heads * key_heads

    def rows(count: int) -> int:
        return math.ceil(count / ranks) * ranks

    matrices = (rows(width) + rows(keys)) * 2 * width + 2 * rows(inner) * width + rows(width) * inner
    return matrices + 2 * rows(width), 2 * rows(vocabulary) * width + rows(width)


def by_gloo(folder: Path, parallel: str) -> list[dict[str, tuple[int, int]]]:
    """What torch.profiler saw of each rank's third iteration among real processes."""
    (folder / "profiled.py").write_text(PROFILED)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    line = [PYTHON, str(folder / "profiled.py"), str(folder), SCRIPT, "--parallel", parallel, "--iterations", "4"]
    variables = [{**environment, "OMP_NUM_THREADS": "1", "RANK": str(rank)} for rank in range(RANKS)]
    processes = [subprocess.Popen(line, env=each, stdout=subprocess.DEVNULL) for each in variables]
    try:
        assert [process.wait(timeout=300) for process in processes] == [0] * RANKS
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [_counted_in(folder / f"{rank}.json") for rank in range(RANKS)]


def _counted_in(profile: Path) -> dict[str, tuple[int, int]]:
    calls, size = Counter[str](), Counter[str]()
    for event in json.loads(profile.read_text())["traceEvents"]:
        kind = KINDS.get(event.get("name", ""))
        if kind is not None:
            shapes = event["args"]["Input Dims"]
            put_in = shapes[0][0] if kind == "all-reduce" else shapes[1]
            calls[kind] += 1
            size[kind] += math.prod(put_in) * 4
    return {kind: (calls[kind], size[kind]) for kind in calls}


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_calls_and_bytes_are_those_of_real_processes(tmp_path: Path, parallel: str) -> None:
    own = counted(recorded(tmp_path, RANKS, "--parallel", parallel))
    assert own
    assert by_gloo(tmp_path, parallel) == [own] * RANKS


def test_ddp_reduces_all_parameters_once_at_any_size(tmp_path: Path) -> None:
    tasks = recorded(tmp_path, 1024, "--parallel", "ddp", "--size", "1b", "--tokens", "64")
    block, outside = tensors_of("1b")
    assert counted(tasks)["all-reduce"][1] == 4 * (SIZES["1b"][0] * sum(block) + sum(outside))
    assert all(task["kind"] in ("all-reduce", "compute") for task in tasks)


def test_fsdp_gathers_twice_and_scatters_once(tmp_path: Path) -> None:
    layers, ranks = SIZES["1b"][0], 1024
    own = counted(recorded(tmp_path, ranks, "--parallel", "fsdp", "--size", "1b", "--tokens", "64"))
    block, outside = padded("1b", ranks)
    assert own["all-gather"] == (2 * layers + 1, 4 * (2 * layers * block + outside) // ranks)
    assert own["reduce-scatter"] == (layers + 1, 4 * (layers * block + outside))


def test_flops_are_those_of_the_model(tmp_path: Path) -> None:
    """Each weight of a product is used once forward and twice backward, and attention by torch's own formula: two
    products forward, and five backward."""
    tokens = 128
    tasks = recorded(tmp_path, RANKS, "--parallel", "fsdp", "--tokens", str(tokens))
    layers, width, heads, key_heads, inner, vocabulary = SIZES["tiny"]
    keys = width // heads * key_heads
    weights = layers * (2 * width * width + 2 * keys * width + 3 * inner * width) + vocabulary * width
    attention = layers * 2 * tokens * tokens * width * (2 + 5)
    assert sum(task.get("flops", 0) for task in tasks) == 6 * weights * tokens + attention
