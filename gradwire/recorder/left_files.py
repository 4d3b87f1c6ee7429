"""The files that a recorded script leaves: its recording, and word of how far it came.

gradwire reads them as it reads files from anybody (gradwire/workloads/traces/formats/recording.py).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FORMAT, VERSION = "gradwire recording", 1


def write_state(settings: dict[str, Any], state: str, about: str = "", kind: str = ".state") -> None:
    """Writes how far the script came, so that a missing record can be explained."""
    path = Path(settings["file"] + kind)
    write_whole(path, json.dumps({"state": state, "about": about}))


def write_whole(path: Path, text: str) -> None:
    """Writes a file that is there as a whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)
