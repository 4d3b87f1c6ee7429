"""Asks a class of Mininet's Topo for its network: in another process (scenario/definitions/topo_classes.py), for a limited time."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from gradwire import PACKAGE
from gradwire.child_process import signal_name
from gradwire.faults import InputFault
from gradwire.regular_files import MESSAGE_BYTES
from gradwire.scenario.definitions import topo_classes
from gradwire.typed_json import decoded

LONGEST_WAIT_S = 60.0
"""On the wall clock; twice what the process may take of the processor's time."""
CHUNK_BYTES = 1 << 20


class TopologyReply(msgspec.Struct, forbid_unknown_fields=True):
    """The network of a class, or the number of its nodes."""

    hosts: list[str] = []
    switches: list[str] = []
    parameters: dict[str, dict[str, Any]] = {}
    #: Two nodes and the options of their link.
    links: list[tuple[str, str, dict[str, Any]]] = []
    nodes: int | None = None


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """The message that the process writes, or the user's code in its place."""

    said: TopologyReply | None = None
    fault: str | None = None


def topo_said(path: Path, name: str | None, most_nodes: int) -> TopologyReply:
    """Network of the class of that name in a file, or of its only Topo; or only the number of its nodes, if it is larger than
    `most_nodes`.

    Output of its code is discarded. Raises InputFault if the file cannot be run, or if its code raises, does not end or
    returns too much.
    """
    search = os.pathsep.join(filter(None, (str(PACKAGE.parent), os.environ.get("PYTHONPATH", ""))))
    hear, tell = os.pipe()
    try:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", topo_classes.__name__, str(path), name or "", str(most_nodes), str(tell)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": search},
            pass_fds=(tell,),
            start_new_session=True,
        )
    except BaseException:
        os.close(hear)
        raise
    finally:
        os.close(tell)
    try:
        text = _heard(hear, path)
    finally:
        os.close(hear)
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # with what its code started
        status = child.wait()
    return _answer(path, text, status)


def _heard(descriptor: int, path: Path) -> bytes:
    """Reads everything that the process writes until it has closed the pipe. Raises InputFault if it takes too long or
    is too much."""
    ends_s = time.monotonic() + LONGEST_WAIT_S
    heard = bytearray()
    says_more = select.poll()
    says_more.register(descriptor, select.POLLIN)
    while True:
        if not says_more.poll(max(0.0, ends_s - time.monotonic()) * 1000):
            raise InputFault(f"{path}: did not end within {LONGEST_WAIT_S:g} s; a Topo only says what the network is")
        chunk = os.read(descriptor, CHUNK_BYTES)
        if not chunk:
            return bytes(heard)
        heard += chunk
        if len(heard) > MESSAGE_BYTES:
            raise InputFault(f"{path}: says more than the {MESSAGE_BYTES:,} bytes that a network may have")


def _answer(path: Path, text: bytes, status: int) -> TopologyReply:
    try:
        answer = decoded(text, Answer)
    except ValueError as error:
        raise InputFault(f"{path}: {_ending(status)} before it had said what the network is") from error
    if answer.said is None:
        raise InputFault(answer.fault or f"{path}: {_ending(status)} and said nothing of its network")
    return answer.said


def _ending(status: int) -> str:
    if status == -signal.SIGXCPU:
        return f"took more than {topo_classes.MOST_CPU_S} s of the processor's time"
    return f"was killed by {signal_name(-status)}" if status < 0 else f"ended the process with status {status}"
