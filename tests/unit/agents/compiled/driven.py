"""The compiled agent built for tests, and its interpreter as one may drive the one in Python."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from gradwire.agents.compiled.compiled_replay import CompiledReplay
from gradwire.agents.compiled.library import load
from gradwire.agents.compiled.structures import Told
from gradwire.agents.interpreter import Outgoing
from gradwire.datatypes.plan import Contributions, Plan
from gradwire.datatypes.records import OpLog
from gradwire.vm.kernel_source import AGENT, AGENT_FLAGS, agent_sources

SHIM = Path(__file__).with_name("driven.c")
TRAPS = ("-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-Wall", "-Wextra", "-Wconversion", "-Werror")
"""What C does not define ends the test's process, and nothing may give the compiler cause to warn."""
Long, Pointer = ctypes.c_int64, ctypes.c_void_p


def build(folder: Path) -> ctypes.CDLL:
    """The agent with the shim, whose lists of calls are carried out here."""
    target = folder / "agent.so"
    code = [*(str(path) for path in agent_sources() if path.suffix == ".c"), str(SHIM)]
    command = ["gcc", *AGENT_FLAGS, *TRAPS, f"-I{AGENT}", "-Wl,--wrap=carry_out", "-o", str(target), *code]
    subprocess.run(command, check=True)
    library = load(target)
    assert library is not None
    for name, kinds in {
        "drive_begin": [Pointer, Long],
        "drive_advance": [Pointer, Long],
        "drive_sent": [Pointer, ctypes.c_int32, ctypes.c_int32, Long, Long, Long],
        "drive_arrived": [Pointer, Long, ctypes.c_int32, Long, Pointer, Long, Long],
        "drive_next_timer_ns": [Pointer],
        "drive_outbox": [Pointer, ctypes.c_long, Pointer, Pointer],
    }.items():
        getattr(library, name).argtypes = kinds
    library.drive_next_timer_ns.restype = Long
    return library


class DrivenInterpreter:
    """The compiled agent's interpreter, with what a Simulation asks of one."""

    def __init__(self, library: ctypes.CDLL, plan: Plan, ranks: set[int], iterations: int) -> None:
        self._library, self._plan, self.iterations = library, plan, iterations
        self._compiled = CompiledReplay(library, plan, ranks, iterations)
        self._compiled.connect([], {}, {}, {}, {})
        self._words = (len(plan.workers) + 63) // 64
        self._graph = self._compiled._graph
        self._replay = library.open_replay(ctypes.byref(self._compiled._given))

    def close(self) -> None:
        self._library.close_replay(self._replay)
        self._compiled.close()

    def start(self, now_ns: int) -> None:
        self._library.drive_begin(self._replay, now_ns)

    def advance(self, now_ns: int) -> None:
        self._library.drive_advance(self._replay, now_ns)

    def sent(self, iteration: int, op: int, start_ns: int, now_ns: int, on_line_ns: int = 0) -> None:
        self._library.drive_sent(self._replay, iteration, op, start_ns, now_ns, on_line_ns)

    def arrived(
        self,
        message: int,
        rank: int,
        iteration: int,
        carried: Contributions,
        start_ns: int,
        now_ns: int,
    ) -> None:
        workers = (ctypes.c_uint64 * self._words).from_buffer_copy(carried.workers.to_bytes(8 * self._words, "little"))
        self._library.drive_arrived(self._replay, message, iteration, carried.iteration, workers, start_ns, now_ns)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self.told.failure:
            self._compiled._raise(self.told)

    def next_timer_ns(self) -> int | None:
        at_ns = int(self._library.drive_next_timer_ns(self._replay))
        return None if at_ns < 0 else at_ns

    def take_outbox(self) -> list[Outgoing]:
        message, workers = (Long * 3)(), (ctypes.c_uint64 * self._words)()
        outbox: list[Outgoing] = []
        while self._library.drive_outbox(self._replay, len(outbox), message, workers):
            iteration, op, of = message
            outbox.append(Outgoing(iteration, op, Contributions(of, int.from_bytes(bytes(workers), "little"))))
        return outbox

    @property
    def told(self) -> Told:
        told: Told = self._library.told_by(self._replay).contents
        return told

    @property
    def iterations_done(self) -> int:
        return int(self.told.iterations_done)

    @property
    def finished(self) -> bool:
        return self.iterations_done == self.iterations or not self._graph.own_ops

    def freeze(self) -> OpLog:
        self._compiled._told = self.told
        return self._compiled.log

    @property
    def log(self) -> DrivenInterpreter:
        return self

    @property
    def lateness_ns(self) -> list[int]:
        self._compiled._told = self.told
        return [int(late_ns) for late_ns in self._compiled.lateness_ns]
