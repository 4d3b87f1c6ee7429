"""RCCL itself on the stand-ins, as processes of this machine: results are those of NumPy."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from gradwire.gpus.choice import SHARED_VARIABLE, GpuChoice, variables
from gradwire.gpus.hip_devices import DEVICES
from gradwire.gpus.stand_ins import stand_ins_folder
from tests.shared.rccl import python_with_rccl
from tests.shared.snippets import ROOT

pytestmark = pytest.mark.rccl

FEW = ("all-reduce,all-gather,all-to-all", "--sizes", "100KiB", "--warmup", "0", "--iterations", "1")
EVERY_TYPE = ("all-reduce,reduce,reduce-scatter", "--sizes", "50KiB", "--dtype", "all", "--op", "all", "--warmup", "0")
EVERY_COLLECTIVE = ("all", "--sizes", "3MiB", "--iterations", "2")
COLUMN_OF_WRONG = -1


def table(ranks: int, words: tuple[str, ...], tmp_path: Path, chosen: Mapping[str, str]) -> list[list[str]]:
    """The rows that rank 0 prints. Raises if a rank fails."""
    choice = GpuChoice(1, DEVICES["mi250x"], True, stand_ins_folder())
    shared = {
        **os.environ,
        **variables(choice, os.environ, tmp_path / "calls"),
        **chosen,
        SHARED_VARIABLE: str(tmp_path),
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
        "WORLD_SIZE": str(ranks),
        "MASTER_PORT": str(free_port()),
    }
    command = [*python_with_rccl(), str(ROOT / "examples" / "rccl_table.py"), *words, "--check"]
    running = [
        subprocess.Popen(
            command,
            env={**shared, "RANK": str(rank), "NCCL_HOSTID": f"host{rank}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    ended = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * ranks, ended
    return [line.split() for line in ended[0][0].splitlines() if not line.startswith("#")]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_a_few_collectives_of_two_ranks_are_right(tmp_path: Path) -> None:
    rows = table(2, FEW, tmp_path, {})
    assert [(row[0], row[COLUMN_OF_WRONG]) for row in rows] == [
        ("all-reduce", "0"),
        ("all-gather", "0"),
        ("all-to-all", "0"),
    ]


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["Simple", "LL", "LL128"])
@pytest.mark.parametrize("algorithm", ["Ring", "Tree"])
@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_all_types_operations_and_collectives_are_right(
    tmp_path: Path, ranks: int, algorithm: str, protocol: str
) -> None:
    chosen = {"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol}
    assert {row[COLUMN_OF_WRONG] for row in table(ranks, EVERY_TYPE, tmp_path, chosen)} == {"0"}
    assert {row[COLUMN_OF_WRONG] for row in table(ranks, EVERY_COLLECTIVE, tmp_path, chosen)} == {"0"}
