"""Pythons that have imported modules, in the sandbox, and programs that are forked from them.

Eight programs that each import torch read, relocate and initialise the same 200 MB eight times. Here one process does
it, before the first program starts, and each program begins as its fork, which has all of that as shared memory.

Such a process is no more than a program: it is in the sandbox, on a host without a network, and has programs' rights.
It may not enter a host. So each fork is handed the host's namespaces, opened by this process, which may; and the kernel
lets whoever has such a descriptor enter (vm/patches/6.12/handed-namespaces.patch).
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from gradwire.faults import InputFault, MachineFault
from gradwire.inside import warm_interpreter
from gradwire.inside.host import Host
from gradwire.inside.program_protocol import Program, Runs, WarmPython
from gradwire.inside.sandbox import Sandbox
from gradwire.inside.traffic_classes import members_file
from gradwire.inside.warm_interpreter import answer, received

HOST_OF_IMPORTS = "imports"
"""The name of the host without a network."""
UNKNOWN_END = "a program has ended it, or the kernel did for want of memory"
FILE = str(Path(warm_interpreter.__file__).resolve())
_PID = re.compile(r"^Pid:\t(\d+)$", re.MULTILINE)

Key = tuple[tuple[str, ...], tuple[str, ...], Runs, str]


class Reply(msgspec.Struct, frozen=True):
    """The answer of a Python with warm imports to a request to fork."""

    #: Why it did not do what it was asked to.
    refused: str | None = None
    #: Of the fork, in its own namespace.
    pid: Annotated[int, msgspec.Meta(gt=0, lt=1 << 22)] | None = None
    #: A fork's exit status, or -n after signal n.
    returncode: Annotated[int, msgspec.Meta(ge=-64, le=255)] | None = None


@dataclass(frozen=True)
class Forked:
    """A program that was forked; as much of subprocess.Popen as whoever follows programs needs."""

    #: In the namespace of this process.
    pid: int
    _inner_pid: int
    _parent: _Interpreter

    def wait(self) -> int:
        """Its exit status, or -n after signal n. For one that has ended."""
        status = self._parent.ask({"wait": self._inner_pid}).returncode
        if status is None:
            raise self._parent.nonsense("no status")
        return status


class Interpreters:
    """The Pythons that programs are forked from, one for each way to begin: interpreter, modules, and where it looks
    for them."""

    def __init__(self, programs: Sequence[Program], folder: str, hosts: Sequence[Host], sandbox: Sandbox) -> None:
        """Starts those that programs need, and has them import. Raises InputFault for modules that cannot be."""
        self._hosts = hosts
        self._all: dict[Key, _Interpreter] = {}
        self._host: Host | None = None
        try:
            for program in programs:
                if program.warm is not None and _key(program.warm) not in self._all:
                    self._host = self._host or Host(HOST_OF_IMPORTS, None, sandbox)
                    same = [each.env for each in programs if each.warm and _key(each.warm) == _key(program.warm)]
                    started = _Interpreter(program.warm, _common(same), folder, self._host, sandbox)
                    self._all[_key(program.warm)] = started
                    started.import_modules(program.warm)
        except BaseException:
            self.end()
            raise

    def fork(self, program: Program, warm: WarmPython, host: int, folder: str, outputs: tuple[int, int]) -> Forked:
        """Forks a program onto a host. outputs: its ends of two pipes. Raises MachineFault where it cannot begin."""
        return self._all[_key(warm)].fork(program, warm, self._hosts[host], folder, outputs)

    def end(self) -> None:
        """Ends them. Their forks must have ended."""
        for interpreter in self._all.values():
            interpreter.end()
        self._all = {}
        if self._host is not None:
            self._host.end()
            self._host = None


@contextmanager
def interpreters(
    programs: Sequence[Program], folder: str, hosts: Sequence[Host], sandbox: Sandbox
) -> Iterator[Interpreters]:
    """Those that programs need, during the block."""
    made = Interpreters(programs, folder, hosts, sandbox)
    try:
        yield made
    finally:
        made.end()


class _Interpreter:
    """One of them, and this process's end of the conversation with it."""

    def __init__(self, warm: WarmPython, env: Mapping[str, str], folder: str, host: Host, sandbox: Sandbox) -> None:
        self._name = warm.interpreter[0]
        self._distrusted: InputFault | None = None
        self._told, theirs = socket.socketpair()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `end`)
        with theirs, tempfile.TemporaryFile() as out:
            try:
                with sandbox.births():
                    self._process = subprocess.Popen(
                        [*warm.interpreter, FILE, str(theirs.fileno())],
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=self._errors,
                        env={**env, "TMPDIR": str(host.temporary)},
                        pass_fds=[theirs.fileno()],
                        start_new_session=True,
                        preexec_fn=_entering(host, folder),  # noqa: PLW1509 (this process has one thread)
                    )
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                self._told.close()
                self._errors.close()
                raise InputFault(f"{self._name}: cannot be started: {error}") from error

    def import_modules(self, warm: WarmPython) -> None:
        """Raises InputFault if one of them cannot be imported."""
        said = self.ask({"imports": list(warm.imports), "runs": str(warm.runs), "what": warm.what})
        if said.refused is not None:
            raise InputFault(f"warm_imports: {self._name} cannot import {said.refused}")

    def fork(self, program: Program, warm: WarmPython, host: Host, folder: str, outputs: tuple[int, int]) -> Forked:
        """See Interpreters."""
        group = [] if program.traffic_class is None else [os.open(members_file(program.traffic_class), os.O_WRONLY)]
        namespaces = host.opened()
        request = {
            "runs": str(warm.runs),
            "what": warm.what,
            "arguments": list(warm.arguments),
            "environment": dict(program.env),
            "folder": folder,
            "has_group": bool(group),
        }
        try:
            said, descriptors = self._asked(request, (*outputs, *namespaces, *group))
        finally:
            for descriptor in (*namespaces, *group):
                os.close(descriptor)
        try:
            if said.refused is not None:
                raise MachineFault(f"{self._name} on {host.name}: cannot be forked: {said.refused}")
            pid = self._child_of(descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if pid is None or said.pid is None:
            raise self.nonsense("no process that it forked")
        return Forked(pid, said.pid, self)

    def _child_of(self, descriptors: Sequence[int]) -> int | None:
        """The id of its child that a descriptor stands for, in the namespace of this process; None if it is something
        else: modules may do as they like in there."""
        if len(descriptors) != 1:
            return None
        seen = _PID.search(Path(f"/proc/self/fdinfo/{descriptors[0]}").read_text())
        if seen is None:
            return None
        _, parent, *_ = Path(f"/proc/{seen[1]}/stat").read_text().rpartition(")")[2].split()
        return int(seen[1]) if int(parent) == self._process.pid else None

    def nonsense(self, said: str) -> InputFault:
        """The fault for an answer that the file which answers never gives."""
        self._distrusted = InputFault(
            f"warm_imports: {self._name} answers {said}: one of its modules has changed how programs begin; leave that "
            "module out"
        )
        return self._distrusted

    def ask(self, request: dict[str, Any]) -> Reply:
        """Its answer. Raises MachineFault if it is gone, and InputFault if its modules answer in its place."""
        return self._asked(request, ())[0]

    def _asked(self, request: dict[str, Any], descriptors: tuple[int, ...]) -> tuple[Reply, list[int]]:
        if self._distrusted is not None:  # it is asked again while programs are ended
            raise self._distrusted
        with suppress(ConnectionError):
            answer(self._told, request, descriptors)
            try:
                said, came = received(self._told)
                if said is not None:
                    return msgspec.convert(said, Reply), came
            except (ValueError, RecursionError, MemoryError, msgspec.MsgspecError) as error:
                raise self.nonsense(f"what is no answer ({error})") from error
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").splitlines()
        raise MachineFault(
            f"{self._name}, which imports modules for all hosts, has ended: {lines[-1] if lines else UNKNOWN_END}"
        )

    def end(self) -> None:
        """Ends it at once."""
        self._told.close()
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()


def _entering(host: Host, folder: str) -> Callable[[], None]:
    return lambda: host.enter(folder)


def _key(warm: WarmPython) -> Key:
    """Returns the key that programs share which can be forked from the same interpreter. Where modules are looked for
    goes by the script's folder."""
    where = str(Path(warm.what).resolve().parent) if warm.runs is Runs.SCRIPT else ""
    return warm.interpreter, warm.imports, warm.runs, where


def _common(environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The variables that have the same value in all environments."""
    first, *others = environments
    return {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}
