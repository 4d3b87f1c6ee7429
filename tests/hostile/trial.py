"""Whether an import ends as it should, whatever it is given: with a workload that can be loaded again, or with one message."""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradwire.faults import LONGEST_LINE, InputFault
from gradwire.workloads.traces.trace_import import Imported, import_traces
from gradwire.workloads.traces.workload import FILE_NAME, Workload
from tests.hostile.inputs import HostileInput
from tests.hostile.limits import MOST_S, Outcome, TookTooLongError, limited_time

MOST_MEMORY_BYTES = 2 << 30
"""On top of what the process has when it begins."""


@contextmanager
def limited_memory() -> Iterator[None]:
    """Lets this process have a limited amount of memory more than it has, so that an allocation beyond that fails."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_MEMORY_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def outcome(given: HostileInput, folder: Path) -> Outcome:
    """Imports the files from a folder, which must be empty or have earlier ones of the same names."""
    paths = []
    for name, content in given.files.items():
        paths.append(folder / name)
        paths[-1].write_bytes(content)
    begun_s = time.process_time()
    try:
        with limited_time():
            ended, details = _ended(paths, given, folder)
    except TookTooLongError:
        ended, details = f"took more than {MOST_S:g} s", traceback.format_exc()
    except Exception as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
        ended, details = type(error).__name__, traceback.format_exc()
    return Outcome(ended, time.process_time() - begun_s, details)


def _ended(paths: list[Path], given: HostileInput, folder: Path) -> tuple[str, str]:
    try:
        found = import_traces(paths, "hostile", given.reading, lambda *_: None)
    except InputFault as fault:
        return _judged([str(fault)], "refused")
    lines = [finding.words for finding in found.findings]
    if found.workload is None:
        return _judged(lines, "refused") if found.refusals else ("neither a workload nor a reason", "")
    _keep_and_load(found, folder)
    return _judged(lines, "workload")


def _keep_and_load(found: Imported, folder: Path) -> None:
    found.write(folder / "out")
    assert found.workload is not None
    again = Workload.load(folder / "out" / FILE_NAME)
    assert again.digest() == found.workload.digest(), "comes back as another"


def _judged(lines: list[str], ended: str) -> tuple[str, str]:
    longest = max(lines, key=len, default="")
    if len(longest) > LONGEST_LINE:
        return "a message that is too long", f"{len(longest):,} characters: {longest[:300]}"
    return ended, ""
