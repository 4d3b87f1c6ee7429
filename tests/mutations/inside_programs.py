"""Programs' job inside the machine, with a fault: `python -m tests.mutations.inside_programs FOLDER KEY`, like
gradwire.inside.exec_job."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gradwire.inside.exec_job import execute
from gradwire.inside.lab import run_inside
from tests.mutations.fault import FOLDER, NOTHING, faults_of
from tests.mutations.inside import FAULT_FILE

if __name__ == "__main__":
    family, name = (Path(sys.argv[1]) / FAULT_FILE).read_text().splitlines()
    os.environ[FOLDER] = str(Path(sys.argv[1]).resolve())
    if name != NOTHING:
        faults_of(family)[name].inject()
    run_inside(execute)
