"""`gradwire shell`: Mininet's command line on a scenario's network, with a clock that stands still between commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from gradwire import PACKAGE
from gradwire.inside.stock_mininet.task import TEMPORARY
from gradwire.network.fabric import Fabric
from gradwire.programs.interpreter import own_interpreter
from gradwire.programs.mininet_script import LinePrompt, ScriptRequest, run_script
from gradwire.vm.owners import temporary_folder
from gradwire.vm.session import STALL_LIMIT_S
from gradwire.workloads.fields import LONGEST_S

SCRIPT = PACKAGE / "inside" / "shell.py"
FABRIC_FILE = "fabric.json"


def run_shell(
    fabric: Fabric, memory_mb: int, shown: BinaryIO, read_line: Callable[[LinePrompt], bytes], *, typed: bool
) -> int | None:
    """Boots the network and reads commands until the input ends; returns the exit status. Raises a Fault; leaves no
    process and no file.

    shown: where everything is shown that nodes and the command line write. typed: whether a person types.
    """
    with temporary_folder() as folder:
        own = folder / TEMPORARY
        own.mkdir()
        (own / FABRIC_FILE).write_text(fabric.to_json())
        request = ScriptRequest(
            interpreter=own_interpreter(),
            script=SCRIPT,
            arguments=[f"/tmp/{FABRIC_FILE}"],
            link_rate_bps=fabric.rate_bps,
            memory_mb=memory_mb,
            time_limit_s=LONGEST_S,
            wall_limit_s=LONGEST_S,
            stall_limit_s=STALL_LIMIT_S,
            folder=folder,
            shown={1: shown},
            read_line=read_line,
            typed=typed,
            output_limit_bytes=0,
            one_output=True,
        )
        return run_script(request).report.status
