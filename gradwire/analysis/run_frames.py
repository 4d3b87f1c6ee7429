"""Frames of a run: its ops, the bytes that its ports sent by priority band, its critical path, and its strategies
ranked at each setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.logged import Bool
from gradwire.analysis.plan_names import host_name
from gradwire.analysis.point_frames import parameters_frame
from gradwire.analysis.report.conclusion import RankedSetting
from gradwire.analysis.report.ranking import Entry, Ranking
from gradwire.analysis.statistics import TimeComparison, contrast
from gradwire.analysis.timeline.critical_path import PARTS, CriticalPath
from gradwire.analysis.timeline.path_tables import MEANING
from gradwire.analysis.timeline.walk import TimeKind
from gradwire.datatypes.message_parts import carried_chunks
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.datatypes.records import Int64, OpLog, PointRecord
from gradwire.faults import InternalFault
from gradwire.network.fabric import PREAMBLE_FCS_GAP_BYTES, Fabric

CONTROL = "control"
"""Tensor of a message that carries none: a request or a token."""
BEST = "fastest"
"""Outcome of the fastest itself, with which the others are compared."""
OUTCOMES = (BEST, *map(str, TimeComparison))
NUMBERS = (
    "iteration_time_s", "ci95_s", "ratio", "ratio_low", "ratio_high", "speedup", "speedup_low", "speedup_high",
    "bound_ratio",
    "scaling_efficiency",
)  # fmt: skip
"""Columns that may lack a value in every row, and are numbers all the same."""


def plan_frame(plan: Plan) -> pd.DataFrame:
    """One row per op, whose number is the index: kind, rank, host, peer, receivers, tensor, chunk, layer, size_bytes,
    ... and duration_s.

    peer: the other rank of a message; missing for a multicast and for what is not a message. receivers: ranks that a
    SEND goes to; 0 for what is none. tensor: that a message or an addition is about; missing for a COMPUTE. layer,
    chunk and traffic_class are missing where an op has none; the class of control messages is -1. crosses_network: it
    is a SEND to another host. duration_s: what a COMPUTE or a REDUCE takes, and the software latency of a SEND.
    """
    ops, chunk = plan.ops, carried_chunks(plan)
    message = (ops.kind == OpKind.SEND) | (ops.kind == OpKind.RECV)
    frame = pd.DataFrame(
        {
            "kind": _categories(ops.kind, {int(kind): kind.name for kind in OpKind}),
            "rank": ops.rank.astype(np.int32),
            "role": _categories(plan.rank_role[ops.rank], {int(role): role.name.lower() for role in Role}),
            "host": _categories(plan.rank_host[ops.rank], {host: host_name(host) for host in range(plan.hosts)}),
            "peer": _optional(ops.peer, message & (ops.group == 0)),
            "receivers": _receivers(plan),
            "tensor": _tensors(plan, chunk, message),
            "chunk": _optional(chunk, chunk >= 0),
            "layer": _optional(ops.layer, ops.layer >= 0),
            "size_bytes": ops.size_bytes,
            "traffic_class": _optional(ops.traffic_class, message),
            "crosses_network": plan.is_remote(),
            "duration_s": ops.duration_ns / 1e9,
        }
    )
    frame.index.name = "op"
    return frame


def logged_frame(plan: Plan, log: OpLog, warmup: int) -> pd.DataFrame:
    """One row per op and iteration, in the order of the log: iteration, warmup, op, the columns of `plan_frame`, and
    when it was done.

    Times are seconds of the run's clock since the agents' common start. due_s: when its dependencies and its stream
    allowed it to start, by nominal times. start_s: a SEND's first byte handed to the kernel, a RECV's first byte taken
    from it. end_s: likewise of the last byte. Raises InternalFault for an op that the plan does not have.
    """
    if len(log.op) and (log.op.max() >= len(plan.ops) or log.op.min() < 0):
        raise InternalFault(f"the op log has op {int(log.op.max())}, and the plan has {len(plan.ops)}")
    rows = plan_frame(plan).take(log.op).reset_index()
    times = {"due_s": log.nominal_start_ns, "start_s": log.start_ns, "end_s": log.end_ns}
    rows.insert(0, "iteration", log.iteration)
    rows.insert(1, "warmup", log.iteration < warmup)
    return rows.assign(**{name: values / 1e9 for name, values in times.items()})


def _categories(codes: npt.NDArray[Any], names: dict[int, str]) -> pd.Categorical[str]:
    """Numbers by their names; every name is a category, whether it occurs or not."""
    code_of: Int64 = np.full(max(names) + 1, -1, np.int64)
    code_of[list(names)] = np.arange(len(names))
    return pd.Categorical.from_codes(code_of[codes], categories=pd.Index(list(names.values())))


def _optional(values: npt.NDArray[Any], known: Bool) -> pd.Series[Any]:
    """Numbers as a series that has missing values where `known` is false."""
    return pd.Series(values.astype(np.int64)).astype("Int64").where(pd.Series(known))


def _receivers(plan: Plan) -> Int64:
    ops = plan.ops
    receivers: Int64 = (ops.kind == OpKind.SEND).astype(np.int64)
    grouped = ops.group == 1
    receivers[grouped] = np.diff(plan.group_start)[ops.peer[grouped]]
    return receivers


def _tensors(plan: Plan, chunk: Int64, message: Bool) -> pd.Categorical[str]:
    """The tensor of each op that has a chunk; CONTROL for other messages."""
    tensor: Int64 = np.full(len(plan.ops), -1, np.int64)
    chunked = chunk >= 0
    tensor[chunked] = plan.chunk_tensor[chunk[chunked]]
    tensor[message & ~chunked] = len(plan.tensors)
    return pd.Categorical.from_codes(tensor, categories=pd.Index([*plan.tensors, CONTROL]))


def ports_frame(plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord) -> pd.DataFrame:
    """One row per port and band: bytes_sent and packets_sent in the whole replay, drops, marks (ECN), the port's
    rate_bps, and utilisation. With flow control also how often it paused its far end, and for how long
    (pauses, paused_s), and how often it was paused, and for how long (stops, stopped_s); and the most that was charged to
    it, and was in its headroom (most_bytes, most_headroom_bytes).

    Band 0 carries control messages and pure ACKs, band c + 1 traffic class c. utilisation: the share of the line rate
    that the band used on average over all iterations, preambles, checksums and gaps included; missing for a port
    without a line rate (an aggregator's).
    """
    rates_bps = {end.interface: rate_bps for end, rate_bps in fabric.ports()}
    edges_ns = iteration_ends_ns(plan, log, record.iterations)
    duration_s = (edges_ns[-1] - edges_ns[0]) / 1e9
    bands = record.counts.bands
    frame = pd.DataFrame(
        {
            "port": pd.Categorical([band.port for band in bands]),
            "band": [band.band for band in bands],
            "bytes_sent": [band.bytes_sent for band in bands],
            "packets_sent": [band.packets_sent for band in bands],
            "drops": [band.drops for band in bands],
            "marks": [band.marks for band in bands],
            "rate_bps": pd.Series([rates_bps.get(band.port) for band in bands], dtype="float64"),
        }
    )
    frame["rate_bps"] = frame["rate_bps"].where(frame["rate_bps"] < float("inf"))
    line_bytes = frame["bytes_sent"] + PREAMBLE_FCS_GAP_BYTES * frame["packets_sent"]
    frame["utilisation"] = 8 * line_bytes / duration_s / frame["rate_bps"]
    return _with_pauses(frame, record) if record.pauses is not None else frame


def _with_pauses(frame: pd.DataFrame, record: PointRecord) -> pd.DataFrame:
    assert record.pauses is not None
    counts = {(count.port, count.band): count for count in record.pauses.counts}
    rows = [counts.get((band.port, band.band)) for band in record.counts.bands]
    for name in ("pauses", "paused_ns", "stops", "stopped_ns", "most_bytes", "most_headroom_bytes"):
        column = name.replace("_ns", "_s")
        values = [getattr(row, name) if row is not None else 0 for row in rows]
        frame[column] = [value / 1e9 for value in values] if name != column else values
    return frame


def parts_frame(path: CriticalPath) -> pd.DataFrame:
    """One row per kind of time: part, kind, duration_s, share and
    meaning. The durations sum to the iteration's time."""
    rows = [(part, kind) for part, kinds in PARTS.items() for kind in kinds if _is_told(kind, path)]
    return pd.DataFrame(
        {
            "part": pd.Categorical([part for part, _ in rows], categories=list(PARTS)),
            "kind": pd.Categorical([str(kind) for _, kind in rows]),
            "duration_s": [path.kinds_ns[kind] / 1e9 for _, kind in rows],
            "share": [path.kinds_ns[kind] / max(path.duration_ns, 1) for _, kind in rows],
            "meaning": [MEANING[kind] for _, kind in rows],
        }
    )


def _is_told(kind: TimeKind, path: CriticalPath) -> bool:
    """With a fabric, TRANSFER is left out: it is divided into time on the line and sharing."""
    return kind is not TimeKind.TRANSFER or path.kinds_ns[kind] > 0


def segments_frame(path: CriticalPath) -> pd.DataFrame:
    """The path in order of time, one row per piece: its name, its kind, start_s and end_s since the iteration's begin,
    and duration_s.

    Consecutive segments of one kind and with the same subject are one piece.
    """
    pieces = path.merged()
    begin_ns = pieces[0].segments[0].begin_ns if pieces else 0
    return pd.DataFrame(
        {
            "what": [piece.what for piece in pieces],
            "kind": pd.Categorical([str(piece.kind) for piece in pieces], categories=[str(kind) for kind in TimeKind]),
            "start_s": [(piece.segments[0].begin_ns - begin_ns) / 1e9 for piece in pieces],
            "end_s": [(piece.segments[-1].end_ns - begin_ns) / 1e9 for piece in pieces],
            "duration_s": [piece.duration_ns / 1e9 for piece in pieces],
        }
    )


def ranking_frame(settings: Sequence[RankedSetting]) -> pd.DataFrame:
    """One row per strategy and setting: the fastest of each setting first, and the invalid ones last, with their
    numbers missing.

    ratio: the time over that of the fastest which sends all gradients, with its 95 % interval over seeds, as
    (ratio_low, ratio_high): both are the ratio itself where nothing is random, and missing where one seed cannot tell.
    outcome: what may be said of that ratio. speedup: throughput over that of `baseline`, with its interval likewise.
    bound_ratio: the time over the plan's closed-form lower bound.
    """
    rows = [(setting.parameters, row) for setting in settings for row in _rows(setting.ranking)]
    keys = list(dict.fromkeys(key for parameters, _ in rows for key in parameters))
    where = parameters_frame([parameters for parameters, _ in rows], keys)
    numbers = pd.DataFrame([row for _, row in rows])
    numbers = numbers.reindex(columns=list(dict.fromkeys([*numbers.columns, *NUMBERS])))
    frame = pd.concat([where, numbers], axis="columns")
    for name in ("strategy", "options", "family", "baseline"):
        frame[name] = frame[name].astype("category")
    for name in NUMBERS:
        frame[name] = frame[name].astype("float64")
    frame["outcome"] = pd.Categorical(frame["outcome"], categories=list(OUTCOMES))
    return frame.astype({"rank": "Int64"})


def _rows(ranking: Ranking) -> Iterator[dict[str, object]]:
    for rank, entry in enumerate(ranking.valid, start=1):
        row = entry.row
        yield {
            "rank": rank,
            **_who(entry),
            "iteration_time_s": entry.time_s,
            "ci95_s": entry.ci_s if entry.seeds > 1 or not entry.sample.random else None,
            "seeds": entry.seeds,
            **_against_best(ranking, entry),
            **_against_baseline(ranking, entry),
            "bound_ratio": entry.time_s / row.lower_bound_s if row.lower_bound_s else None,
            "scaling_efficiency": row.scaling_efficiency,
            "sends_a_part": entry.partial,
            "valid": True,
            "verdict": row.verdict,
        }
    for entry in ranking.invalid:
        yield {"rank": None, **_who(entry), "seeds": entry.seeds, "valid": False, "verdict": entry.row.verdict}


def _who(entry: Entry) -> dict[str, str]:
    return {
        "strategy": entry.row.parameters.get("strategy", entry.name),
        "options": entry.options,
        "family": entry.family,
    }


def _against_best(ranking: Ranking, entry: Entry) -> dict[str, object]:
    if ranking.best is None:
        return dict.fromkeys(("ratio", "ratio_low", "ratio_high", "outcome"))
    difference = ranking.against_best(entry)
    low, high = difference.interval or (None, None)
    outcome = BEST if entry is ranking.best else str(difference.outcome)
    return {"ratio": difference.ratio, "ratio_low": low, "ratio_high": high, "outcome": outcome}


def _against_baseline(ranking: Ranking, entry: Entry) -> dict[str, object]:
    if ranking.baseline is None:
        return dict.fromkeys(("speedup", "speedup_low", "speedup_high", "baseline"))
    difference = contrast(ranking.baseline.sample, entry.sample)
    low, high = difference.interval or (None, None)
    return {
        "speedup": ranking.speedup(entry),
        "speedup_low": low,
        "speedup_high": high,
        "baseline": ranking.baseline.name,
    }
