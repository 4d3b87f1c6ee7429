"""The doctor's proof that this machine carries networks in virtual time: it boots the kernel and sends one flow between two hosts over a
switch."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import Fault
from gradwire.runs.calibrate import PatternResult, flow_bytes, measure_one_flow
from gradwire.vm.doctor import Diagnosis
from gradwire.vm.kernel import cached_kernel
from gradwire.vm.kernel_death import KernelFault
from gradwire.vm.machines import Clock
from gradwire.vm.trial import try_kernel

NAME = "network in virtual time"
RATE_BPS = 10e9
TOLERANCE = 0.01
"""Tolerance of the flow's time: ten times the error that calibration finds (docs/trust/exactness.md), and less than any
defect would cost."""


def prove_network(findings: Sequence[Diagnosis]) -> Diagnosis:
    """Returns the result of one flow, or the reason why it was not tried, given the other findings. Takes some seconds; raises
    nothing."""
    kernel = cached_kernel() if all(finding.ok for finding in findings if finding.required) else None
    if kernel is None:
        lacking = ", ".join(finding.name for finding in findings if finding.required and not finding.ok)
        return Diagnosis(NAME, False, f"not tried, for lack of: {lacking}", "fix these first", required=False)
    try:
        boot_s = try_kernel(kernel, DEFAULT_MEMORY_MB, openvswitch=False)  # the flow needs it all the same
        flow = measure_one_flow(RATE_BPS, Clock())
    except KernelFault as fault:
        seen = "\n".join([str(fault).partition("\n")[0], *fault.last_words])
        return Diagnosis(NAME, False, seen, fault.cause.remedy)
    except (Fault, OSError) as fault:
        return Diagnosis(NAME, False, str(fault), "as it says; if it says nothing, please report this")
    return judge_flow(flow, boot_s)


def judge_flow(flow: PatternResult, boot_s: float) -> Diagnosis:
    """Returns the finding about a flow that was measured."""
    bits = flow_bytes(RATE_BPS) * 8
    measured, ideal = (bits / seconds / 1e9 for seconds in (flow.measured_s, flow.ideal_s))
    seen = f"one flow {measured:.2f} Gbit/s of {ideal:.2f} ({flow.ratio:.3f}), kernel booted in {boot_s:.1f} s"
    ok = abs(flow.ratio - 1) <= TOLERANCE
    mend = "" if ok else "please report this: in virtual time a slow machine slows no flow down"
    return Diagnosis(NAME, ok, seen, mend)
