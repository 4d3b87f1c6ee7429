"""The output of `gradwire ccl --log`: the log's rows beside the model's, and what explains those that are off."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradwire.runs.ccl_log import Compared, WhatIf
    from gradwire.runs.ccl_machines import CclOptions, TestedCall

HEAD = (
    f"{'size':>14} {'measured':>11} {'expected':>11} {'ratio':>6} {'measured':>9} {'expected':>9}  expected\n"
    f"{'(B)':>14} {'(us)':>11} {'(us)':>11} {'':>6} {'(GB/s)':>9} {'(GB/s)':>9}"
)


def show_log(path: Path, given: CclOptions, written: frozenset[str], kind: TestedCall, *, as_json: bool) -> None:
    """Prints the rows of a log beside those of the model. Raises InputFault."""
    from gradwire.runs.ccl_log import compare, explain, facts_of, kind_of_log, known_version, read_log
    from gradwire.terminal_text import visible

    found = read_log(path)
    said = found.version
    found.version = known_version(found)
    given = found.options(given, written)
    kind = kind_of_log(found, given.machines * given.gpus, kind, is_given="kind" in written)
    compared = compare(found.rows, given, kind)
    why = explain(found.rows, given, kind, compared) if any(not one.is_expected for one in compared) else None
    sources = facts_of(found, written)
    if as_json:
        print(json.dumps(_document(given, kind, compared, why, sources), indent=1))
        return
    print(f"# {kind.value} of {visible(path.name)}, beside what the model expects")
    print(f"# {_machines(given, sources)}")
    version = _version(given)
    if said is not None and version is not None and said != version:
        print(f"# NCCL {said} is not known here: the tables of {version} are taken")
    _print_rows(compared)
    _print_findings(compared, why)


def _machines(given: CclOptions, sources: Any) -> str:
    version = _version(given)
    library = "RCCL" if version is None else f"NCCL {version}"
    texts = {
        "log": f"{given.machines} x {given.gpus} {given.gpu}, {library}, {given.transport}, {given.nics} NICs",
    }
    assumed = [name for name, source in sources.items() if source == "default"]
    words = f"{texts['log']} of {given.nic}"
    if assumed:
        words += f"; not in the log, and so by default: {', '.join(assumed)}"
    return words


def _version(given: CclOptions) -> str | None:
    """The version of NCCL; None on machines that have RCCL."""
    from gradwire.runs.ccl_machines import MI300X

    return None if given.gpu == MI300X else given.nccl


def _print_rows(compared: Sequence[Compared]) -> None:
    print("\n".join(f"#{line[1:]}" for line in HEAD.splitlines()))
    for one in compared:
        row = one.expected
        measured = row.bus_bytes_per_s / 1e9 / one.ratio
        verdict = "" if one.is_expected else "SLOWER" if one.ratio > 1 else "FASTER"
        print(
            f"{row.size_bytes:>14} {one.measured_s * 1e6:>11.1f} {row.time_s * 1e6:>11.1f} {one.ratio:>6.2f} {measured:>9.2f} "
            f"{row.bus_bytes_per_s / 1e9:>9.2f}  {row.algorithm + ' ' + row.protocol:<17} {verdict}".rstrip()
        )


def _print_findings(compared: Sequence[Compared], why: WhatIf | None) -> None:
    from gradwire.runs.ccl_log import LARGE_BYTES, TOLERANCES
    from gradwire.workloads.units import size_text

    off = [one for one in compared if not one.is_expected]
    print(
        f"# {len(compared) - len(off)} of {len(compared)} rows are as expected: within {TOLERANCES[True]:.0%} from "
        f"{size_text(LARGE_BYTES)} on, {TOLERANCES[False]:.0%} below"
    )
    if not off:
        return
    sizes = sorted(one.expected.size_bytes for one in off)
    print(
        f"# the others, from {size_text(sizes[0])} to {size_text(sizes[-1])}, took {median(one.ratio for one in off):.2f} times the "
        "expected time in the median"
    )
    if why is None:
        print("# no single limit that this model knows explains them: compare the options with the machines")
    else:
        print(f"# they are within {why.off:.0%} of what they would have taken if {why.words} ({why.option})")


def _document(
    given: CclOptions, kind: TestedCall, compared: Sequence[Compared], why: WhatIf | None, sources: Any
) -> dict[str, object]:
    return {
        "collective": kind.value,
        "machines": given.machines,
        "gpus": given.gpus,
        "gpu": given.gpu,
        "nccl": _version(given),
        "transport": given.transport,
        "nics": given.nics,
        "nic": given.nic,
        "sources": dict(sources),
        "rows": [
            {
                "size_bytes": one.expected.size_bytes,
                "measured_us": one.measured_s * 1e6,
                "expected_us": one.expected.time_s * 1e6,
                "algorithm": one.expected.algorithm,
                "protocol": one.expected.protocol,
                "is_expected": one.is_expected,
            }
            for one in compared
        ],
        "explained_by": None if why is None else {"option": why.option, "off": why.off},
    }
