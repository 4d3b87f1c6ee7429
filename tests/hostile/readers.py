"""Hostile files and answers that no scenario names as its own: what commands take beside scenarios, what commands left earlier, and what
programs in the machine say."""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest import mock

import msgspec
import tomli_w

from gradwire.analysis.agreement.causes import Agreement
from gradwire.analysis.figure_frames import frame_of_figures
from gradwire.analysis.point_frames import write_frame
from gradwire.analysis.program_results import READERS as FIGURES
from gradwire.analysis.program_results import FigureRow
from gradwire.cache_files import kept
from gradwire.cli import running, stored_runs
from gradwire.cli.trace_import import TraceOptions
from gradwire.controller.dumped_flows import flows_in, groups_in
from gradwire.controller.followed_flows import SwitchFlows, follow
from gradwire.faults import InputFault, MachineFault
from gradwire.inside import door, forking
from gradwire.inside.program_protocol import (
    Event,
    Output,
    ProgramEnded,
    Ready,
    Refused,
    ScriptReport,
    event_of,
    line_of,
)
from gradwire.inside.warm_interpreter import LENGTH_BYTES
from gradwire.runs.stored.run_files import reading
from gradwire.scenario.definitions import network_files, topo_process
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.traces.trace_import import import_traces
from gradwire.workloads.traces.workload import FILE_NAME
from tests.hostile.changes import changed
from tests.hostile.limits import Outcome, outcome
from tests.hostile.named_files import BASE
from tests.hostile.stand_ins import put
from tests.unit.controller.test_followed_flows import FABRIC, LEAF, printed
from tests.unit.workloads.traces.small_traces import ddp_step

IPERF = {"sum_sent": {"seconds": 1.0, "bytes": 9, "bits_per_second": 72.0, "retransmits": 0}}
IPERF["sum_received"] = {**IPERF["sum_sent"], "lost_percent": 0.5, "jitter_ms": 0.01}
OSU = "# OSU MPI Latency Test\n# Size          Latency (us)\n0   1.20\n8  1.25\n65536  12.5\n"
EVENTS: tuple[Event, ...] = (
    Ready((12, 13)),
    Output(1, 2, b"said", "client"),
    ProgramEnded(0, 129, "server", 5),
    Refused("InputFault", "no"),
    ScriptReport(status=0, duration_s=1.5, killed_for_memory=0),
)
TOPO = {"hosts": ["h1", "h2"], "switches": ["s1"], "parameters": {"h1": {"ip": "10.0.0.1"}, "s1": {}}}
LINKS = [["h1", "s1", {"bw": 10, "delay": "1ms"}], ["h2", "s1", {"loss": 1, "max_queue_size": 100}]]
CLAIMS = 'scenario,claim,measured,verdict\r\nfig2,a,1.5,holds\r\nfig2,b,"2.0, or 3","\'=fails"\r\n'
ROWS = "workers,program,host,time_s,verdict\r\n2,client,h1,0.5,valid\r\n4,client,h2,,valid\r\n"


@dataclass(frozen=True)
class Reader:
    """A file, sound, and what reads it."""

    name: str
    sound: Callable[[], bytes]
    read: Callable[[Path], object]
    #: Whether something else than a file may lie there.
    is_path: bool = True


def _text(value: object) -> Callable[[], bytes]:
    content = value.encode() if isinstance(value, str) else json.dumps(value).encode()
    return lambda: content


def _kept(message: object) -> Reader:
    """A file of the cache."""
    kind = type(message)
    return Reader(f"{kind.__name__.lower()}.json", lambda: msgspec.json.encode(message), partial(kept, kind=kind))


def _groups(path: Path) -> None:
    trace = path.with_name("trace.json")
    if not trace.exists():
        ddp_step().write(trace)
    import_traces([trace], "hostile", TraceOptions(2, None, path, None, None).reading(), lambda *_: None)


@cache
def _workload() -> bytes:
    with TemporaryDirectory() as folder:
        paths = [ddp_step(rank).write(Path(folder) / f"{rank}.json") for rank in range(2)]
        import_traces(paths, "small", TraceOptions(None, None, None, None, None).reading(), lambda *_: None).write(
            Path(folder)
        )
        return (Path(folder) / FILE_NAME).read_bytes()


def _compile(path: Path, **tables: object) -> None:
    scenario = path.with_name("scenario.toml")
    scenario.write_text(tomli_w.dumps({**BASE, **tables}))
    for point in load_scenario(scenario).points:
        compile_point(point.section)


def _compile_trace(path: Path) -> None:
    _compile(path, model={"trace": path.name}, strategy={"name": "replay"})


def _of_topo(path: Path) -> None:
    """What a class of a Topo says, or whoever writes in its place."""
    content = path.read_bytes()
    path.with_suffix(".py").touch()

    def said(file: Path, *_: object) -> object:
        return topo_process._answer(file, content, len(content) % 5 - 2)

    with mock.patch.object(network_files, "topo_said", said):
        _compile(path, fabric={"rate": "10gbit", "file": f"{path.stem}.py:Campus"})


def _figures(kind: str) -> Callable[[Path], None]:
    def read(path: Path) -> None:
        rows = [FigureRow("client", "h1", row) for row in FIGURES[kind](path.read_text(errors="replace"))]
        frame = frame_of_figures([({"workers": "2", "time_s": "x"}, rows, "valid")])
        write_frame(path.with_name("figures.csv"), frame)
        running.as_json_of(frame, path.parent)

    return read


def _rows(path: Path) -> None:
    with reading(path):
        running.as_json_of(frame_of_figures([]), path.parent)


def _claims(path: Path) -> None:
    sound = path.with_name("sound")
    sound.mkdir(exist_ok=True)
    (sound / path.name).write_text(CLAIMS)
    stored_runs._claims(path.parent, sound)


def _flows(path: Path) -> None:
    text = path.read_text(errors="replace")
    switches = {name: SwitchFlows(tuple(flows_in(printed(ports))), {}) for name, ports in LEAF.items()}
    follow(FABRIC, {**switches, "s1": SwitchFlows(tuple(flows_in(text)), groups_in(text))})


def _events(path: Path) -> None:
    for line in path.read_text(errors="replace").splitlines():
        event_of(line)


def _door(path: Path) -> None:
    """A request of a program on a host, for a host that is not there."""
    asking, asked = socket.socketpair()
    with asking, asked, Path(os.devnull).open("wb") as file:
        socket.send_fds(asking, [b"x"], [file.fileno()] * 3)
        asking.sendall(path.read_bytes()[:100_000] + b"\n")
        asking.shutdown(socket.SHUT_WR)
        door._answered(asked, {}, mock.Mock())


def _reply(path: Path) -> None:
    """What a Python answers that imports a user's modules."""
    asking, answering = socket.socketpair()
    content = path.read_bytes()[:100_000]
    interpreter = object.__new__(forking._Interpreter)
    interpreter._name, interpreter._distrusted = "python3", None
    interpreter._told, interpreter._errors = asking, cast(Any, io.BytesIO(b"said"))
    with asking, answering:
        answering.sendall((len(content) - len(content) % 3 // 2).to_bytes(LENGTH_BYTES, "big") + content)
        answering.shutdown(socket.SHUT_WR)
        interpreter.ask({})


FLOWS = (
    "".join(printed(ports) for ports in LEAF.values())
    + " table=1, priority=5,tcp,in_port=1,nw_src=10.0.0.0/24,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,nw_tos=32,"
    "metadata=0x1/0xff actions=set_queue:1,write_metadata:0x2/0xff,goto_table:2,group:7\n"
    " group_id=7,type=ff,bucket=bucket_id:0,watch_port:1,actions=output:1,bucket=bucket_id:1,actions=output:2\n"
)
READERS = (
    Reader("groups.json", _text({"0": [0, 1], "5": [[0], [1]]}), _groups),
    Reader("workload.npz", _workload, _compile_trace),
    Reader("claims.csv", _text(CLAIMS), _claims),
    Reader("figures.csv", _text(ROWS), _rows),
    _kept(Agreement(sentence="it waits", jobs=(Agreement(),))),
    Reader("lines.jsonl", _text('{"size_bytes": 64, "time_s": 0.012}\n{"ok": true, "words": "x"}\n'), _figures("lines"), False),
    Reader("iperf3.json", _text({"end": IPERF}), _figures("iperf3"), False),
    Reader("osu.txt", _text(OSU), _figures("osu"), False),
    Reader("topo.json", _text({"said": {**TOPO, "links": LINKS}}), _of_topo, False),
    Reader("flows.txt", _text(FLOWS), _flows, False),
    Reader("events.jsonl", _text("\n".join(map(line_of, EVENTS))), _events, False),
    Reader("door.json", _text({"host": "h1", "command": "true", "folder": "/", "env": {"A": "b"}}), _door, False),
    Reader("reply.json", _text({"refused": None, "pid": 12, "returncode": -9}), _reply, False),
)  # fmt: skip


def tried(number: int, folder: Path) -> Outcome:
    """Reads the file of this number."""
    random = Random(f"reader/{number}")
    reader = READERS[number % len(READERS)]
    place = folder / Path(reader.name).stem
    place.mkdir(exist_ok=True)
    path = place / reader.name
    if path.exists() or path.is_symlink():
        put(path, Random(0))  # whatever lies there gives way
        path.unlink()
    content = reader.sound()
    for _ in range(random.choice((0, 1, 1, 1, 2))):
        content = changed(reader.name, content, random)
    path.write_bytes(content)
    if reader.is_path and random.random() < 0.05:
        put(path, random)
    return outcome(lambda: reader.read(path), (InputFault, MachineFault))
