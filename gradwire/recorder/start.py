"""Begins to record when a script imports torch, and writes what was recorded when the script has done its iterations,
or ends.

What it is to do comes in the environment (`SETTINGS`), and what it found goes to a file, which gradwire reads as it
reads files from anybody: the script could have written it itself.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
from typing import Any

from gradwire.recorder.left_files import write_state
from gradwire.script_start.torch_import import when_torch_is_imported

SETTINGS = "GRADWIRE_RECORD"
"""Variable with the settings in JSON: `file`, `rank`, `world`, `iterations`, `values`, and `process`, of the first
process that was seen."""
PR_SET_PDEATHSIG = 1


def watch_for_torch() -> None:
    """Prepares to record once torch is imported. Must be called first, in every Python that the command starts and that
    these start."""
    settings: dict[str, Any] = json.loads(os.environ[SETTINGS])
    first = settings.setdefault("process", os.getpid())
    settings["is_first"] = first == os.getpid()
    os.environ[SETTINGS] = json.dumps({**settings, "process": first})
    if settings["is_first"]:
        _end_with_parent()
        write_state(settings, "started", " ".join(sys.version.split()[:1]))
    when_torch_is_imported(lambda: _begin(settings), absent=lambda: write_state(settings, "no torch", sys.executable))


def _end_with_parent() -> None:
    """Makes the kernel end this process when gradwire's ends, however that ends (prctl(2))."""
    import ctypes  # noqa: PLC0415 (here alone)

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _begin(settings: dict[str, Any]) -> None:
    from gradwire.recorder import process_groups  # noqa: PLC0415 (it imports torch)

    def refuse() -> None:
        write_state(settings, "rank in a child", " ".join(sys.argv)[:200], ".child")

    if not settings["is_first"]:
        process_groups.refuse_ranks(refuse)
        return
    from gradwire.recorder import cuda_as_cpu  # noqa: PLC0415
    from gradwire.recorder.session import RecordingSession  # noqa: PLC0415

    session = RecordingSession(settings)
    cuda_as_cpu.redirect(session.recording.guess)
    session.begin(refuse)
    atexit.register(session.end)
