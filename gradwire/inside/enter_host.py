"""Runs a command on another host, as `ssh HOST COMMAND...` would: what an mpirun reaches the hosts with.

`enter_host.py DOOR HOST COMMAND...`: it asks at the door (inside/door.py), hands over its three standard
streams, and ends as the command does.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

NOBODY_ANSWERS = 255
"""As of ssh."""


def main() -> int:
    """Exit status: the command's."""
    door, host, *command = sys.argv[1:]
    request = {"host": host, "command": " ".join(command), "folder": str(Path.cwd()), "env": dict(os.environ)}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        try:
            asked.connect(door)
            socket.send_fds(asked, [b"\n"], [0, 1, 2])
            asked.sendall(json.dumps(request).encode() + b"\n")
            for stream in (0, 1, 2):  # so that the command alone has them, and whoever reads them learns of its end
                os.close(stream)
            answer = asked.makefile("rb").read()
        except OSError as error:
            print(f"enter-host: {host}: {error}", file=sys.stderr)
            return NOBODY_ANSWERS
    return int(answer or NOBODY_ANSWERS)


if __name__ == "__main__":
    sys.exit(main())
