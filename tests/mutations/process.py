"""A process of the machine with a fault in it: `python -m tests.mutations.process FAMILY FAULT MODULE ARGUMENT...`."""

from __future__ import annotations

import runpy
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
    runpy.run_module(module, run_name="__main__", alter_sys=True)
