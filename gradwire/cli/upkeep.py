"""Commands about the machine: `doctor`, `kernel` and `calibrate`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer
from rich.markup import escape

from gradwire.analysis.report.text_table import TextTable
from gradwire.cli import terminal
from gradwire.cli.proof import prove_network
from gradwire.cli.running import chosen_clock
from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import InputFault, MachineFault
from gradwire.network.fabric import Fabric
from gradwire.runs.calibrate import Calibration, calibrate_fabric
from gradwire.runs.cleaning import clean as remove_leavings
from gradwire.runs.launch.kernel import make_kernel_ready
from gradwire.runs.launch.machine_trial import trial_on
from gradwire.runs.stored.run_folder import RUNS
from gradwire.runs.wall_scale import choose_scale
from gradwire.vm.doctor import Diagnosis, diagnose
from gradwire.vm.kernel import build_kernel, cache_folder, cached_kernel
from gradwire.vm.machines import MEASURED
from gradwire.workloads.fields import HIGHEST_RATE_BPS, LOWEST_RATE_BPS
from gradwire.workloads.units import rate_bps, rate_text

FINDING_MARKS = {"good": "✓", "bad": "✗", "doubtful": "-"}
"""Marks of findings, by their tone."""


def kernel(*, force: bool, check: bool) -> None:
    """`gradwire kernel`. Raises MachineFault if there has to be a kernel and is none."""
    if check and not cached_kernel():
        raise MachineFault(f"kernel: none yet in {cache_folder()}; `gradwire kernel` builds it, in some minutes")
    if force:
        with terminal.screen().building_kernel() as show_step:
            build_kernel(show_step, anew=True)
    make_kernel_ready(terminal.screen())
    terminal.console.print(f"kernel: {cached_kernel()}", highlight=False, soft_wrap=True)


def clean(folders: Sequence[Path], *, dry_run: bool) -> None:
    """`gradwire clean`."""
    for folder in folders:
        if not folder.is_dir():
            raise InputFault(f"{folder}: no such folder; give run folders, or folders of them, like {RUNS}")
    places = list(folders) or [RUNS]
    removed = 0
    with terminal.interruptible("interrupted"):
        for leaving in remove_leavings(places, cache_folder(), dry_run=dry_run):
            removed += 1
            verb = "would remove" if dry_run else "removed"
            terminal.console.print(f"{verb} {leaving.kind} {escape(leaving.what)}", highlight=False, soft_wrap=True)
    if not removed:
        looked = ", ".join(map(str, places))
        terminal.console.print(
            f"nothing was left behind (runs looked at: {escape(looked)})", highlight=False, soft_wrap=True
        )


def doctor() -> None:
    """`gradwire doctor`."""
    doing = "looking around, booting the kernel, sending a flow"
    with terminal.interruptible("interrupted"), terminal.errors.status(doing):
        findings = diagnose()
        findings.append(prove_network(findings))
    terminal.show(findings_table(findings))
    if not all(finding.ok for finding in findings if finding.required):
        raise typer.Exit(MachineFault.exit_status)


def findings_table(findings: Sequence[Diagnosis]) -> TextTable:
    """Table of what a machine has and lacks, with the commands that fix it."""
    tones = tuple("good" if found.ok else "bad" if found.required else "doubtful" for found in findings)
    rows = tuple(
        (FINDING_MARKS[tone], found.name, found.detail, found.mend) for tone, found in zip(tones, findings, strict=True)
    )
    return TextTable("", ("", "what", "found", "to fix"), rows, 4, tones, toned=0)


def calibrate(hosts: int, rate: str, clock_name: str, scale: int | None, *, as_json: bool) -> None:
    """`gradwire calibrate`."""
    try:
        line_rate_bps = rate_bps(rate)
    except ValueError as error:
        raise InputFault(f"--rate {rate}: {error}") from error
    if not LOWEST_RATE_BPS <= line_rate_bps <= HIGHEST_RATE_BPS:
        bounds = f"{rate_text(LOWEST_RATE_BPS)} to {rate_text(HIGHEST_RATE_BPS)}"
        raise InputFault(f"--rate {rate}: must be {bounds}")
    clock = chosen_clock(clock_name, scale)
    if clock.name == "virtual":
        make_kernel_ready(terminal.screen())
    with terminal.interruptible("interrupted"), terminal.errors.status("calibrating") as status:
        trial_on(clock)(DEFAULT_MEMORY_MB)
        if clock.scale == MEASURED:
            chosen = choose_scale([Fabric(hosts, line_rate_bps)])
            clock = replace(clock, scale=chosen.number)
            terminal.errors.print(chosen.announcement(), highlight=False)
        result = calibrate_fabric(hosts, line_rate_bps, clock, lambda name: status.update(f"calibrating: {name} done"))
    if as_json:
        print(json.dumps(result.as_dict(), indent=1))
    else:
        terminal.show(calibration_table(result))


def calibration_table(result: Calibration) -> TextTable:
    """Measured and ideal times, and the share that a low class gets while a high one sends."""
    rows = (
        *(
            (name, f"{pattern.measured_s:.6f} s", f"{pattern.ideal_s:.6f} s", f"{pattern.ratio:.4f}")
            for name, pattern in result.patterns.items()
        ),
        *((f"priority at a {name}", f"low class {share:.4%}", "0 %", "") for name, share in result.low_share.items()),
    )
    title = f"{result.hosts} hosts, {result.rate_bps / 1e9:g} Gbit/s, {result.clock} clock"
    return TextTable(title, ("pattern", "measured", "ideal", "ratio"), rows, 1, ("",) * len(rows))
