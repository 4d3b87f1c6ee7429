"""A log of nccl-tests: what it says of its machines, and which change of them explains its times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.runs.ccl import row_of
from gradwire.runs.ccl_log import compare, explain, kind_of_log, known_version, parse_log, read_log
from gradwire.runs.ccl_machines import CclOptions, TestedCall, set_up
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.grouped import GroupedCall
from tests.shared.ccl_given import USUAL
from tests.shared.parts import in_order

ALL_REDUCE = Collective.ALL_REDUCE
DEFAULT = replace(USUAL, nic="400gbit")
SIZES = (8, 1 << 20, 1 << 26, 1 << 30)


def head(gpu: str, machines: int = 2, gpus: int = 8) -> str:
    lines = [
        f"#  Rank {number:>2} Group  0 Pid  {7000 + number} on  node-{number // gpus} device {number % gpus:>2} [0000:1b:00] {gpu}"
        for number in range(machines * gpus)
    ]
    return "\n".join(
        [*lines, "NCCL version 2.21.5+cuda12.4", "#  size  count  type  redop  root  time  algbw  busbw #wrong"]
    )


def as_log(given: CclOptions, kind: TestedCall = ALL_REDUCE, before: str = "", sizes: tuple[int, ...] = SIZES) -> str:
    """A log that the model itself would write of some machines."""
    comm, wires, _ = set_up(given)
    lines = []
    for size in sizes:
        row = row_of(comm, wires, kind, size, 4)
        alg, bus = row.algorithm_bytes_per_s / 1e9, row.bus_bytes_per_s / 1e9
        half = f"{row.time_s * 1e6:9.2f} {alg:7.2f} {bus:7.2f}      0"
        lines.append(f"{before}{size:>12} {size // 4:>12}     float     sum      -1  {half}  {half}")
    return "\n".join(lines)


def test_a_log_says_what_its_machines_are() -> None:
    nics = " ".join(f"[{number}]mlx5_{number}:1/RoCE" for number in range(8))
    text = (
        f"{head('NVIDIA H100 80GB HBM3')}\nnode-0:7:7 [0] NCCL INFO NET/IB : Using {nics} [RO]; OOB eth0:10.0.0.1<0>\n"
    )
    found = parse_log(text + as_log(DEFAULT, before="[1,0]<stdout>: "), "log")
    assert (found.machines, found.gpus, found.gpu, found.version) == (2, 8, "h100", "2.21")
    assert (found.nics, found.transport) == (8, "rdma")
    assert [row.size_bytes for row in found.rows] == list(SIZES)
    assert found.rows[-1].factor == pytest.approx(1.875, rel=0.001)
    given = found.options(replace(DEFAULT, machines=5, gpu="a100"), frozenset({"machines"}))
    assert (given.machines, given.gpu, given.version) == (5, "h100", "2.21")


@pytest.mark.parametrize(
    ("text", "gpu"),
    [
        ("NVIDIA GB200", "gb200"),
        ("A100-SXM4-40GB", "a100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("Tesla V100-SXM2", "v100"),
    ],
)
def test_gpus_are_known_by_their_products_names(text: str, gpu: str) -> None:
    assert parse_log(head(text) + "\n" + as_log(DEFAULT), "log").gpu == gpu


def test_an_unknown_gpu_is_asked_for() -> None:
    found = parse_log(head("AMD Instinct MI355X") + "\n" + as_log(DEFAULT), "log")
    with pytest.raises(InputFault, match=in_order("MI355X", "--gpu")):
        found.options(DEFAULT, frozenset())
    assert found.options(DEFAULT, frozenset({"gpu"})).gpu == "h100"


def test_the_collective_follows_from_the_ratio_of_bandwidths() -> None:
    gathered = parse_log(as_log(DEFAULT, Collective.ALL_GATHER, sizes=SIZES[1:]), "log")
    assert kind_of_log(gathered, 16, ALL_REDUCE, is_given=False) is Collective.ALL_GATHER
    with pytest.raises(InputFault, match=in_order("0.937", "1.875", "all-reduce", "--gpus")):
        kind_of_log(gathered, 16, ALL_REDUCE, is_given=True)
    with pytest.raises(InputFault, match="32"):
        kind_of_log(parse_log(as_log(DEFAULT), "log"), 32, ALL_REDUCE, is_given=True)


@pytest.mark.parametrize(
    ("program", "kind", "columns"),
    [
        ("alltoall", GroupedCall.ALL_TO_ALL, "none      -1"),
        # As nccl-tests of 2021 print it, and hypercubes today.
        ("alltoall", GroupedCall.ALL_TO_ALL, ""),
        ("hypercube", GroupedCall.HYPERCUBE, "         -1"),
        ("sendrecv", GroupedCall.SEND_RECV, "sum      -1"),
        ("gather", GroupedCall.GATHER, "none       0"),
        ("scatter", GroupedCall.SCATTER, "none       0"),
    ],
)
def test_logs_of_sends_and_receives_are_read(program: str, kind: GroupedCall, columns: str) -> None:
    comm, wires, _ = set_up(DEFAULT)
    row = row_of(comm, wires, kind, 1 << 30, 4)
    alg, bus = row.algorithm_bytes_per_s / 1e9, row.bus_bytes_per_s / 1e9
    half = f"{row.time_s * 1e6:9.0f} {alg:7.2f} {bus:7.2f}"
    text = f"# Collective test starting: {program}_perf\n{1 << 30} {1 << 26} float {columns} {half} 0 {half} N/A\n"
    found = parse_log(text, "log")
    assert kind_of_log(found, 16, ALL_REDUCE, is_given=False) is kind
    assert [one.ratio for one in compare(found.rows, DEFAULT, kind)] == [pytest.approx(1, rel=0.001)]


CAUSES = [
    (replace(DEFAULT, nics=4), "--nics 4"),
    (replace(DEFAULT, nics=1), "--nics 1"),
    (replace(DEFAULT, transport="tcp"), "--transport tcp"),
    (replace(DEFAULT, latency="40us"), "--latency 40us"),
    (replace(DEFAULT, links=0), "--nvlink 0"),
]


@pytest.mark.parametrize(("real", "option"), CAUSES, ids=[option for _, option in CAUSES])
def test_the_limit_that_slowed_a_log_is_found(real: CclOptions, option: str) -> None:
    rows = parse_log(as_log(real), "log").rows
    compared = compare(rows, DEFAULT, ALL_REDUCE)
    assert not all(one.is_expected for one in compared)
    why = explain(rows, DEFAULT, ALL_REDUCE, compared)
    assert why is not None
    assert why.option == option


def test_the_limit_that_slowed_an_all_to_all_is_found() -> None:
    kind = GroupedCall.ALL_TO_ALL
    rows = parse_log(as_log(replace(DEFAULT, nics=4), kind, sizes=SIZES[1:]), "log").rows
    why = explain(rows, DEFAULT, kind, compare(rows, DEFAULT, kind))
    assert why is not None
    assert why.option == "--nics 4"


def test_what_is_as_expected_needs_no_cause_and_what_nothing_explains_gets_none() -> None:
    rows = parse_log(as_log(DEFAULT), "log").rows
    assert all(one.is_expected for one in compare(rows, DEFAULT, ALL_REDUCE))
    slow = [replace(row, time_s=1000 * row.time_s) for row in rows]
    assert explain(slow, DEFAULT, ALL_REDUCE, compare(slow, DEFAULT, ALL_REDUCE)) is None


def test_a_version_that_is_not_known_is_the_nearest() -> None:
    for version, taken in (("2.21", "2.21"), ("2.14", "2.18"), ("2.99", "2.30")):
        found = parse_log(f"NCCL version {version}.5+cuda12.4\n" + as_log(DEFAULT), "log")
        assert known_version(found) == taken


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_text("nothing\n")
    with pytest.raises(InputFault, match="no rows"):
        read_log(file)
    with pytest.raises(InputFault, match="No such file"):
        read_log(tmp_path / "other")
    with pytest.raises(InputFault, match="several tables"):
        parse_log(as_log(DEFAULT) + "\n" + as_log(DEFAULT), "log")


def test_a_log_of_mi300x_is_beside_rccls_model() -> None:
    ranks = "\n".join(
        f"#  Rank  {rank} Group  0 Pid   7085 on node1 device  {rank} [0000:{rank}5:00] AMD Instinct MI300X"
        for rank in range(8)
    )
    rows = "536870912     134217728     float     sum      -1    3027.1  177.35  310.37      0\n"
    rows += "8589934592    2147483648     float     sum      -1    95000  90.42  158.24      0\n"
    found = parse_log(f"RCCL version : 2.22.3-HEAD:7d8d67c\n{ranks}\n{rows}", "test")
    given = found.options(DEFAULT, frozenset())
    assert (given.gpu, given.machines, given.gpus, given.version) == ("mi300x", 1, 8, None)
    compared = compare(found.rows, given, Collective.ALL_REDUCE)
    assert [one.is_expected for one in compared] == [True, False]
    assert explain(found.rows, given, Collective.ALL_REDUCE, compared) is None
