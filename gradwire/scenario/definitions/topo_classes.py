"""Classes of Mininet's Topo in files that users write.

Reading one runs the file's code, so that is for those alone who gave a scenario that names it, and not for whatever reads a run folder.
"""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault
from gradwire.regular_files import MESSAGE_BYTES, read_text

ASKED = ("hosts", "switches", "links", "nodeInfo")
"""The methods of a Topo that are called."""


def topo_in(path: Path, name: str | None) -> Any:
    """An instance of the class of that name in a file, or of its only Topo.

    Raises InputFault if the file cannot be read or run, has no such class, or if the class raises.
    """
    try:
        text = read_text(path, MESSAGE_BYTES, follow=True)
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputFault(f"{path}: cannot be read: {error}") from error
    module = types.ModuleType("gradwire_topo_file")
    module.__file__ = str(path)
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise InputFault(f"{path}: cannot be run: {type(error).__name__}: {error}") from error
    own = {
        each: kind
        for each, kind in vars(module).items()
        if isinstance(kind, type) and kind.__module__ == module.__name__ and all(hasattr(kind, word) for word in ASKED)
    }
    if name is None and len(own) != 1:
        raise InputFault(f"{path}: has {len(own)} classes of Mininet's Topo: say which, like {path.name}:Campus")
    chosen = next(iter(own)) if name is None else name
    if chosen not in own:
        raise InputFault(f"{path}: has no class '{chosen}' of Mininet's Topo; it has: {', '.join(own) or 'none'}")
    try:
        return own[chosen]()
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        raise InputFault(f"{path}: {chosen}() raised {type(error).__name__}: {error}") from error
