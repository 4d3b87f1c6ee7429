"""Captures ports of a lab, in a fork of the job, which has imported what that takes: a separate Python takes most of a
second."""

from __future__ import annotations

import os
import select
import selectors
import signal
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from gradwire.agents.capture.recorder import SETTLE_S, CaptureSettings, PortCapture, PortEntry
from gradwire.datatypes.records import CAPTURE_FOLDER
from gradwire.faults import MachineFault
from gradwire.topo.network import Network

LISTENING, ENDED = b"listening\n", b"ended\n"
END_S = 60.0
"""Virtual time to write what is left: a settling time, and nothing else takes any."""
WORD_BYTES = 4096


class PacketRecording:
    """A process that writes the packets of ports to the folder CAPTURE_FOLDER of the job's folder until `end`.

    names: as `Fabric.ports_named` takes them. Raises MachineFault if a port cannot be captured.
    """

    def __init__(self, network: Network, names: Sequence[str], folder: Path, snaplen_bytes: int) -> None:
        ports = network.fabric.ports_named(names)
        (folder / CAPTURE_FOLDER).mkdir(exist_ok=True)
        entries = tuple(
            PortEntry(
                network.interface(port),
                network.interface(port),
                network.namespace_of_port(port),
                network.fabric.rate_of(port),
                str(folder / CAPTURE_FOLDER / f"{network.interface(port)}.pcapng"),
            )
            for port in ports
        )
        hear, self._tell = os.pipe()
        self._answer, say = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            _become(CaptureSettings(entries, snaplen_bytes, workers=1), hear, say, (self._tell, self._answer))
        os.close(hear)
        os.close(say)
        self._expect(LISTENING)

    def end(self) -> None:
        """Has the files completed. Raises MachineFault if they are not."""
        if self._pid:
            os.close(self._tell)
            self._expect(ENDED)
            os.waitpid(self._pid, 0)
            os.close(self._answer)
            self._pid = 0

    def _expect(self, word: bytes) -> None:
        readable = select.select([self._answer], [], [], END_S)[0]
        said = os.read(self._answer, WORD_BYTES) if readable else b"it took too long"
        if said != word:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
            self._pid = 0
            last = said.decode(errors="replace").strip().splitlines() or ["it died"]
            raise MachineFault(f"the capture ended early: {last[-1]}")


def _become(settings: CaptureSettings, hear: int, say: int, others: Sequence[int]) -> None:
    """Never returns: a forked copy must not continue as its parent would."""
    try:
        for descriptor in others:
            os.close(descriptor)
        _record(settings, hear, say)
    except BaseException:  # noqa: BLE001 (whatever it is, the parent says it)
        os.write(say, traceback.format_exc()[-WORD_BYTES:].encode())
    finally:
        os._exit(0)


def _record(settings: CaptureSettings, hear: int, say: int) -> None:
    """Captures until `hear` is closed at its other end."""
    ports = [PortCapture(entry, settings) for entry in settings.ports]
    with selectors.DefaultSelector() as selector:
        for port in ports:
            selector.register(port.ring, selectors.EVENT_READ, port)
        selector.register(hear, selectors.EVENT_READ)
        os.write(say, LISTENING)
        has_ended = False
        while not has_ended:
            for key, _ in selector.select():
                if isinstance(key.data, PortCapture):
                    key.data.drain()
                else:
                    has_ended = True
    for port in ports:
        port.ring.stop()
    time.sleep(SETTLE_S)
    for port in ports:
        port.end()
    os.write(say, ENDED)
