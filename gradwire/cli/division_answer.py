"""The answer of a search for divisions: rows, a table, files, and the assumptions in words; and what was measured by packets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tomli_w

from gradwire.analysis.report.charts import save_chart
from gradwire.analysis.report.division_chart import DivisionBar, division_chart
from gradwire.analysis.report.text_table import TextTable
from gradwire.analysis.statistics import LEVEL_MARGIN
from gradwire.csv_files import write_records
from gradwire.files import replace_text
from gradwire.runs.comparing.division_packets import NOT_RUN
from gradwire.runs.comparing.division_search import BEST, FACTORS, MOST_FURTHER, FoundDivisions
from gradwire.workloads.models.compute_times import BY_KIND

CSV_FILE, JSON_FILE, SCENARIO_FILE = "divisions.csv", "divisions.json", "fastest.toml"


def list_rows(answer: FoundDivisions) -> list[dict[str, Any]]:
    """Lists the best divisions, the fastest first, times in seconds and memory in bytes."""
    places = {factor: _places(answer, factor) for factor in FACTORS[1:]}
    return [
        {
            "place": number if number <= BEST else None,
            "strategy": division.candidate.choice.strategy,
            "division": division.candidate.choice.title,
            "data": division.candidate.choice.data,
            "tensor": division.candidate.choice.tensor,
            "pipeline": division.candidate.choice.pipeline,
            "context": division.candidate.choice.context,
            "experts": division.candidate.choice.experts,
            "chunks": division.candidate.choice.chunks,
            "microbatches": division.candidate.choice.microbatches,
            "samples_of_microbatch": division.candidate.choice.samples,
            "recompute": division.candidate.choice.recompute,
            "first_blocks": division.candidate.choice.ends[0],
            "last_blocks": division.candidate.choice.ends[1],
            "iteration_time_s": division.time_s,
            "lower_bound_s": division.candidate.least(1.0).iteration_s,
            "mfu": answer.mfu(division),
            "exposed_communication_s": division.exposed_s,
            "bubble_s": division.bubble_s,
            "compute_s": division.candidate.least(1.0).compute_s,
            "divides_gradients": division.candidate.memory.divides_gradients,
            "memory_bytes": division.candidate.memory.total_bytes,
            "states_bytes": division.candidate.memory.states_bytes,
            "activations_bytes": division.candidate.memory.activations_bytes,
            "half_rate_time_s": division.times_s[0.5],
            "half_rate_place": places[0.5][number - 1],
            "double_rate_time_s": division.times_s[2.0],
            "double_rate_place": places[2.0][number - 1],
        }
        for number, division in enumerate(answer.best, 1)
    ]


def _places(answer: FoundDivisions, factor: float) -> list[int]:
    """The places that the best have at another rate, among themselves."""
    times = [division.times_s[factor] for division in answer.best]
    return [1 + sum(other < time_s for other in times) for time_s in times]


USUAL = {"CP": "1", "EP": "1", "chunks": "1", "recompute": "–", "first, last": "–"}
"""Columns that are left out where all divisions have this in them."""


def make_table(answer: FoundDivisions) -> TextTable:
    """Makes the table of the best divisions, without the columns that have nothing to say of any of them."""
    groups = ("", "DP x TP x PP", *USUAL, "microb.")
    columns = (*groups, "time (s)", "MFU %", "exposed %", "bubble %", "GB", "half rate", "double rate")
    gives_way = ("double rate", "half rate", "exposed %", "bubble %", "GB", "MFU %", "first, last", "recompute")
    by_column = dict(zip(columns, zip(*map(_cells, list_rows(answer)), strict=True), strict=True))
    shown = {name: column for name, column in by_column.items() if set(column) != {USUAL.get(name)}}
    cells = tuple(zip(*shown.values(), strict=True))
    leave = tuple(name for name in gives_way if name in shown)
    return TextTable(answer.question.document["title"], tuple(shown), cells, 0, ("",) * len(cells), gives_way=leave)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    time_s = row["iteration_time_s"]
    ends = [row["first_blocks"], row["last_blocks"]]
    return (
        str(row["place"] or "–"),
        row["division"],
        str(row["context"]),
        str(row["experts"]),
        str(row["chunks"]),
        "all" if row["recompute"] == "full" else "–",
        "–" if ends == [None, None] else ", ".join("–" if count is None else str(count) for count in ends),
        f"{row['microbatches']} x {row['samples_of_microbatch']}",
        f"{time_s:.4g}",
        "–" if row["mfu"] is None else f"{100 * row['mfu']:.1f}",
        f"{100 * row['exposed_communication_s'] / time_s:.1f}",
        f"{100 * row['bubble_s'] / time_s:.1f}",
        f"{row['memory_bytes'] / 1e9:.0f}{' (divided)' if row['divides_gradients'] else ''}",
        f"{row['half_rate_time_s']:.4g} ({row['half_rate_place']}.)",
        f"{row['double_rate_time_s']:.4g} ({row['double_rate_place']}.)",
    )


def describe(answer: FoundDivisions) -> list[str]:
    """Describes, in paragraphs, what is fastest, what the rate changes, the search, and the assumptions."""
    return [_concluded(answer), " ".join(_order(answer)), *_sharded(answer), _searched(answer), *_assumed(answer)]


def _concluded(answer: FoundDivisions) -> str:
    """Says which division is the fastest, which ones are level with it, and which of these needs the least memory."""
    best, *others = answer.best
    said = f"Fastest: {best.candidate.choice}: {best.time_s:.4g} s."
    level = [each for each in others if each.time_s <= best.time_s * (1 + LEVEL_MARGIN)]
    if level:
        number, smallest = min(enumerate((best, *level), 1), key=lambda each: each[1].candidate.memory.total_bytes)
        rows = "Row 2 is" if len(level) == 1 else f"Rows 2 to {1 + len(level)} are"
        said += f" {rows} level with it, within {100 * LEVEL_MARGIN:.0f} %"
        if smallest is not best:
            sizes_gb = (each.candidate.memory.total_bytes / 1e9 for each in (smallest, best))
            said += ": row {} ({}) needs {:.0f} GB of memory for {:.0f}".format(
                number, smallest.candidate.choice.title, *sizes_gb
            )
        said += "."
    elif others:
        said += (
            f" The next, {others[0].candidate.choice}, takes {100 * (others[0].time_s / best.time_s - 1):.1f} % longer."
        )
    return said


def _searched(answer: FoundDivisions) -> str:
    left_out = "; ".join(f"{count:,}: {reason}" for reason, count in answer.left_out.items())
    pruned = answer.candidates - len(answer.estimated) - len(answer.refused)
    text = (
        f"Left out: {left_out or 'none'}. {answer.candidates:,} divisions fit into memory. {len(answer.estimated):,} were "
        f"estimated, and {pruned:,} were not: the least time that computation, pipeline and bytes permit them is not below "
        f"that of the {min(BEST, len(answer.estimated))} fastest. It is a lower bound and not an estimate."
    )
    if any(each.candidate.memory.divides_gradients for each in answer.best):
        text += (
            " Divisions whose memory is marked fit if replicas divide gradients too, as Llama 3 was trained; their times are "
            "without the reduce-scatters of single microbatches that this may take."
        )
    if answer.refused:
        text += f" {len(answer.refused)} could not be estimated: {'; '.join(dict.fromkeys(answer.refused.values()))}."
    return text


def _sharded(answer: FoundDivisions) -> list[str]:
    """Says what the names of ways to shard mean."""
    if not any(each.candidate.choice.family for each in answer.best):
        return []
    text = (
        "FSDP: all GPUs hold the model together; HSDP: those of each machine do, and machines are replicas; kept: parameters stay "
        "for the backward pass (reshard_after_forward = false). Each microbatch gathers parameters and scatters gradients."
    )
    if len(answer.best) > BEST:
        text += f" The rows without a place are the fastest of these, and not among the {BEST}."
    return [text]


def _order(answer: FoundDivisions) -> list[str]:
    """Sentences on the fastest divisions at half and at double the rate."""
    best, said = answer.best[0], []
    for factor, name in ((0.5, "half"), (2.0, "double")):
        other = answer.fastest_at(factor)
        sure = (
            ""
            if answer.complete[factor]
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


WHOLE_TRAININGS = (
    "All of a device's time per operation is in that share, so where it comes from whole trainings, their bubbles and "
    "communication are counted twice, and MFU here is too low. A device of kernels alone, such as h100-kernels, gives an "
    "upper bound."
)
KERNELS_ALONE = (
    "Nothing but kernels takes time, so MFU here is an upper bound: a training waits for its hosts, for stragglers and for "
    "failures too."
)


def _assumed(answer: FoundDivisions) -> list[str]:
    question = answer.question
    job = question.resolved.job
    link_bytes_per_s = job.costs.local_bytes_per_s
    links = "free links" if math.isinf(link_bytes_per_s) else f"links of {link_bytes_per_s / 1e9:.0f} GB/s each way"
    return [
        f"Assumed: {question.batch:,} samples of {question.sample_tokens:,} tokens in each iteration; machines of "
        f"{question.machine_gpus} GPUs with a NIC each; {links} inside a machine; 1F1B; sequence parallelism, a distributed "
        "optimizer and overlapped gradients; ring attention for context parallelism; experts that get as many tokens each; no "
        "software latency, no stragglers, no failures unless they are set.",
        f"Computation: {job.compute.source}. {KERNELS_ALONE if BY_KIND in job.compute.source else WHOLE_TRAININGS}",
        "Memory: bf16 parameters, fp32 gradients and Adam's states (ZeRO), activations by Korthikanti et al. 2022 with a "
        "fused attention; buffers of libraries and what allocators lose are not counted.",
        f"A model, not a run. {answer.cpu_s:.0f} s of CPU.",
    ]


def write_files(answer: FoundDivisions, folder: Path) -> None:
    """Writes the table as CSV and JSON, the chart, and a scenario of the fastest for `gradwire estimate`, into a folder
    that is there."""
    table_rows = list_rows(answer)
    write_records(folder / CSV_FILE, table_rows, list(table_rows[0]))
    replace_text(folder / JSON_FILE, json.dumps(as_json(answer), indent=1) + "\n")
    best = answer.best[0].candidate.choice
    replace_text(folder / SCENARIO_FILE, tomli_w.dumps(answer.question.scenario(best)))
    bars = [
        DivisionBar(
            str(division.candidate.choice),
            division.candidate.least(1.0).compute_s,
            division.bubble_s,
            division.exposed_s,
            division.times_s[0.5],
            division.times_s[2.0],
        )
        for division in answer.best
    ]
    save_chart(division_chart(bars, answer.question.document["title"]), folder)


def as_json(answer: FoundDivisions) -> dict[str, object]:
    """Returns everything of the answer."""
    return {
        "title": answer.question.document["title"],
        "divisions": list_rows(answer),
        "left_out": dict(answer.left_out),
        "fit_into_memory": answer.candidates,
        "estimated": len(answer.estimated),
        "refused": answer.refused,
        "fastest_at": {
            f"{factor:g}": {
                "division": str(answer.fastest_at(factor).candidate.choice),
                "iteration_time_s": answer.fastest_at(factor).times_s[factor],
                "sure": answer.complete.get(factor, True),
            }
            for factor in FACTORS
        },
        "words": describe(answer),
        "cpu_s": answer.cpu_s,
    }


def make_measured_table(rows_of_runs: Sequence[dict[str, Any]]) -> TextTable:
    """Measured and estimated times."""
    cells = tuple(
        (
            str(row["place"]),
            row["division"],
            f"{row['estimated_s']:.4g}",
            "–" if row["measured_s"] is None else f"{row['measured_s']:.4g}",
            "–" if row["difference"] is None else f"{100 * row['difference']:+.2f}",
            row["verdict"],
        )
        for row in rows_of_runs
    )
    headers = ("", "division", "estimate (s)", "measured (s)", "diff. %", "verdict")
    return TextTable("By packets, in part", headers, cells, 2, ("",) * len(cells))


def describe_measured(rows_of_runs: Sequence[dict[str, Any]], notes: Iterable[str]) -> list[str]:
    """Describes, in paragraphs, the parts that ran, their order, and the divisions that could not run. notes: on the parts."""
    said = list(dict.fromkeys(f"{note[0].upper()}{note[1:]}." for note in notes))
    measured = [row for row in rows_of_runs if row["measured_s"] is not None]
    if len(measured) > 1:
        order = [row["place"] for row in sorted(measured, key=lambda row: row["measured_s"])]
        holds = order == sorted(order)
        listed = ", ".join(map(str, order))
        said.append(
            f"By packets the order is {listed}, {'as by the estimates' if holds else 'which is not that of the estimates'}."
        )
    have_run = [row for row in rows_of_runs if row["verdict"] != NOT_RUN]
    if invalid := len(have_run) - len(measured):
        said.append(
            f"{invalid} of {len(have_run)} runs {'is' if invalid == 1 else 'are'} invalid, and such times are not "
            "results: the report of the runs says why."
        )
    said += [f"Not run: {row['division']}: {row['reason']}" for row in rows_of_runs if row["verdict"] == NOT_RUN]
    return said
