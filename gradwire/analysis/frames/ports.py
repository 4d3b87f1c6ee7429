"""What every port sent, by priority band, as a frame."""

from __future__ import annotations

import pandas as pd

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.datatypes.fabric import PREAMBLE_FCS_GAP_BYTES, Fabric
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog, PointRecord


def ports_frame(plan: Plan, fabric: Fabric, log: OpLog, record: PointRecord) -> pd.DataFrame:
    """One row per port and band: bytes_sent and packets_sent in the whole replay, drops, marks (ECN), the port's rate_bps, and utilisation.

    Band 0 carries control messages and pure ACKs, band c + 1 traffic class c. utilisation: the share of the line rate that the band used on
    average over all iterations, preambles, checksums and gaps included; missing for a port without a line rate (an aggregator's).
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
    return frame
