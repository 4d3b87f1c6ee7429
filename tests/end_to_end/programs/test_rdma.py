"""RDMA programs on hosts with software devices: rates and latencies beside those of RoCEv2's headers, and packets on the wire."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from scapy.contrib.roce import BTH
from scapy.utils import PcapNgReader

from benchmarks import rdma_programs
from gradwire.network.roce import least_latency_s, payload_share
from tests.end_to_end.programs.running import ENVIRONMENT, GRADWIRE, Executed, execute

MIB = 1 << 20
PERFTEST_BYTES = 65536
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.usefixtures("virtual_kernel"),
]
INCAST = """
title = "Two hosts write to a third"
[cluster]
workers = 3
[fabric]
rate = "25gbit"
mtu_bytes = 4200
gso = "4214B"
rdma = "rxe"
lossless = { buffer = "1MB", xoff = "30KB" }
[program.server]
command = "ib_write_bw -F -n 20 -p 18000 & ib_write_bw -F -n 20 -p 18001 & wait"
hosts = ["h1"]
[program.client]
command = "ib_write_bw -F -n 20 -p 1800$GRADWIRE_INDEX h1"
hosts = ["h2", "h3"]
start = "20ms"
"""
ON_BOTH = "test $GRADWIRE_HOST = h1 && exec {command}; sleep 0.1; exec {command} h1"


def measure(folder: Path, command: str, *words: str, device: str = "rxe") -> Executed:
    """Runs one of perftest's programs between h1 and h2 at 25 Gbit/s."""
    folder.mkdir(exist_ok=True)
    size = ("--workers", "2", "--rate", "25gbit", "--rdma", device, *words)
    done = execute(folder, *size, "--", "sh", "-c", ON_BOTH.format(command=command))
    assert done.status == 0, done.out + done.err
    return done


def row(done: Executed, host: str = "h2") -> list[float]:
    """The numbers of perftest's table, which has one line."""
    lines = [line for line in done.output(host).splitlines() if re.fullmatch(r"[\s\d.]+", line) and line.strip()]
    return [float(word) for word in lines[-1].split()]


def test_each_host_has_one_device_of_its_own(tmp_path: Path) -> None:
    done = execute(tmp_path, "--workers", "2", "--rate", "10gbit", "--rdma", "rxe", "--", "ibv_devices")
    assert done.status == 0, done.err
    devices = [re.findall(r"(\w+)\s+([0-9a-f]{16})", done.output(host)) for host in ("h1", "h2")]
    assert [[name for name, _ in found] for found in devices] == [["rxe0"], ["rxe0"]]
    assert devices[0] != devices[1]


def test_writes_reach_the_rate_of_the_line_and_runs_repeat(tmp_path: Path) -> None:
    runs = [measure(tmp_path / name, "ib_write_bw -F -n 100", "--capture", "h2") for name in ("one", "two")]
    _, _, _, average_mib_s, _ = row(runs[0])
    ideal = 25e9 / 8 * payload_share(PERFTEST_BYTES, 1500) / MIB
    assert average_mib_s == pytest.approx(ideal, rel=0.005)
    assert runs[0].output("h2") == runs[1].output("h2")
    durations = [run.summary()["report"]["duration_s"] for run in runs]
    assert durations[0] == durations[1]
    with PcapNgReader(str(runs[0].folder / "capture" / "h2-eth0.pcapng")) as packets:
        assert any(BTH in packet for packet in packets), "no packet of RoCEv2 was captured"


@pytest.mark.parametrize("program", ["ib_send_lat", "ib_write_lat"])
def test_latencies_are_those_of_two_links(tmp_path: Path, program: str) -> None:
    """perftest's typical latency; a process that reads the clock lets 16 ns pass."""
    typical_us = row(measure(tmp_path, f"{program} -F -n 50 -s 4096"))[4]
    ideal_s = least_latency_s(4096, 1500, [25e9, 25e9], is_write=program == "ib_write_lat")
    assert ideal_s * 1e6 - 0.01 <= typical_us <= ideal_s * 1e6 + 0.08


@pytest.mark.long
def test_programs_over_ucx_run_and_repeat() -> None:
    assert (
        rdma_programs.main(["ucx_perftest tag_lat, 8 B", "Open MPI, 1 MiB one after the other", "--rates", "25gbit"])
        == 0
    )


def test_pauses_hold_rdma_back(tmp_path: Path) -> None:
    """Two hosts write to a third."""
    (tmp_path / "incast.toml").write_text(INCAST)
    command = [*GRADWIRE, "run", "incast.toml", "--out", "run"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "valid" in done.stdout
    assert re.search(r"paused \d+ times.*h2 out by s1-eth2, class 0", " ".join(done.stdout.split()))


def test_iwarp_carries_all_that_was_written(tmp_path: Path) -> None:
    """siw says that a write is done once TCP has taken it, so perftest's rate of a short run is not that of the line."""
    done = measure(tmp_path, "ib_write_bw -R -F -n 100", device="siw")
    (sent,) = [line for line in done.counts().lines if line.port == "h2-eth0"]
    assert sent.size_bytes > 100 * PERFTEST_BYTES
