"""Windows with shells of hosts: opens them, and passes data between each and the job in the kernel.

A window is one of tmux where gradwire runs in it, or else of xterm on a display. In it runs window_terminal.py, which
passes on its keys and shows the output, through a socket in a folder that only this user may enter.
"""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from gradwire.inside.typed_protocol import Keys, Open, Opening, Resized, Shut, TerminalSize, WindowCommand
from gradwire.typed_json import decoded
from gradwire.vm.streaming import Watch

CLIENT = Path(__file__).with_name("window_terminal.py")
NO_WINDOW = (
    "no window can be opened for {0}: start gradwire in tmux, where windows are tmux's, or with a display and xterm; or "
    "type {0} bash, which reads what you type until exit"
)
READ_BYTES = 65536
LINE_BYTES = 1 << 20
OPEN_LIMIT_S = 10.0
SHOW_LIMIT_S = 10.0
"""For so long a window's program may leave unread what its shell has written. Everything waits meanwhile, so that
a slow terminal slows a command that writes much, and loses nothing."""
MOST_WINDOWS = 64
NAME_CHARACTERS = 64
"""A window's title shows no more of them."""


class WindowMessage(msgspec.Struct, frozen=True):
    """A line of window_terminal.py: its kind, and keys or a size."""

    window: int = 0
    kind: str = ""
    rows: int = 0
    columns: int = 0
    data: bytes = b""


class WindowLauncher(NamedTuple):
    """A command that opens a window."""

    argv: list[str]
    #: Whether the command ends at once, and says in its output where the window is.
    tells_place: bool


def way_to_open(name: str, client: list[str], environment: Mapping[str, str]) -> WindowLauncher | None:
    """Command with which this machine opens a window for a node and runs a command in it; None if it cannot."""
    path = environment.get("PATH")
    # tmux first: whoever types sits there, and DISPLAY may be of a connection that has ended.
    if environment.get("TMUX") and (tmux := shutil.which("tmux", path=path)):
        # -d: the prompt keeps the keyboard. tmux may run what follows a # in a name.
        shown = ["-n", name.replace("#", "?"), "-P", "-F", "tmux window #{window_index}"]
        return WindowLauncher([tmux, "new-window", "-d", *shown, shlex.join(client)], tells_place=True)
    if environment.get("DISPLAY") and (xterm := shutil.which("xterm", path=path)):
        return WindowLauncher([xterm, "-T", f"Node: {name}", "-e", *client], tells_place=False)
    return None


class _Connection:
    """A window that has opened."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.rest = b""
        self.window = 0


class CommandWindows:
    """All windows of a command.

    folder: where their socket lies. send: passes on what is done at one. environment: the caller's.
    """

    def __init__(self, folder: Path, send: Callable[[WindowCommand], None], environment: Mapping[str, str]) -> None:
        self._path, self._send, self._environment = folder / "windows", send, environment
        self._selector = selectors.DefaultSelector()
        self._listening: socket.socket | None = None
        self._numbers = count(1)
        #: The numbers of those that were wanted and have not ended.
        self._wanted: set[int] = set()
        self._connections: dict[int, _Connection] = {}
        #: Programs that show a window each, by descriptors that are readable when one has ended.
        self._openers: dict[int, subprocess.Popen[bytes]] = {}

    def __bool__(self) -> bool:
        """Returns whether any window is open or is being opened."""
        return bool(self._wanted)

    @property
    def watch(self) -> Watch:
        """Descriptor that is readable when a window or another watched descriptor has something to handle, and the
        function that handles it."""
        return Watch(self._selector.fileno(), self.serve)

    def serve(self, wait_s: float | None = 0) -> None:
        """Handles everything that has arrived; waits up to `wait_s` seconds for it, None without a limit."""
        for key, _ in self._selector.select(wait_s):
            key.data()

    def also(self, fd: int, act: Callable[[], None]) -> None:
        """Watches something else, until `no_more`."""
        self._selector.register(fd, selectors.EVENT_READ, act)

    def no_more(self, fd: int) -> None:
        """Ends an `also`."""
        with suppress(KeyError):
            self._selector.unregister(fd)

    def open(self, name: str) -> Opening:
        """Opens a window for a node, and says where, or why it cannot. name: may be anything, as a script's."""
        if not name.isprintable() or len(name) > NAME_CHARACTERS:
            return Opening(-1, f"no window can be opened: names have up to {NAME_CHARACTERS} printable characters")
        if len(self._wanted) >= MOST_WINDOWS:
            return Opening(-1, f"no window can be opened for {name}: {MOST_WINDOWS} are open; close some of them")
        number = next(self._numbers)
        way = way_to_open(name, [sys.executable, str(CLIENT), str(self._path), str(number)], self._environment)
        if way is None:
            return Opening(-1, NO_WINDOW.format(name))
        self._listen()
        try:
            said = self._placed(way) if way.tells_place else self._started(way, number, name)
        except (OSError, subprocess.SubprocessError) as error:
            trouble = (getattr(error, "stderr", None) or str(error)).strip()
            return Opening(-1, f"no window can be opened for {name}: {Path(way.argv[0]).name}: {trouble}")
        self._wanted.add(number)
        return Opening(number, f"{name}: {said}")

    def show(self, number: int, data: bytes) -> None:
        """Shows output of a shell in its window. A window whose program does not read it is given up."""
        if connection := self._connections.get(number):
            try:
                connection.socket.sendall(data)
            except OSError:
                self._gone(connection)

    def end(self, number: int) -> None:
        """Closes a window whose shell has ended."""
        self._wanted.discard(number)
        if connection := self._connections.pop(number, None):
            self._close(connection)

    def close(self) -> None:
        """Closes all windows."""
        for number in list(self._connections):
            self.end(number)
        for pidfd, opener in self._openers.items():
            opener.poll()
            os.close(pidfd)
        self._openers.clear()
        if self._listening is not None:
            self._listening.close()
        self._selector.close()

    def _placed(self, way: WindowLauncher) -> str:
        """Opens a window with a command that ends at once, and returns the place that it prints. Raises OSError or
        SubprocessError."""
        done = subprocess.run(
            way.argv, env=dict(self._environment), capture_output=True, text=True, check=True, timeout=OPEN_LIMIT_S
        )
        return done.stdout.strip()

    def _started(self, way: WindowLauncher, number: int, name: str) -> str:
        """Opens a window with a program that runs for as long as the window is open, and returns its name. Raises
        OSError."""
        opener = subprocess.Popen(
            way.argv, env=dict(self._environment), stdin=subprocess.DEVNULL, start_new_session=True
        )
        pidfd = os.pidfd_open(opener.pid)

        def ended() -> None:
            self.no_more(pidfd)
            os.close(pidfd)
            status = self._openers.pop(pidfd).wait()
            if number in self._wanted and number not in self._connections:
                self.end(number)
                print(f"\rno window for {name}: {Path(way.argv[0]).name} ended with {status}\r", file=sys.stderr)

        self._openers[pidfd] = opener
        self.also(pidfd, ended)
        return "a window"

    def _listen(self) -> None:
        if self._listening is None:
            self._listening = socket.socket(socket.AF_UNIX)
            folder = os.open(self._path.parent, os.O_PATH | os.O_CLOEXEC)
            try:
                self._listening.bind(
                    f"/proc/self/fd/{folder}/{self._path.name}"
                )  # the path itself may be too long for one
            finally:
                os.close(folder)
            self._listening.listen()
            self.also(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        assert self._listening is not None
        connected, _ = self._listening.accept()
        connected.settimeout(SHOW_LIMIT_S)
        connection = _Connection(connected)
        self.also(connected.fileno(), lambda: self._take(connection))

    def _take(self, connection: _Connection) -> None:
        try:
            data = connection.socket.recv(READ_BYTES)
        except OSError:
            data = b""
        *lines, connection.rest = (connection.rest + data).split(b"\n")
        if not data or len(connection.rest) > LINE_BYTES:
            self._gone(connection)
            return
        for line in lines:
            try:
                self._heed(connection, decoded(line, WindowMessage))
            except ValueError:
                self._gone(connection)
                return

    def _heed(self, connection: _Connection, said: WindowMessage) -> None:
        size = TerminalSize(said.rows, said.columns)
        if connection.window:
            self._send(Keys(connection.window, said.data) if said.data else Resized(connection.window, size))
        elif said.window in self._wanted and said.window not in self._connections:
            connection.window = said.window
            self._connections[said.window] = connection
            self._send(Open(said.window, size, said.kind))

    def _gone(self, connection: _Connection) -> None:
        self._close(connection)
        if self._connections.get(connection.window) is connection:
            del self._connections[connection.window]
            self._wanted.discard(connection.window)
            self._send(Shut(connection.window))

    def _close(self, connection: _Connection) -> None:
        self.no_more(connection.socket.fileno())
        with suppress(OSError):  # the other side has closed it
            connection.socket.shutdown(socket.SHUT_RDWR)  # a copy of this process that reads a line may have it as well
        connection.socket.close()
