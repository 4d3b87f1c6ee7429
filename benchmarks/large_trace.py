"""How long `gradwire import` takes for a large Kineto profile, and how much memory.

    .venv/bin/python benchmarks/large_trace.py [--gigabytes N] [--folder FOLDER]

The profile is made up: steps of DDP with the events that torch.profiler writes (operators with shapes and stacks,
calls of the runtime, kernels, arrows), in the proportions and the layout of a real one. It is written, imported in a
separate process, and removed.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

GIGABYTE = 10**9
KERNELS_OF_STEP = 1250
"""As in a step of ResNet-50."""
BUCKETS = 5
STEP_US = 220_000
SHAPES = "[[32, 256, 56, 56], [64, 256, 1, 1], [], [], [], [], [], [], []]"
KERNEL = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, at::detail::Array<char*, 3> >(int)"


def event(category: str, name: str, ts: float, dur: float, tid: int, **arguments: Any) -> dict[str, Any]:
    """An event of the Trace Event Format."""
    return {"ph": "X", "cat": category, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": arguments}


def step_events(step: int) -> Iterator[dict[str, Any]]:
    """The events of a step."""
    begin = 1e9 + step * STEP_US
    yield event("user_annotation", f"ProfilerStep#{step}", begin, STEP_US, 1)
    for kernel in range(KERNELS_OF_STEP):
        number = step * 2 * KERNELS_OF_STEP + kernel
        at = begin + kernel * STEP_US / KERNELS_OF_STEP / 1.1
        identity = {"External id": number, "Record function id": number, "Ev Idx": number}
        for operator in ("aten::convolution", "aten::_convolution", "aten::cudnn_convolution"):
            shaped = {
                "Input Dims": SHAPES,
                "Call stack": "torch/nn/modules/conv.py(456): _conv_forward; train.py(88): step",
            }
            yield event("cpu_op", operator, at, 9, 1, **identity, **shaped)
        yield event("cuda_runtime", "cudaLaunchKernel", at + 5, 2, 1, correlation=number, cbid=211)
        device = {"device": 0, "stream": 7, "grid": [512, 1, 1], "block": [512, 1, 1], "registers per thread": 40}
        yield event("kernel", KERNEL, at + 20, 41, 7, correlation=number, **device)
        yield {"ph": "s", "id": number, "pid": 1, "tid": 1, "ts": at, "cat": "ac2g", "name": "ac2g"}
        if kernel % (KERNELS_OF_STEP // BUCKETS) == KERNELS_OF_STEP // BUCKETS - 1:
            yield from bucket_events(at + 30, number + KERNELS_OF_STEP)
    for bucket in range(BUCKETS):
        wait = step * 2 * KERNELS_OF_STEP + KERNELS_OF_STEP + bucket
        yield event(
            "cuda_runtime", "cudaStreamWaitEvent", begin + STEP_US / 1.05 + bucket, 1, 2, correlation=wait, cbid=147
        )


def bucket_events(at: float, correlation: int) -> Iterator[dict[str, Any]]:
    """An all-reduce of 25 MB."""
    said = {
        "Collective name": "allreduce", "In msg nelems": 6_250_000, "Out msg nelems": 6_250_000, "dtype": "Float",
        "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", "Group size": 8,
    }  # fmt: skip
    yield event("cpu_op", "record_param_comms", at, 100, 2, **said)
    yield event("cuda_runtime", "cudaLaunchKernelExC", at + 50, 2, 2, correlation=correlation)
    yield event(
        "kernel",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)",
        at + 60,
        300,
        40,
        correlation=correlation,
        stream=40,
    )


def write_profile(file: TextIO, size_bytes: int) -> int:
    """Writes a profile of at least this size; returns the number of its steps."""
    group = {"pg_name": "0", "pg_size": 8, "ranks": list(range(8))}
    about = {"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 8, "pg_config": [group]}}
    file.write(json.dumps(about)[:-1] + ', "traceEvents": [\n')
    step, written = 0, 0
    while written < size_bytes:
        text = ",\n".join("  " + json.dumps(each, indent=2) for each in step_events(step))
        written += file.write((",\n" if step else "") + text)
        step += 1
    file.write('\n], "traceName": "made-up.json"}\n')
    return step


def main() -> None:
    """Writes, imports and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the file is written; default: a temporary folder"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder) / "large.json"
        with path.open("w") as file:
            steps = write_profile(file, round(options.gigabytes * GIGABYTE))
        print(f"{path.stat().st_size / GIGABYTE:.2f} GB, {steps} steps")
        begun_s = time.perf_counter()
        command = [sys.executable, "-m", "gradwire", "import", str(path), "--out", str(Path(folder) / "out")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        took_s = time.perf_counter() - begun_s
        peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        print(done.stdout + done.stderr)
        if done.returncode:
            raise SystemExit(f"the import ended with status {done.returncode}")
        if f" {steps * BUCKETS:,} " not in done.stdout:
            raise SystemExit(f"the import found another number of all-reduces than {steps * BUCKETS:,}")
        print(
            f"{took_s:.1f} s, {path.stat().st_size / took_s / 1e6:.0f} MB/s, {peak_bytes / GIGABYTE:.2f} GB of memory "
            "at most"
        )


if __name__ == "__main__":
    main()
