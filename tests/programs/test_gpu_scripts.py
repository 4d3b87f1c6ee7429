"""Scripts of PyTorch for GPUs that are not there: a process by itself, ranks with RCCL between them, and hosts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gradwire.gpus.choice import SHARED_VARIABLE, GpuChoice, variables
from gradwire.gpus.device_use import device_uses
from gradwire.gpus.hip_devices import DEVICES
from gradwire.gpus.invented_calls import invented_calls
from gradwire.gpus.stand_ins import stand_ins_folder
from tests.end_to_end.programs.running import execute
from tests.shared.rccl import python_with_rccl
from tests.shared.snippets import ROOT
from tests.unit.gpus.test_rccl import free_port

pytestmark = pytest.mark.programs

DEVICE = DEVICES["mi210"]
HERE = Path(__file__).parent
LINE_MB_PER_S = 25e9 * 1448 / 1538 / 8 / 1e6
GRADIENTS_MB = 4 * 2048 * 2048 * 4 / 1e6
"""Of the example with four layers of 2,048 times 2,048."""
HIDDEN = 0.95
"""Of computing and the line together, an iteration takes at most this: DDP hides most of a backward pass."""


def run(ranks: int, words: list[str], tmp_path: Path, *, computes: bool, memory_bytes: int = 1 << 30) -> list[str]:
    """What each rank prints. Raises if one fails."""
    choice = GpuChoice(1, DEVICE, computes, stand_ins_folder())
    shared = {
        **os.environ,
        **variables(choice, {"PYTHONPATH": str(ROOT)}, tmp_path / "calls"),
        "GRADWIRE_GPU_MEMORY_BYTES": str(memory_bytes),
        SHARED_VARIABLE: str(tmp_path),
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": str(ranks),
        "LOCAL_RANK": "0",
    }
    running = [started(words, {**shared, "RANK": str(rank), "NCCL_HOSTID": f"host{rank}"}) for rank in range(ranks)]
    ended = [process.communicate(timeout=600) for process in running]
    assert [process.returncode for process in running] == [0] * ranks, ended
    return [out for out, _ in ended]


def started(words: list[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    # PYTHONPATH is one of the first words of the command, and here it begins with the folder that presents the device.
    command = python_with_rccl()
    packages = command[1].removeprefix("PYTHONPATH=")
    path = {"PYTHONPATH": f"{environment['PYTHONPATH']}:{packages}"}
    return subprocess.Popen(
        command[2:] + words, env={**environment, **path}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


ALONE = """
import torch
assert torch.cuda.is_available() and torch.cuda.device_count() == 1
x = torch.ones(512, 1024).cuda()
print(x.device, x.is_cuda, (x + 1).device, torch.ones(2).device, x.cpu().device, x.cpu().numpy().sum())
weight = torch.ones(1024, 2048, device="cuda", dtype=torch.float16)
half = x.half()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record(); half @ weight; end.record(); torch.cuda.synchronize()
print(begin.elapsed_time(end))
before = torch.cuda.memory_allocated()
y = torch.empty(1 << 20, device="cuda"); print(torch.cuda.memory_allocated() - before); del y
print(torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before)
for call in (x.numpy, lambda: torch.empty(1 << 29, device="cuda"), lambda: torch.compile(x), torch.cuda.CUDAGraph, lambda: x.to("cuda:1")):
    try:
        call()
    except Exception as error:
        print(type(error).__name__)
"""


def test_a_process_finds_a_device_with_its_times_its_memory_and_its_refusals(tmp_path: Path) -> None:
    (out,) = run(1, ["-c", ALONE], tmp_path, computes=True)
    lines = out.splitlines()
    assert lines[0] == "cuda:0 True cuda:0 cpu cpu 524288.0"
    product_s = 2 * 512 * 1024 * 2048 / DEVICE.half_flops_per_s
    assert float(lines[1]) >= product_s * 1e3  # on the machine's clock, the host's time is in it
    assert lines[2:4] == [str(4 << 20), f"0 {4 << 20}"]
    assert lines[4:] == ["TypeError", "OutOfMemoryError", "NotImplementedError", "NotImplementedError", "RuntimeError"]
    (use,) = device_uses({"h1": tmp_path / "calls"})
    assert use.flops == 2 * 512 * 1024 * 2048
    assert use.operations["aten.mm"] == pytest.approx(product_s * 1e9, rel=1e-3)
    assert invented_calls([tmp_path / "calls"]) == ()


def test_without_data_large_products_are_zero_and_counted_and_take_their_time(tmp_path: Path) -> None:
    script = 'import torch; x = torch.ones(512, 512, device="cuda"); y = x @ x; print(y.sum().item(), (x[:8, :8] @ x[:8, :8]).sum().item())'
    assert run(1, ["-c", script], tmp_path, computes=False) == ["0.0 512.0\n"]
    (counted,) = invented_calls([tmp_path / "calls"])
    assert (counted.call, counted.count, counted.size_bytes) == ("kernel", 1, 1 << 20)
    (use,) = device_uses({"h1": tmp_path / "calls"})
    assert use.operations["aten.mm"] >= 2 * 512**3 / DEVICE.single_flops_per_s * 1e9


@pytest.mark.rccl
@pytest.mark.parametrize("ranks", [2, 3])
def test_all_collectives_are_right(tmp_path: Path, ranks: int) -> None:
    for out in run(ranks, [str(HERE / "gpu_collectives.py")], tmp_path, computes=True):
        told = out.splitlines()
        assert len(told) >= 20
        assert [line for line in told if not line.endswith(" right")] == []


@pytest.mark.rccl
@pytest.mark.parametrize("way", ["ddp", "fsdp", "tensor"])
def test_divided_training_ends_as_training_of_one_process_does(tmp_path: Path, way: str) -> None:
    """Also with autocast, GradScaler, checkpoints and clipping, which the script has."""
    losses = [out.split() for out in run(2, [str(HERE / "gpu_training.py"), way], tmp_path, computes=True)]
    (alone,) = (out.split() for out in run(1, [str(HERE / "gpu_training.py"), "alone"], tmp_path, computes=True))
    assert len(alone) >= 3
    for one in losses:
        assert [float(value) for value in one] == pytest.approx([float(value) for value in alone], rel=1e-4)


@pytest.mark.rccl
@pytest.mark.kernel
@pytest.mark.usefixtures("virtual_kernel")
def test_a_ddp_script_on_two_hosts_fills_the_line_while_it_computes(tmp_path: Path) -> None:
    packages, *python = python_with_rccl()[1:]
    words = ("--workers", "2", "--rate", "25gbit", "--launch", "torch", "--gpus", "1", "--memory", "6G")
    script = (str(ROOT / "examples" / "ddp_on_gpus.py"), "--layers", "4")
    path = f"{packages.partition('=')[2]}"
    line = ["sh", "-c", f'PYTHONPATH=$PYTHONPATH:{path} exec "$0" "$@"', *python, *script]
    done = execute(tmp_path, *words, "--", *line)
    assert done.status == 0, done.err
    told = done.output("h1").splitlines()
    alone_ms = float(told[0].split()[-2])
    last_ms = float(told[-2].split()[2])
    on_line_ms = GRADIENTS_MB / LINE_MB_PER_S * 1e3
    assert max(alone_ms, on_line_ms) < last_ms < HIDDEN * (alone_ms + on_line_ms)
    uses = done.summary()["device_use"]
    assert [use["place"] for use in uses] == ["h1", "h2"]
    assert uses[0]["flops"] == uses[1]["flops"] > 0
