"""What an iperf3 says that a transfer came to, in the words of iperf that Mininet shows."""

from __future__ import annotations

import json

from gradwire.faults import InputFault

UNITS = ((1e9, "Gbits/sec"), (1e6, "Mbits/sec"), (1e3, "Kbits/sec"), (1.0, "bits/sec"))


def rate_words(rate_bps: float) -> str:
    """A rate in three digits: "9.41 Gbits/sec"."""
    unit, name = next(((unit, name) for unit, name in UNITS if rate_bps >= unit), UNITS[-1])
    value = rate_bps / unit
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {name}"


def transfer_rates(report: str) -> list[str]:
    """What the server received and what the client sent, from the report that `iperf3 --json` writes.

    Raises InputFault with iperf3's own error, or for what is not such a report.
    """
    try:
        said = json.loads(report)
        if "error" in said:
            raise InputFault(f"iperf3: {said['error']}")
        end = said["end"]
        both = [end[name] if name in end else end["sum"] for name in ("sum_received", "sum_sent")]
        return [rate_words(float(each["bits_per_second"])) for each in both]
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        last = report.strip().splitlines()[-1:] or ["nothing"]
        raise InputFault(f"iperf3 wrote no result: {last[0]}") from error
