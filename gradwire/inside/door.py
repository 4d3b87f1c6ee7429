"""How a program on a host starts programs on another, which it may not enter by itself: it asks a process outside the
sandbox.

Whoever asks has the same rights on all hosts, and what is started has no others: it is a program like those that the
job starts, in the sandbox, and in the traffic class of the one that asked. It is ended when that one goes away.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

import msgspec

from gradwire.faults import shortened
from gradwire.inside import enter_host
from gradwire.inside.host import Host
from gradwire.inside.namespaces import end_held
from gradwire.inside.program_protocol import ENTER_HOST, FOLDER
from gradwire.inside.sandbox import Sandbox
from gradwire.inside.traffic_classes import class_of, join_class
from gradwire.typed_json import decoded

DOOR = FOLDER / "door"
SHELL = "/bin/sh"
STREAMS = 3
REQUEST_BYTES = 1 << 22
"""More than an environment and arguments may take, which are 2 MiB (ARG_MAX), as JSON."""
CREDENTIALS = struct.Struct("3i")
"""SO_PEERCRED: process, user and group (unix(7))."""
WAITING = 128
"""Of launchers that ask at once, as many as may wait."""


class CommandRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program's request to run a command on another host, as enter_host.py writes it."""

    host: str
    #: For the shell.
    command: str
    #: A path in the host's own files.
    folder: str
    env: dict[str, str]


@contextmanager
def door(hosts: Sequence[Host], sandbox: Sandbox) -> Iterator[None]:
    """Lets programs start programs on hosts during the block, by the command ENTER_HOST."""
    words = [sys.executable, "-IS", str(Path(enter_host.__file__).resolve()), str(DOOR)]
    ENTER_HOST.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    ENTER_HOST.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(DOOR))
        listening.listen(WAITING)
        keeper = os.fork()
        if keeper == 0:
            try:
                _keep_open({listening.fileno(), *sandbox.descriptors()})
                _keep(listening, {host.name: host for host in hosts}, sandbox)
            finally:
                os._exit(1)  # a forked copy must not go on as its parent would
    try:
        yield
    finally:
        end_held(keeper)
        DOOR.unlink()


def _keep_open(descriptors: Collection[int]) -> None:
    """Closes all but these and the standard streams. What programs ask for is a path, which can name a descriptor of
    whoever goes there (/proc/self/fd): those of the job lead to its folders, out of the sandbox."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (the last of them is this listing's own)
        if int(name) >= STREAMS and int(name) not in descriptors:
            with suppress(OSError):
                os.close(int(name))


def _keep(listening: socket.socket, hosts: Mapping[str, Host], sandbox: Sandbox) -> NoReturn:
    """Gives each that asks a separate process, which ends with what it started."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those processes
    while True:
        asked, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = _answered(asked, hosts, sandbox)
            with suppress(OSError):  # whoever asked is gone
                asked.sendall(str(status).encode())
            os._exit(0)
        asked.close()


def _answered(asked: socket.socket, hosts: Mapping[str, Host], sandbox: Sandbox) -> int:
    """Starts what is asked for, and returns its exit status. Its launcher's streams are its own."""
    streams: list[int] = []
    try:
        _, streams, _, _ = socket.recv_fds(asked, 1, STREAMS)
        request = decoded(asked.makefile("rb").readline(REQUEST_BYTES), CommandRequest)
        host = hosts[request.host]
        with sandbox.births():
            program = subprocess.Popen(
                [SHELL, "-c", request.command],
                stdin=streams[0],
                stdout=streams[1],
                stderr=streams[2],
                env={**request.env, "GRADWIRE_HOST": host.name, "TMPDIR": str(host.temporary)},
                start_new_session=True,
                preexec_fn=_entering(host, request.folder, _class_of(asked)),  # noqa: PLW1509 (one thread)
            )
    except (LookupError, ValueError, OSError, subprocess.SubprocessError) as error:
        with suppress(IndexError, OSError):  # it may have closed that stream, or not have sent it
            os.write(streams[2], shortened(f"enter-host: cannot start this: {error}\n").encode(errors="replace"))
        return enter_host.NOBODY_ANSWERS
    for descriptor in streams:
        os.close(descriptor)
    return _status(program, asked)


def _status(program: subprocess.Popen[bytes], asked: socket.socket) -> int:
    """The exit status of a program, which is ended if whoever asked for it goes away."""
    watched = select.poll()
    ended = os.pidfd_open(program.pid)
    watched.register(ended, select.POLLIN)
    watched.register(asked, select.POLLIN)
    if ended not in dict(watched.poll()):
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGTERM)
    returncode = program.wait()
    return 128 - returncode if returncode < 0 else returncode


def _entering(host: Host, folder: str, traffic_class: int | None) -> Callable[[], None]:
    def become() -> None:
        join_class(traffic_class)
        host.enter(folder)

    return become


def _class_of(asked: socket.socket) -> int | None:
    """The traffic class of the process that asks."""
    credentials = asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    pid, _, _ = CREDENTIALS.unpack(credentials)
    return class_of(pid)
