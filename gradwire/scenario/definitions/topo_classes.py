"""Reads classes of Mininet's Topo in files that users write, each in a separate process: `python -m` this module.

Reading one runs the file's code, so only those who gave a scenario that names it may read it, and not readers of a run
folder. The code may never end, take all memory, print, or change the process that it runs in: none of that reaches
gradwire's process (scenario/definitions/topo_process.py), which gets the network, or one message.
"""

from __future__ import annotations

import errno
import json
import numbers
import os
import resource
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault
from gradwire.named_code import COMMAND_LINE, code_in, permit, running
from gradwire.scenario.definitions.no_processes import forbid_processes

ASKED = ("hosts", "switches", "links", "nodeInfo")
"""The methods of a Topo that are called."""
MOST_CPU_S = 30
"""Largest processor time in seconds: Mininet's own classes take less than one for as many nodes as there may be."""
MOST_MEMORY_BYTES = 4 << 30
"""Largest address space of the process: importing Mininet, networkx and numpy takes less than one GiB."""


def main() -> None:
    """Writes the network of a class to an open descriptor, as JSON. Arguments: FILE, CLASS (empty for the only one),
    MOST_NODES, DESCRIPTOR."""
    path, name, most_nodes, descriptor = Path(sys.argv[1]), sys.argv[2] or None, int(sys.argv[3]), int(sys.argv[4])
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 1))  # SIGXCPU, and SIGKILL a second later
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    forbid_processes()
    try:
        answer: dict[str, object] = {"said": _said(path, topo_in(path, name), most_nodes)}
    except InputFault as fault:
        answer = {"fault": str(fault)}
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(json.dumps(answer).encode(errors="backslashreplace"))
    # Not `sys.exit`: threads of the user's code may never end.
    os._exit(0)


def topo_in(path: Path, name: str | None) -> Any:
    """An instance of the class of that name in a file, or of its only Topo.

    Raises InputFault if the file cannot be read or run, has no such class, or if the class raises.
    """
    permit(path, COMMAND_LINE)  # the process that started this one has asked the table
    text = code_in(path)
    module = types.ModuleType("gradwire_topo_file")
    module.__file__ = str(path)
    with _running(f"{path}: cannot be run: "):
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
        classes = {
            class_name: kind
            for class_name, kind in vars(module).items()
            if isinstance(kind, type)
            and kind.__module__ == module.__name__
            and all(hasattr(kind, word) for word in ASKED)
        }
    if name is None and len(classes) != 1:
        raise InputFault(f"{path}: has {len(classes)} classes of Mininet's Topo: say which, like {path.name}:Campus")
    chosen = next(iter(classes)) if name is None else name
    if chosen not in classes:
        raise InputFault(f"{path}: has no class '{chosen}' of Mininet's Topo; it has: {', '.join(classes) or 'none'}")
    with _running(f"{path}: {chosen}() raised "):
        return classes[chosen]()


@contextmanager
def _running(what: str) -> Iterator[None]:
    """As `running`, with a word on why a process could not be started."""
    try:
        with running(what):
            yield
    except InputFault as fault:
        cause = fault.__cause__
        # As no_processes.py answers; a file's is EACCES.
        if isinstance(cause, PermissionError) and cause.errno == errno.EPERM:
            raise InputFault(f"{fault} (a Topo may start no other process)") from fault
        raise


def _said(path: Path, topo: Any, most_nodes: int) -> dict[str, object]:
    """What an instance says, asked by its own methods; the nodes alone if there are more than `most_nodes`."""
    with _running(f"{path}: is not a Topo of Mininet: "):
        hosts, switches = list(map(str, topo.hosts())), list(map(str, topo.switches()))
        if len(hosts) + len(switches) > most_nodes:
            return {"nodes": len(hosts) + len(switches)}
        parameters = {
            node: {str(key): _plain(value) for key, value in topo.nodeInfo(node).items()}
            for node in (*hosts, *switches)
        }
        links = [
            [str(a), str(b), {str(key): _plain(value) for key, value in options.items()}]
            for a, b, options in topo.links(sort=False, withInfo=True)
        ]
    return {"hosts": hosts, "switches": switches, "parameters": parameters, "links": links}


def _plain(value: object) -> object:
    """The value of an option in JSON; classes and the like are replaced by their kind."""
    if value is None or value == {} or isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    return str(value) if isinstance(value, str) else f"a {type(value).__name__}"


if __name__ == "__main__":
    main()
