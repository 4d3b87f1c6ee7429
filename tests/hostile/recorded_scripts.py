"""Programs under `gradwire record` that leave something else than a recording, or end in any way."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from random import Random

from gradwire.faults import InputFault
from gradwire.programs.script_recording import CHILD, STATE, RecordingRequest, record
from gradwire.workloads.traces.record import Reading
from gradwire.workloads.traces.trace_import import import_traces
from tests.hostile.changes import changed
from tests.hostile.limits import Outcome, outcome
from tests.hostile.stand_ins import put
from tests.unit.workloads.traces.small_traces import recording

MADE = """made=$(printf %s "$GRADWIRE_RECORD" | sed 's/.*"file": "\\([^"]*\\)".*/\\1/')
for kind in "" {state} {child}; do [ -e left$kind -o -L left$kind ] && cp -dR left$kind "$made$kind"; done
{end}
"""
ENDS = (
    "exit 0",
    "exit 0",
    "exit 3",
    "kill -9 $$",
    "kill -40 $$",
    "printf '\\377\\033[2J' >&2; exit 1",
    "kill -TERM $$",
)


def tried(number: int, folder: Path) -> Outcome:
    """Records the program of this number, and imports what it left."""
    random = Random(f"script/{number}")
    place = folder / "script"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    state = json.dumps({"state": random.choice(("steps", "no torch", "begun")), "about": "3"})
    sound = {"": json.dumps(recording()), STATE: state, CHILD: state}
    for kind, share in (("", 0.7), (STATE, 0.6), (CHILD, 0.1)):
        if random.random() < share:
            path = place / f"left{kind}"
            content = sound[kind].encode()
            path.write_bytes(content if random.random() < 0.4 else changed("left.json", content, random))
            if random.random() < 0.1:
                put(path, random)
    script = place / "script.sh"
    script.write_text(f"cd {place}\n" + MADE.format(state=STATE, child=CHILD, end=random.choice(ENDS)))

    def read() -> None:
        paths = list(record(RecordingRequest(("sh", str(script)), (0,), 4, 4, 8, False, 60.0, place)))
        import_traces(paths, "hostile", Reading(flops_per_s=1e12), lambda *_: None)

    return outcome(read, (InputFault,))
