"""The answer of a search for divisions: rows, a table, files, and what was assumed, in words."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import tomli_w

from gradwire.analysis.report.charts import save_chart
from gradwire.analysis.report.division_chart import DivisionBar, division_chart
from gradwire.analysis.report.tables import TextTable
from gradwire.files import replace_text, replacing
from gradwire.runs.comparing.division_search import BEST, FACTORS, MOST_FURTHER, Found

CSV_FILE, JSON_FILE, SCENARIO_FILE = "divisions.csv", "divisions.json", "fastest.toml"


def rows(found: Found) -> list[dict[str, Any]]:
    """The best divisions, the fastest first, times in seconds and memory in bytes."""
    places = {factor: _places(found, factor) for factor in FACTORS[1:]}
    return [
        {
            "place": number,
            "data": each.candidate.choice.data,
            "tensor": each.candidate.choice.tensor,
            "pipeline": each.candidate.choice.pipeline,
            "chunks": each.candidate.choice.chunks,
            "microbatches": each.candidate.choice.microbatches,
            "samples_of_microbatch": each.candidate.choice.samples,
            "recompute": each.candidate.choice.recompute,
            "first_blocks": each.candidate.choice.ends[0],
            "last_blocks": each.candidate.choice.ends[1],
            "iteration_time_s": each.time_s,
            "lower_bound_s": each.candidate.least(1.0).iteration_s,
            "mfu": found.mfu(each),
            "exposed_communication_s": each.exposed_s,
            "bubble_s": each.bubble_s,
            "compute_s": each.candidate.least(1.0).compute_s,
            "memory_bytes": each.candidate.memory.total_bytes,
            "states_bytes": each.candidate.memory.states_bytes,
            "activations_bytes": each.candidate.memory.activations_bytes,
            "half_rate_time_s": each.times_s[0.5],
            "half_rate_place": places[0.5][number - 1],
            "double_rate_time_s": each.times_s[2.0],
            "double_rate_place": places[2.0][number - 1],
        }
        for number, each in enumerate(found.best, 1)
    ]


def _places(found: Found, factor: float) -> list[int]:
    """The places that the best have at another rate, among themselves."""
    times = [each.times_s[factor] for each in found.best]
    return [1 + sum(other < time_s for other in times) for time_s in times]


def table(found: Found) -> TextTable:
    """The best divisions."""
    headers = ("", "DP x TP x PP", "chunks", "microb.", "again", "ends", "time (s)", "MFU %", "exposed %")
    more = ("bubble %", "GB", "half rate", "double rate")
    cells = tuple(map(_cells, rows(found)))
    return TextTable(found.question.document["title"], (*headers, *more), cells, 0, ("",) * len(cells))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    time_s = row["iteration_time_s"]
    ends = [row["first_blocks"], row["last_blocks"]]
    return (
        str(row["place"]),
        " x ".join(str(row[key]) for key in ("data", "tensor", "pipeline")),
        str(row["chunks"]),
        f"{row['microbatches']} x {row['samples_of_microbatch']}",
        "all" if row["recompute"] == "full" else "–",
        "even" if ends == [None, None] else ", ".join("–" if count is None else str(count) for count in ends),
        f"{time_s:.4g}",
        "–" if row["mfu"] is None else f"{100 * row['mfu']:.1f}",
        f"{100 * row['exposed_communication_s'] / time_s:.1f}",
        f"{100 * row['bubble_s'] / time_s:.1f}",
        f"{row['memory_bytes'] / 1e9:.0f}",
        f"{row['half_rate_time_s']:.4g} ({row['half_rate_place']}.)",
        f"{row['double_rate_time_s']:.4g} ({row['double_rate_place']}.)",
    )


def words(found: Found) -> list[str]:
    """What was searched, what the network would have to be, and what was assumed: a paragraph each."""
    return [_searched(found), *_order(found), *_assumed(found)]


def _searched(found: Found) -> str:
    left_out = "; ".join(f"{count:,}: {reason}" for reason, count in found.left_out.items())
    pruned = found.candidates - len(found.estimated) - len(found.refused)
    text = (
        f"Left out: {left_out or 'none'}. {found.candidates:,} divisions fit into memory. {len(found.estimated):,} were "
        f"estimated, and {pruned:,} were not: the least time that computation, pipeline and bytes permit them is not below "
        f"that of the {min(BEST, len(found.estimated))} fastest. It is a lower bound and not an estimate."
    )
    if found.refused:
        text += f" {len(found.refused)} could not be estimated: {'; '.join(dict.fromkeys(found.refused.values()))}."
    return text


def _order(found: Found) -> list[str]:
    """Which division is the fastest at other rates."""
    best, said = found.best[0], []
    for factor, name in ((0.5, "half"), (2.0, "double")):
        other = found.fastest_at(factor)
        sure = (
            ""
            if found.complete[factor]
            else (
                f" (of those estimated; others might be faster, since {MOST_FURTHER} further ones were looked at and no more)"
            )
        )
        if other is best:
            said.append(f"At {name} the rate the same division is the fastest{sure}: {other.times_s[factor]:.4g} s.")
        else:
            said.append(
                f"At {name} the rate another one is the fastest{sure}: {other.candidate.choice}, {other.times_s[factor]:.4g} "
                f"s, and the one above takes {best.times_s[factor]:.4g} s."
            )
    return said


def _assumed(found: Found) -> list[str]:
    question = found.question
    job, link = question.resolved.job, question.section.costs.local_rate
    return [
        f"Assumed: {question.batch:,} samples of {question.sample_tokens:,} tokens in each iteration; machines of "
        f"{question.machine_gpus} GPUs with a NIC each; {'free links' if link is None else 'links of the device'} inside "
        "a machine; 1F1B; sequence parallelism, a distributed optimizer and overlapped gradients; no context or expert "
        "parallelism; no software latency, no stragglers, no failures unless they are set.",
        f"Computation: {job.compute.source}. All of a device's time per operation is in that share, so where it comes "
        "from whole trainings, their bubbles and communication are counted twice, and MFU here is too low. A device file "
        "with another efficiency changes that.",
        "Memory: bf16 parameters, fp32 gradients and Adam's states (ZeRO), activations by Korthikanti et al. 2022 with a "
        "fused attention; buffers of libraries and what allocators lose are not counted.",
        f"A model, not a run. {found.cpu_s:.0f} s of CPU.",
    ]


def write(found: Found, folder: Path) -> None:
    """The table as CSV and JSON, the chart, and a scenario of the fastest for `gradwire estimate`."""
    folder.mkdir(parents=True, exist_ok=True)
    table_rows = rows(found)
    with replacing(folder / CSV_FILE) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table_rows[0]))
        writer.writeheader()
        writer.writerows(table_rows)
    replace_text(folder / JSON_FILE, json.dumps(as_json(found), indent=1) + "\n")
    best = found.best[0].candidate.choice
    replace_text(folder / SCENARIO_FILE, tomli_w.dumps(found.question.scenario(best.options)))
    bars = [
        DivisionBar(
            str(each.candidate.choice),
            each.candidate.least(1.0).compute_s,
            each.bubble_s,
            each.exposed_s,
            each.times_s[0.5],
            each.times_s[2.0],
        )
        for each in found.best
    ]
    save_chart(division_chart(bars, found.question.document["title"]), folder)


def as_json(found: Found) -> dict[str, Any]:
    """Everything of the answer."""
    return {
        "title": found.question.document["title"],
        "divisions": rows(found),
        "left_out": dict(found.left_out),
        "fit_into_memory": found.candidates,
        "estimated": len(found.estimated),
        "refused": found.refused,
        "fastest_at": {
            f"{factor:g}": {
                "division": str(found.fastest_at(factor).candidate.choice),
                "iteration_time_s": found.fastest_at(factor).times_s[factor],
                "sure": found.complete.get(factor, True),
            }
            for factor in FACTORS
        },
        "words": words(found),
        "cpu_s": found.cpu_s,
    }
