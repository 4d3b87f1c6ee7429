"""A process of the machine with a fault in it: `python -m tests.mutations.process FAMILY FAULT MODULE ARGUMENT...`."""

from __future__ import annotations

import importlib
import sys

from gradwire.agents.compiled import library
from tests.mutations.fault import NOTHING, faults_of

if __name__ == "__main__":
    _, family, name, module, *arguments = sys.argv
    if name != NOTHING:
        faults_of(family)[name].inject()
    # Faults are put into agents in Python, and the compiled one would know nothing of them.
    library.load = lambda path: None
    sys.argv = [module, *arguments]
    # Imported, as forks of gradwire's have it: what runs as `__main__` would be another module, without the fault.
    sys.exit(importlib.import_module(f"{module}.__main__").main())
