"""`gradwire ccl`, as the command line has it: its options, and the table that it prints."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gradwire.runs.ccl import ExpectedBusbw, Row
    from gradwire.runs.ccl_machines import CclOptions
    from gradwire.runs.ccl_packets import PacketResult

Kind = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTIVE",
        help="all-reduce, all-gather, reduce-scatter, broadcast, reduce, all-to-all, send-recv, gather, scatter or hypercube",
        show_default=False,
    ),
]
Machines = Annotated[int, typer.Option(help="machines, all alike")]
Gpus = Annotated[int, typer.Option(help="GPUs of a machine, all of which take part")]
GpuName = Annotated[
    str,
    typer.Option(
        "--gpu", help="v100, a100, h100, h200, h800, b200, gb200, l40s and others; mi300x for one machine of 8"
    ),
]
Nic = Annotated[str, typer.Option(help="line rate of a NIC, e.g. 200gbit")]
Nics = Annotated[int, typer.Option(help="NICs of a machine")]
TransportName = Annotated[
    str, typer.Option("--transport", help="tcp (sockets), rdma (InfiniBand or RoCE) or efa; all with GPUDirect but tcp")
]
PluginRelease = Annotated[
    str | None,
    typer.Option(
        "--plugin",
        help="release of EFA's plugin aws-ofi-nccl, 1.13, 1.15, 1.16 or 1.17; default: the one that supports the version of NCCL",
    ),
]
NvLink = Annotated[int | None, typer.Option(help="NVLink links of a GPU, 0 for none; default: the GPU's")]
NvSwitch = Annotated[bool, typer.Option(help="whether GPUs are joined by NVSwitch, which NVLS needs")]
Amd = Annotated[bool, typer.Option("--amd", help="machines have AMD's processors, not Intel's")]
Sizes = Annotated[str, typer.Option(help="8..16GiB doubles from the first to the last; also 1MiB,64MiB")]
TypeName = Annotated[str, typer.Option("--dtype", help="float, double, half, bfloat16, int32 or int8")]
Version = Annotated[
    str | None, typer.Option("--nccl", help="version of NCCL, 2.18 to 2.30; default: 2.22, and 2.27 for Blackwell")
]
Variables = Annotated[
    list[str] | None, typer.Option("--env", help="a variable of NCCL, e.g. NCCL_ALGO=Ring; may be given again")
]
Latency = Annotated[
    str | None,
    typer.Option(
        help="time that hosts take for a message, e.g. 20us, on top of NCCL's table; by tcp, half of a round trip of "
        "netperf's TCP_RR, with --delay 0us; default: the transport's"
    ),
]
Delay = Annotated[str, typer.Option(help="delay of the network, one way")]
MachineRate = Annotated[
    str | None, typer.Option(help="what a machine carries each way at most, e.g. 12GB/s, whatever its NICs do")
]
BurstCost = Annotated[
    str | None,
    typer.Option(
        help="time that a host takes for each burst of up to 64 KiB, e.g. 5us, one after the other; default: the transport's"
    ),
]
Mtu = Annotated[
    int | None,
    typer.Option(min=576, max=9216, help="bytes; headers are those of TCP; default: 4096 by rdma, 9000 by tcp and efa"),
]
Expect = Annotated[
    list[str] | None,
    typer.Option(help="busbw that a size must reach, and by how much it may be lower: 1GiB=350GB/s:5%; else status 1"),
]
WithPackets = Annotated[
    bool, typer.Option("--packets", help="also send small calls as packets in the machine, next to the estimate")
]
Log = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="a log of nccl-tests: its rows beside what the model expects of its machines, and which limit explains the difference",
    ),
]
TopologyFile = Annotated[
    Path | None,
    typer.Option(
        "--topology",
        metavar="FILE",
        help="the machine's GPUs, NVLinks, slots and NICs as NCCL_TOPO_DUMP_FILE writes them and NCCL_TOPO_FILE reads them",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON and nothing else")]
Csv = Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="also write the rows to this file")]
HEAD = (
    f"{'size':>14} {'count':>14} {'type':>8} {'redop':>6} {'time':>12} {'algbw':>8} {'busbw':>8}  "
    f"{'algorithm':<9} {'protocol':<8} {'channels':>8} {'chunk':>9}\n"
    f"{'(B)':>14} {'(elements)':>14} {'':>8} {'':>6} {'(us)':>12} {'(GB/s)':>8} {'(GB/s)':>8}  "
    f"{'':<9} {'':<8} {'':>8} {'(B)':>9}"
)


def add_to(app: typer.Typer) -> None:
    """Adds the command."""

    @app.command()
    def ccl(
        context: typer.Context,
        kind: Kind = "all-reduce",
        machines: Machines = 2,
        gpus: Gpus = 8,
        gpu: GpuName = "h100",
        nic: Nic = "400gbit",
        nics: Nics = 8,
        transport: TransportName = "rdma",
        plugin: PluginRelease = None,
        nvlink: NvLink = None,
        nvswitch: NvSwitch = True,
        amd: Amd = False,
        sizes: Sizes = "8..16GiB",
        dtype: TypeName = "float",
        nccl: Version = None,
        variables: Variables = None,
        latency: Latency = None,
        delay: Delay = "0us",
        machine_rate: MachineRate = None,
        burst_cost: BurstCost = None,
        mtu: Mtu = None,
        expect: Expect = None,
        packets: WithPackets = False,
        log: Log = None,
        topology: TopologyFile = None,
        as_json: AsJson = False,
        csv_file: Csv = None,
    ) -> None:
        """Prints nccl-tests' table for a network, by estimate, with what NCCL chooses for each size."""
        from gradwire.cli.ccl_log_table import show_log
        from gradwire.runs.ccl import expectations_of, kind_of, sizes_of
        from gradwire.runs.ccl_calls import call_machines
        from gradwire.runs.ccl_machines import TYPES, CclOptions
        from gradwire.runs.ccl_topology import read_topology
        from gradwire.runs.launch.place import refuse_unusable_file, writing

        given = CclOptions(
            machines=machines,
            gpus=gpus,
            gpu=gpu,
            nic=nic,
            nics=nics,
            transport=transport,
            links=nvlink,
            nvswitch=nvswitch,
            amd=amd,
            dtype=dtype,
            version=nccl,
            variables=tuple(variables or ()),
            latency=latency,
            delay=delay,
            machine_rate=machine_rate,
            burst_cost=burst_cost,
            mtu_bytes=mtu,
            plugin=plugin,
        )
        written, machine = _written(context), read_topology(topology) if topology else None
        if machine:
            given, written = machine.options(given, written), written | machine.said()
        if log is not None:
            _refuse_beside_log(written)
            show_log(log, given, written, kind_of(kind), as_json=as_json)
            return
        collective, width = kind_of(kind), TYPES[dtype]
        tested = call_machines(given, collective)
        notes = [*tested.notes, *(machine.notes if machine else ())]
        wanted = expectations_of(expect or [])
        if csv_file:
            refuse_unusable_file(csv_file, "--csv")
        found = list(tested.rows(sizes_of(sizes), width))
        judged = [(one, tested.row(one.size_bytes, width)) for one in wanted]
        if csv_file:
            with writing(csv_file):
                _write_csv(csv_file, found, dtype)
        sent = _send(given, found, quiet=as_json) if packets else {}
        if as_json:
            document = {
                "notes": notes,
                "rows": [{**_record(row, dtype), **_sent(sent, row)} for row in found],
                "expected": [_expected(*pair) for pair in judged],
            }
            print(json.dumps(document, indent=1))
        else:
            _print(collective.value, found, dtype, notes, judged)
            _print_packets(found, sent)
        valid = all(one.verdict == "valid" for one in sent.values() if not one.verdict.startswith(NOT_RUN))
        if not valid or not all(one.holds(row) for one, row in judged):
            raise typer.Exit(1)


def _written(context: typer.Context) -> frozenset[str]:
    """The options that are on the command line, by their names in `CclOptions`."""
    names = {"nccl": "version", "nvlink": "links"}
    sources = {name: context.get_parameter_source(name) for name in context.params}
    written = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    return frozenset(names.get(name, name) for name in written)


OF_TABLE = {"sizes": "--sizes", "expect": "--expect", "packets": "--packets", "csv_file": "--csv"}
"""Options of the table without a log."""


def _refuse_beside_log(written: frozenset[str]) -> None:
    """Raises InputFault for options that do nothing where a log is given."""
    from gradwire.faults import InputFault

    if others := ", ".join(option for name, option in OF_TABLE.items() if name in written):
        raise InputFault(f"{others}: a log has its own rows; leave out {others}, or --log")


NOT_RUN = "not run: "


def _send(given: CclOptions, found: Sequence[Row], *, quiet: bool) -> dict[int, PacketResult]:
    """Runs the rows as packets. Returns the results by size; rows that are too large have the reason instead."""
    from rich.console import Console

    from gradwire.console.terminal_screen import TerminalScreen
    from gradwire.runs.ccl_machines import set_up
    from gradwire.runs.ccl_packets import PacketResult, alike, read_points, scenario_of, why_not
    from gradwire.runs.executing.executor_choice import Where
    from gradwire.runs.launch.scenario_run import carry_out, prepare
    from gradwire.scenario.scenario_files import read_scenario
    from gradwire.vm.machines import Clock

    reasons = {row.size_bytes: why_not(given, row) for row in found}
    sent = {size: PacketResult(None, NOT_RUN + why) for size, why in reasons.items() if why}
    small = [row for row in found if not reasons[row.size_bytes]]
    if not small:
        return sent
    _, wires, _ = set_up(given)
    with TemporaryDirectory() as folder:
        screen = TerminalScreen(Console(stderr=True, quiet=quiet), Console(stderr=True))
        for number, rows in enumerate(alike(small)):
            place = Path(folder) / f"run{number}"
            read = read_scenario(scenario_of(given, wires, rows), ())
            carry_out(prepare(read, Clock(), place, screen), Where(), "gradwire ccl --packets", screen)
            sent |= read_points(place, rows)
    return sent


def _sent(sent: Mapping[int, PacketResult], row: Row) -> dict[str, object]:
    if row.size_bytes not in sent:
        return {}
    one = sent[row.size_bytes]
    return {"packets_us": None if one.time_s is None else one.time_s * 1e6, "packets_verdict": one.verdict}


def _print_packets(found: Sequence[Row], sent: Mapping[int, PacketResult]) -> None:
    if not sent:
        return
    print("# as packets: three calls one after the other, of which the last two count")
    print(
        f"#{'size (B)':>13} {'estimate (us)':>14} {'packets (us)':>14} {'busbw (GB/s)':>13} {'packets/estimate':>17}  verdict"
    )
    for row in found:
        one = sent[row.size_bytes]
        if one.time_s is None:
            print(f"{row.size_bytes:>14} {row.time_s * 1e6:>14.2f} {'':>14} {'':>13} {'':>17}  {one.verdict}")
            continue
        busbw = row.bus_bytes_per_s * row.time_s / one.time_s / 1e9
        print(
            f"{row.size_bytes:>14} {row.time_s * 1e6:>14.2f} {one.time_s * 1e6:>14.2f} {busbw:>13.2f} "
            f"{one.time_s / row.time_s:>17.3f}  {one.verdict}"
        )


def _record(row: Row, dtype: str) -> dict[str, object]:
    return {
        "size_bytes": row.size_bytes,
        "count": row.count,
        "type": dtype,
        "redop": _redop(row),
        "time_us": row.time_s * 1e6,
        "algbw_gb_per_s": row.algorithm_bytes_per_s / 1e9,
        "busbw_gb_per_s": row.bus_bytes_per_s / 1e9,
        "algorithm": row.algorithm,
        "protocol": row.protocol,
        "channels": row.channels,
        "chunk_bytes": row.chunk_bytes,
        "by": row.by,
    }


def _redop(row: Row) -> str:
    """As nccl-tests print it, whose send/recv has an operation that it does not use."""
    return "sum" if "reduce" in row.kind.value or row.kind.value == "send-recv" else "none"


def _expected(one: ExpectedBusbw, row: Row) -> dict[str, object]:
    return {
        "expectation": one.text,
        "size_bytes": row.size_bytes,
        "busbw_gb_per_s": row.bus_bytes_per_s / 1e9,
        "bound_gb_per_s": one.bound_bytes_per_s / 1e9,
        "holds": one.holds(row),
    }


def _write_csv(path: Path, found: Sequence[Row], dtype: str) -> None:
    from gradwire.csv_files import write_records

    records = [_record(row, dtype) for row in found]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_records(path, records, list(records[0]) if records else ["size_bytes"])


def _known(number: int | None) -> str:
    return "" if number is None else str(number)


def _print(
    title: str, found: Sequence[Row], dtype: str, notes: Sequence[str], judged: Sequence[tuple[ExpectedBusbw, Row]]
) -> None:
    """The table, as nccl-tests have it: comments begin with a #."""
    print(f"# {title}, by estimate: a model, not a run")
    for note in notes:
        print(f"# {note}")
    print("\n".join(f"#{line[1:]}" for line in HEAD.splitlines()))
    for row in found:
        print(
            f"{row.size_bytes:>14} {row.count:>14} {dtype:>8} {_redop(row):>6} {row.time_s * 1e6:>12.2f} "
            f"{row.algorithm_bytes_per_s / 1e9:>8.2f} {row.bus_bytes_per_s / 1e9:>8.2f}  "
            f"{row.algorithm:<9} {row.protocol:<8} {_known(row.channels):>8} {_known(row.chunk_bytes):>9}"
        )
    for one, row in judged:
        line = (
            f"{one.text}: {row.bus_bytes_per_s / 1e9:.2f} GB/s, at least {one.bound_bytes_per_s / 1e9:.2f}: "
            f"{'holds' if one.holds(row) else 'DOES NOT HOLD'}"
        )
        print(f"# {line}", file=sys.stdout if one.holds(row) else sys.stderr)
