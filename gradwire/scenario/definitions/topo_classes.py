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
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault
from gradwire.named_code import COMMAND_LINE, code_in, permit
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
        answer: dict[str, Any] = {"said": _said(path, topo_in(path, name), most_nodes)}
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
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise InputFault(f"{path}: cannot be run: {_in_words(error)}") from error
    classes = {
        class_name: kind
        for class_name, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and all(hasattr(kind, word) for word in ASKED)
    }
    if name is None and len(classes) != 1:
        raise InputFault(f"{path}: has {len(classes)} classes of Mininet's Topo: say which, like {path.name}:Campus")
    chosen = next(iter(classes)) if name is None else name
    if chosen not in classes:
        raise InputFault(f"{path}: has no class '{chosen}' of Mininet's Topo; it has: {', '.join(classes) or 'none'}")
    try:
        return classes[chosen]()
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise InputFault(f"{path}: {chosen}() raised {_in_words(error)}") from error


LONGEST_REASON = 300


def _in_words(error: BaseException) -> str:
    """An error of the user's code, in one short line."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 (its text is the user's code as well)
        words = ""
    if (
        isinstance(error, PermissionError) and error.errno == errno.EPERM
    ):  # as no_processes.py answers; a file's is EACCES
        words += " (a Topo may start no other process)"
    shown = words if len(words) <= LONGEST_REASON else f"{words[:LONGEST_REASON]}..."
    return f"{type(error).__name__}: {shown}".rstrip(": ")


def _said(path: Path, topo: Any, most_nodes: int) -> dict[str, Any]:
    """Network of an instance, from its own methods; only the number of its nodes if there are more than `most_nodes`.
    Raises InputFault if the methods fail."""
    try:
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
    except (Exception, SystemExit) as error:  # the class is the user's own
        raise InputFault(f"{path}: is not a Topo of Mininet: {_in_words(error)}") from error
    return {"hosts": hosts, "switches": switches, "parameters": parameters, "links": links}


def _plain(value: Any) -> Any:
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
