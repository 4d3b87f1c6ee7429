"""Forks a process for each command of gradwire's that tests give, from one that has imported what commands import.

Importing takes two to three seconds of a core, for hundreds of commands. A command has its own process here as well, with its
own folder, environment and streams, and ends with its own status; Python and the modules alone are there before it begins.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import gradwire.__main__
import gradwire.cli
from tests.shared.own_pace import learn_pace_in


def serve() -> None:
    """Carries out one request per line of standard input: says the process of the command, and then its status."""
    for module in pkgutil.iter_modules(gradwire.cli.__path__, "gradwire.cli."):
        importlib.import_module(module.name)
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(request)
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(request: dict[str, Any]) -> None:
    """The process of a command, which has the streams, the folder, the environment and the words of the request."""
    folder = Path(request["streams"])
    for number, (name, flags) in enumerate((("in", os.O_RDONLY), ("out", os.O_WRONLY), ("err", os.O_WRONLY))):
        stream = os.open(folder / name, flags)
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, closefd=False)
    learn_pace_in(folder)
    os.chdir(request["cwd"])
    if request["gone"]:
        Path(request["cwd"]).rmdir()
    os.environ.clear()
    os.environ.update(request["env"])
    tempfile.tempdir = None  # asked for again, by the new environment
    # As `python -m gradwire` has it, whose usage names it.
    sys.modules["__main__"] = gradwire.__main__
    sys.argv = [str(gradwire.__main__.__file__), *request["words"]]
    status = 1
    try:
        gradwire.__main__.main()
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 (told as Python itself tells what ends a program)
        sys.excepthook(*sys.exc_info())
    finally:
        for written in (sys.stdout, sys.stderr):
            written.flush()
        os._exit(status)


if __name__ == "__main__":
    serve()
