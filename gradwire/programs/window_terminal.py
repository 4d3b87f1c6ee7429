"""The program in a window of a host's shell: `window_terminal.py SOCKET NUMBER` sends the keys that are typed there to
the job, and shows the job's output. It is started by tmux or xterm, and imports nothing of gradwire."""

from __future__ import annotations

import base64
import json
import os
import selectors
import signal
import socket
import sys
import termios
import tty
from pathlib import Path

READ_BYTES = 4096


def _line(**words: object) -> bytes:
    return json.dumps(words).encode() + b"\n"


def _size() -> dict[str, int]:
    columns, rows = os.get_terminal_size(0)
    return {"rows": rows, "columns": columns}


def main() -> None:
    """Passes on keys and sizes until the other side ends."""
    path, number = sys.argv[1:]
    other = socket.socket(socket.AF_UNIX)
    folder = os.open(Path(path).parent, os.O_PATH)
    other.connect(f"/proc/self/fd/{folder}/{Path(path).name}")  # the path itself may be too long for a socket
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGWINCH, lambda *_: None)
    before = termios.tcgetattr(0)
    tty.setraw(0)
    try:
        other.sendall(_line(window=int(number), kind=os.environ.get("TERM", "dumb"), **_size()))
        _pass_on(other, woken)
    except OSError:  # the network is gone, or the window is
        pass
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _pass_on(other: socket.socket, woken: int) -> None:
    with selectors.DefaultSelector() as selector:
        for fd in (0, other.fileno(), woken):
            selector.register(fd, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                data = os.read(key.fd, READ_BYTES)
                if not data:
                    return
                if key.fd == 0:
                    other.sendall(_line(data=base64.b64encode(data).decode()))
                elif key.fd == woken:
                    other.sendall(_line(**_size()))
                else:
                    sys.stdout.buffer.write(data)
                    sys.stdout.flush()


if __name__ == "__main__":
    main()
