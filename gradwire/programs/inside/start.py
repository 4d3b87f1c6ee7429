"""How the kernel's jobs begin: reads the task, opens the channel, builds the network; a fault becomes an event."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from gradwire.faults import Fault, InternalFault
from gradwire.programs.inside.channel import Channel
from gradwire.programs.inside.lab import Lab, lab
from gradwire.programs.protocol import TASK_FILE, Ready, Refused, Task, read_task

Job = Callable[[Task, Path, Lab, Channel], None]


def run_inside(job: Job) -> None:
    """Runs `job` on the folder named on the command line, with the key in the file named behind it.

    Whatever ends it early is told as a Refused.
    """
    folder, key_file = map(Path, sys.argv[1:])
    channel = Channel(key_file)
    try:
        task = read_task(folder / TASK_FILE)
        with lab(task, folder) as ready:
            channel.say(Ready(tuple(host.pid for host in ready.hosts)))
            job(task, folder, ready, channel)
    except Fault as fault:
        channel.say(Refused(type(fault).__name__, str(fault)))
    except Exception:  # noqa: BLE001 (the caller outside cannot see it otherwise)
        channel.say(Refused(InternalFault.__name__, traceback.format_exc()))
