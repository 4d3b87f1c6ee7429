"""Gives commands to gradwire as a user does, for benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gradwire import PACKAGE


def gradwire(*words: str, cwd: Path, limit_s: float | None = None) -> subprocess.CompletedProcess[str]:
    """Runs `gradwire WORDS` of this tree in a folder, without anything to read. Raises TimeoutExpired."""
    return subprocess.run(
        [sys.executable, "-m", "gradwire", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=limit_s,
    )
