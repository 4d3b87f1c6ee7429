"""What makes a file a trace that Perfetto and chrome://tracing load, as defects found.

From the Trace Event Format (Google, 2016) and from what Perfetto's importer asks beyond it: see gradwire/analysis/timeline/trace.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

REQUIRED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
    "C": {"name", "pid", "tid", "ts", "args"},
    "i": {"name", "pid", "tid", "ts", "s"},
    "M": {"name", "pid", "tid", "args"},
}
METADATA = {"process_name": str, "thread_name": str, "process_sort_index": int, "thread_sort_index": int}
Event = dict[str, Any]


def defects(trace: Any) -> list[str]:
    """Everything that is wrong with a parsed trace file, in words; none: it loads."""
    if (
        not isinstance(trace, dict)
        or next(iter(trace), None) != "traceEvents"
        or set(trace) - {"traceEvents", "otherData"}
    ):
        return ["not an object that begins with traceEvents"]
    events = trace["traceEvents"]
    found = [f"event {n}: {fault}" for n, event in enumerate(events) for fault in _shape(event)]
    return found or [*_order(events), *_threads(events), *_slices(events), *_flows(events)]


def _shape(event: Any) -> list[str]:
    if not isinstance(event, dict) or event.get("ph") not in REQUIRED:
        return [f"no event of a known phase: {event}"]
    keys = set(event) - {"ph"}
    found = [f"{event['ph']} has keys {sorted(keys)}"] if keys != REQUIRED[event["ph"]] else []
    for key in ("ts", "dur"):
        value = event.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            found.append(f"{key} = {value!r} is not a time")
    for key in ("pid", "tid"):
        if type(event.get(key)) is not int or event[key] < 1:
            found.append(f"{key} = {event.get(key)!r} is not a number from 1")
    if not isinstance(event.get("name"), str) or not event["name"]:
        found.append("no name")
    if event["ph"] == "C" and not all(type(value) in (int, float) for value in event["args"].values()):
        found.append(f"counter of {event['args']}")
    if event["ph"] == "M":
        kind = METADATA.get(event["name"])
        if kind is None or [type(value) for value in event["args"].values()] != [kind]:
            found.append(f"metadata {event['name']} of {event['args']}")
    return found


def _order(events: Sequence[Event]) -> list[str]:
    times = [event["ts"] for event in events if event["ph"] != "M"]
    phases = [event["ph"] == "M" for event in events]
    found = [] if times == sorted(times) else ["events are not sorted by time"]
    return found if phases == sorted(phases, reverse=True) else [*found, "metadata comes after events"]


def _threads(events: Sequence[Event]) -> list[str]:
    """Perfetto finds a thread by its id alone; every thread and process with slices needs a name."""
    process: dict[int, int] = {}
    found = []
    for event in events:
        if process.setdefault(event["tid"], event["pid"]) != event["pid"]:
            found.append(f"thread {event['tid']} is in two processes")
    named = {kind: {e[key] for e in events if e["ph"] == "M" and e["name"] == kind} for kind, key in
             (("process_name", "pid"), ("thread_name", "tid"))}  # fmt: skip
    for event in events:
        if event["ph"] == "X" and event["tid"] not in named["thread_name"]:
            found.append(f"thread {event['tid']} has no name")
        if event["pid"] not in named["process_name"]:
            found.append(f"process {event['pid']} has no name")
    return found


def _slices(events: Sequence[Event]) -> list[str]:
    free: dict[int, float] = {}
    found = []
    for event in events:
        if event["ph"] == "X":
            # Times are whole nanoseconds, written as microseconds.
            if round(event["ts"] * 1e3) < free.get(event["tid"], 0):
                found.append(f"{event['name']} at {event['ts']} overlaps what its thread did before")
            free[event["tid"]] = round(event["ts"] * 1e3) + round(event["dur"] * 1e3)
    return found


def _flows(events: Sequence[Event]) -> list[str]:
    """Each arrow starts once and ends once, not before it starts, and right behind a slice of its own thread and time."""
    ends: dict[str, dict[int, int]] = {"s": {}, "f": {}}
    found = []
    behind: Event = {}
    for number, event in enumerate(events):
        if event["ph"] == "X":
            behind = event
        if event["ph"] not in ends:
            continue
        if [behind.get(key) for key in ("pid", "tid", "ts")] != [event[key] for key in ("pid", "tid", "ts")]:
            found.append(f"flow {event['id']} is behind no slice")
        if event["id"] in ends[event["ph"]]:
            found.append(f"flow {event['id']} has two {event['ph']}")
        ends[event["ph"]][event["id"]] = number
    if ends["s"].keys() != ends["f"].keys():
        found.append(f"flows without their other end: {sorted(ends['s'].keys() ^ ends['f'].keys())[:5]}")
    return found + [f"flow {n} ends before it starts" for n in ends["f"] if ends["f"][n] < ends["s"].get(n, -1)]
