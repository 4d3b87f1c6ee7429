"""Binary input made by a fuzzer that sees which code it reaches: `python -m benchmarks.hostile.coverage READER
[--seconds N]`.

READER is one of header, packets, pcapng, chakra, goal-binary and rccl-replay. Where benchmarks/hostile/inputs.py damages sound
input at random, libFuzzer keeps what reached code that nothing had reached before, and continues from there. It needs atheris:
`pip install atheris` into the environment, on CPython 3.11 to 3.13. An exception other than a refusal ends the command,
with the input in a file `crash-*`.
"""

# ruff: noqa: PLC0415 (what the fuzzer is to look at has to be imported when it is ready)

from __future__ import annotations

import argparse
import importlib
import importlib.util
import logging
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from gradwire.faults import InputFault, InternalFault

INSTRUMENTED: Mapping[str, tuple[str, ...]] = {
    "header": ("gradwire.datatypes.wire.framing", "gradwire.network.wire.datagrams"),
    "packets": ("gradwire.network.wire.headers", "gradwire.network.wire.trail", "gradwire.datatypes.wire.framing"),
    "pcapng": ("gradwire.analysis.packets.capture_files",),
    "chakra": ("gradwire.workloads.traces.formats.chakra", "gradwire.workloads.traces.formats.chakra_messages"),
    "goal-binary": ("gradwire.workloads.traces.formats.goal_binary", "gradwire.workloads.traces.formats.goal_schedule"),
    "rccl-replay": (
        "gradwire.workloads.traces.formats.rccl_replay_binary",
        "gradwire.workloads.traces.formats.rccl_replay",
    ),
}
"""The modules whose code the fuzzer looks at, by what reads with them."""
SEEDS = 20
"""Sound inputs to begin with."""
MOST_BYTES = 8192
SECONDS_OF_ONE = 10


def header(data: bytes) -> object:
    """The header of a message, and what a receiver of datagrams reports."""
    from gradwire.datatypes.wire.framing import Framing, header_bytes_of, is_header
    from gradwire.network.wire import datagrams

    if is_header(data) and len(data) >= header_bytes_of(data):
        Framing(data[-1] + 1).unpack(data[: header_bytes_of(data)])
    return datagrams.Status.unpack(data)


def packets(data: bytes) -> object:
    """Frames of a captured port, each behind its length in two bytes."""
    from gradwire.network.wire.headers import read_segment
    from gradwire.network.wire.trail import Trails

    trails, at = Trails(has_notes=False), 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        frame = data[at + 2 : at + 2 + size]
        at += 2 + size
        segment = read_segment(frame)
        if segment is not None and segment.carries_messages:
            trails.take(at, segment, memoryview(frame)[segment.header_bytes :])
    return trails


def pcapng(data: bytes) -> object:
    """A capture."""
    from gradwire.analysis.packets.capture_files import read_capture

    return read_capture(_file(data, "hostile.pcapng"), 1500, address="10.0.0.1")


def trace(data: bytes) -> object:
    """A trace of any format."""
    from gradwire.workloads.traces.record import Reading
    from gradwire.workloads.traces.trace_import import import_traces

    return import_traces([_file(data, "rank0.trace")], "hostile", Reading(), lambda *_: None)


def _file(data: bytes, name: str) -> Path:
    path = Path(tempfile.gettempdir()) / name
    path.write_bytes(data)
    return path


def seeds(reader: str) -> list[bytes]:
    """Sound inputs of a reader."""
    from tests.hostile import captures, chakra_nodes
    from tests.hostile.inputs import sound_binary
    from tests.shared.captured_streams import FRAMING
    from tests.shared.captured_streams import header as sound_header

    if reader == "pcapng":
        return [captures.sound_pcapng()]
    if reader == "chakra":
        return [chakra_nodes.encoded(chakra_nodes.nodes(0, Random(number)), Random(number)) for number in range(SEEDS)]
    if reader in ("goal-binary", "rccl-replay"):
        return [sound_binary(reader)]
    if reader == "packets":
        frames = [bytes(one.data) for one in captures.PACKETS]
        return [b"".join(len(frame).to_bytes(2, "big") + frame for frame in frames[:6])]
    return [FRAMING.pack(sound_header(number, 1000 * number)) for number in range(SEEDS)]


READERS: Mapping[str, Callable[[bytes], object]] = {
    "header": header,
    "packets": packets,
    "pcapng": pcapng,
    "chakra": trace,
    "goal-binary": trace,
    "rccl-replay": trace,
}


def main() -> None:
    """Reads the arguments, and hands over to the fuzzer, which ends the process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reader", choices=list(READERS))
    parser.add_argument("--seconds", type=int, default=60)
    arguments = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        raise SystemExit(
            "atheris is not installed: run `pip install atheris` in this environment (it needs no compiler)"
        )
    atheris: Any = importlib.import_module("atheris")
    logging.disable()
    with atheris.instrument_imports(include=list(INSTRUMENTED[arguments.reader])):
        for module in INSTRUMENTED[arguments.reader]:
            importlib.import_module(module)
    read = READERS[arguments.reader]

    def one(data: bytes) -> None:
        with suppress(InputFault, InternalFault):  # refused, as it should be
            read(data)

    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as place:
        tempfile.tempdir = place
        for number, content in enumerate(seeds(arguments.reader)):
            (Path(corpus) / f"seed-{number}").write_bytes(content)
        limits = [f"-max_total_time={arguments.seconds}", f"-max_len={MOST_BYTES}", f"-timeout={SECONDS_OF_ONE}"]
        atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", corpus], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
