"""Runs the rows that are of real programs: one per core, smallest first, and none that has run before."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.executing.executor_choice import Where
from gradwire.runs.judged import JudgedRun
from gradwire.runs.launch.scenario_run import Prepared, carry_out_several, prepare
from gradwire.runs.screen import Screen
from gradwire.scenario.loading import ScenarioOrigin
from gradwire.scenario.scenario_files import resolved_scenario
from gradwire.vm.machines import Clock
from reproduction.world import additions
from reproduction.world.cells import Planned, Programs
from reproduction.world.host_costs import FOLDER, build
from reproduction.world.predicting import Predicted

NEEDS = "import torch.distributed; assert torch.distributed.is_gloo_available()"
LONGEST_IMPORT_S = 300
SHARE_OF_MEMORY = 0.5
"""Of this machine, which rows that run at a time may take together, unless the command says how many they are: hosts with
PyTorch and tensors fill what they are given, unlike those of plans."""


def refuse_unfit(python: Path) -> Path:
    """The absolute path of a Python that has PyTorch with Gloo. Raises InputFault for another."""
    if not python.is_file():
        raise InputFault(f"--python {python}: there is no such file")
    try:
        command = [str(python), "-c", NEEDS]
        tried = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_IMPORT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputFault(f"--python {python}: cannot be run: {error}") from error
    if tried.returncode:
        last = tried.stderr.strip().rpartition("\n")[2]
        raise InputFault(f"--python {python}: has no PyTorch with Gloo ({last}): `{python} -m pip install torch`")
    # Not resolved: the Python of a virtual environment is a link, and another without its environment.
    return python.absolute()


def run_programs(
    wanted: Iterable[Programs], python: Path | None, jobs: int | None, command: str, screen: Screen
) -> dict[Planned | Programs, Predicted]:
    """What each of them came to. On Ctrl-C, what is complete is kept, KeyboardInterrupt is raised, and the same call
    continues from there. They run on this machine, whose files they are.

    python: one that has PyTorch; None where no row needs it. jobs: how many at a time; None: as many as cores and memory hold.
    command: what the runs' reports show as having begun them. Raises the Fault of a scenario that is wrong, and
    MachineFault where what real programs need cannot be built.
    """
    documents = {programs: programs.document(str(python or sys.executable)) for programs in wanted}
    if not documents:
        return {}
    if any(programs.needs_torch for programs in documents):
        build()
    smallest_first = sorted(documents, key=lambda programs: _memory_mb(documents[programs]))
    prepared = []
    for programs in smallest_first:
        document = documents[programs]
        scenario = resolved_scenario(document, ScenarioOrigin.given(document))
        prepared.append(prepare(scenario, Clock(), FOLDER / f"{programs.name}-{_digest(document)}", screen))
    where = Where(jobs=jobs or jobs_for(max(map(_memory_mb, documents.values())), _machine_bytes(), cores()))
    if any(programs.needs_torch and _is_to_run(each) for programs, each in zip(smallest_first, prepared, strict=True)):
        _warn_of_other_speed(screen)
    done = carry_out_several(prepared, where, command, screen)
    return {programs: predicted_by(programs, each.runs[0]) for programs, each in zip(smallest_first, done, strict=True)}


def _is_to_run(prepared: Prepared) -> bool:
    return any(not planned.stored.is_of(planned.key) for planned in prepared.planned)


def _warn_of_other_speed(screen: Screen) -> None:
    if text := additions.warning(additions.addition_s()):
        screen.warn(text)


def jobs_for(largest_mb: int, machine_bytes: int, machine_cores: int) -> int:
    """How many rows run at a time, of which the largest takes so much memory, on a machine with this memory and cores."""
    return max(1, min(machine_cores, int(machine_bytes * SHARE_OF_MEMORY) // (largest_mb << 20)))


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def predicted_by(programs: Programs, run: JudgedRun[Any, Any]) -> Predicted:
    """What a run of programs predicts; nothing where it is not a result, or where nothing was reported."""
    rows = [each.figures for each in run.result.figures if programs.figure in each.figures]
    if not run.result.valid or not rows:
        return Predicted(None, "reported nothing" if run.result.valid else run.result.verdict.summary)
    values = [float(row[programs.figure]) for row in sorted(rows, key=lambda row: int(row[programs.ordered_by]))]
    return Predicted(programs.value(values), seen_by(programs, values), run.result.wall_s)


def seen_by(programs: Programs, values: list[float]) -> str:
    """What the run reported, for the row's remark."""
    return (
        f"in the run, {programs.figure} of each {programs.ordered_by}: {', '.join(f'{value:.4g}' for value in values)}"
    )


def _memory_mb(document: dict[str, Any]) -> int:
    return int(document["run"]["memory_mb"])


def _digest(document: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:8]
