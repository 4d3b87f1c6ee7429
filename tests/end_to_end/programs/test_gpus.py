"""`gradwire exec --gpus`: RCCL, unmodified, on hosts without GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.programs.running import Executed, execute
from tests.shared.rccl import python_with_rccl
from tests.shared.snippets import ROOT

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

TABLE = str(ROOT / "examples" / "rccl_table.py")
HOSTS = ("--workers", "2", "--rate", "25gbit", "--launch", "torch")
PAYLOAD_GB_PER_S = 25e9 * 1448 / 1538 / 8 / 1e9
"""What TCP carries of the line, with an MTU of 1500."""
COUNT_DEVICES = 'import ctypes; n = ctypes.c_int(); ctypes.CDLL("libamdhip64.so.5").hipGetDeviceCount(ctypes.byref(n)); print(n.value)'


def rows(done: Executed) -> list[list[str]]:
    return [line.split() for line in done.output("h1").splitlines() if not line.startswith("#")]


def test_each_host_finds_its_gpus(tmp_path: Path) -> None:
    done = execute(tmp_path, *HOSTS, "--gpus", "3", "--", "python3", "-c", COUNT_DEVICES)
    assert done.status == 0, done.err
    assert [done.output(host) for host in ("h1", "h2")] == ["3\n", "3\n"]
    assert done.summary()["invented"] == []
    assert not (tmp_path / "run" / "figures").exists()


@pytest.mark.rccl
def test_rccl_fills_the_line_and_repeats(tmp_path: Path) -> None:
    words = (*HOSTS, "--gpus", "1", "--", *python_with_rccl(), TABLE, "all-reduce,broadcast", "--sizes", "8MiB")
    first, second = (execute(tmp_path / name, *words) for name in made(tmp_path, "first", "second"))
    assert (first.status, second.status) == (0, 0), first.err + second.err
    assert rows(first) == rows(second)
    for row in rows(first):
        assert 0.9 * PAYLOAD_GB_PER_S < float(row[7]) <= PAYLOAD_GB_PER_S
    (collectives,) = first.summary()["invented"]
    assert (collectives["call"], collectives["count"]) == ("collective", 2 * 2 * 7)


@pytest.mark.rccl
def test_results_are_right_with_data_on_two_gpus_of_each_host(tmp_path: Path) -> None:
    words = (*HOSTS, "--gpus", "2", "--gpu-data", "--", *python_with_rccl(), TABLE, "all", "--sizes", "2MiB", "--check")
    done = execute(tmp_path, *words, "--iterations", "1", "--warmup", "1")
    assert done.status == 0, done.err
    assert {row[-1] for row in rows(done)} == {"0"}
    assert done.summary()["invented"] == []


def made(folder: Path, *names: str) -> tuple[str, ...]:
    for name in names:
        (folder / name).mkdir()
    return names
