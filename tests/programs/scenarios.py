"""The scenarios of examples/programs/, run as a user runs them: from the repository's folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gradwire.csv_files import read_csv
from tests.end_to_end.programs.running import ENVIRONMENT, GRADWIRE
from tests.shared.snippets import ROOT

WALL_LIMIT_S = 5400.0


def figures_of(name: str, out: Path, *settings: str) -> list[dict[str, str]]:
    """The rows that the programs of a scenario report, all of whose points have to be valid."""
    command = [*GRADWIRE, "run", f"examples/programs/{name}.toml", "--out", str(out), "--jobs", "1"]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=WALL_LIMIT_S
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    return read_csv(out / "figures.csv")
