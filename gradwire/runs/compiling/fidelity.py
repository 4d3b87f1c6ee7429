"""By how much a run's bytes and rates may be divided, for a wanted fidelity, and what a division does.

Bytes and rates divided by the same number leave every time as it is, and cost less to emulate. What does not shrink is the grain of the
network: bursts of up to fabric.gso, and the headers of messages. So the larger the number, the longer a burst takes beside an iteration.
What that does to an iteration is not the same for all plans: a ring passes on what it gets and is delayed by a burst at each step, and a
parameter server whose port is busy all the time is not. So the fluid engine says it, with messages that arrive a burst late, and as early
as idle ports let them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gradwire.analysis.bounds import slowest_bps
from gradwire.analysis.fluid.estimate import Buffered, SendEnds, estimate
from gradwire.datatypes.fabric import ETHERNET_HEADER_BYTES, IP_TCP_HEADER_BYTES, PREAMBLE_FCS_GAP_BYTES, Fabric
from gradwire.datatypes.plan import Plan
from gradwire.files import replacing
from gradwire.runs.compiling.ideal_times import fluid_digest, ideal_times
from gradwire.runs.protocol import built_fabric, decoded
from gradwire.runs.stored.spines import Spines
from gradwire.vm.code_digest import sources_digest
from gradwire.vm.kernel import cache_folder
from gradwire.workloads.stand_in import scaled_fabric

MESSAGE_BYTES = 24 + 2 * (ETHERNET_HEADER_BYTES + IP_TCP_HEADER_BYTES + PREAMBLE_FCS_GAP_BYTES)
"""What a message has beside its payload: its own header (agents/wire), that of its last segment, which is not full, and an ACK."""
MOST = 2**20
"""The largest division."""
CODE = ("gradwire.runs.compiling.fidelity", "gradwire.runs.compiling.forced")
"""What decides a division, beside estimates."""


@dataclass(frozen=True)
class Division:
    """What bytes and rates are divided by, and what that may do to the iteration time, as a share of it."""

    number: int = 1
    error: float = 0.0


UNDIVIDED = Division()


def division_for(plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds, fidelity: float) -> Division:
    """The largest power of 2 by which all of a point's plans may be divided. Raises InternalFault for a plan that gets stuck.

    fidelity: a share of the iteration time. 1 if even that moves it by more, or if messages are no longer than bursts, for then a smaller
    one takes no less time to emulate.
    """

    def found() -> Division:
        most = min(_useful(plan, fabric) for plan in plans.values())
        errors: dict[int, float] = {1: 0.0}

        def fits(number: int) -> bool:
            errors[number] = max(division_error(plan, fabric, send_ends, number) for plan in plans.values())
            return errors[number] <= fidelity

        number = _largest(fits, most)
        return Division(number, errors[number])

    return kept_division(plans, fabric, send_ends, repr(fidelity), found)


def kept_division(
    plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds, wanted: str, found: Callable[[], Division]
) -> Division:
    """What is `found` for these plans, from the cache if it was found before. wanted: what is asked, in words."""
    path = _path(plans, fabric, send_ends, wanted)
    with suppress(OSError, msgspec.DecodeError):
        return decoded(path.read_bytes(), Division)
    division = found()
    with suppress(OSError):  # without it, the next one to ask computes it again
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, on_disk=False) as partial:
            partial.write_bytes(msgspec.json.encode(division))
    return division


def division_error(plan: Plan, fabric: Fabric, send_ends: SendEnds, number: int) -> float:
    """What dividing a plan's bytes and its fabric's rates by `number` may do to its iteration time, as a share of it.

    Bursts of the divided network, in its own time: messages arrive one late, as its slowest ports pass it on, or early by what idle ports
    let through at once. On top come the headers of messages, and with `Buffered` that sockets, which are not divided, hold more of an
    iteration.
    """
    divided = scaled_fabric(fabric, number, keep_burst=True)
    burst_s = divided.gso_bytes * 8 / slowest_bps(divided)
    # In bytes of the undivided network, which the plan has.
    early_bytes = divided.grain_s(exact_timers=True) * fabric.rate_bps / 8 * fabric.goodput_share()
    rules = [Buffered(send_ends.unsent_bytes * number)] if isinstance(send_ends, Buffered) else []
    built = built_fabric(fabric, [plan])
    spine_of = Spines(built).spine_of
    exact_s = ideal_times(plan, fabric, send_ends).iteration_s
    moved_s = [
        estimate(plan, built, spine_of, send_ends=send_ends, latency_s=burst_s).iteration_s,
        estimate(plan, built, spine_of, send_ends=send_ends, early_bytes=round(early_bytes)).iteration_s,
        *(estimate(plan, built, spine_of, send_ends=rule).iteration_s for rule in rules),
    ]
    return max(abs(time_s / exact_s - 1) for time_s in moved_s) + header_share(plan, number)


def header_share(plan: Plan, number: int) -> float:
    """Bytes beside the payload over all bytes, of what crosses the divided network."""
    remote = plan.is_remote()
    payload_bytes = int(plan.ops.size_bytes[remote].sum()) / number
    return MESSAGE_BYTES * int(remote.sum()) / payload_bytes if payload_bytes else 0.0


def _useful(plan: Plan, fabric: Fabric) -> int:
    """The largest power of 2 that leaves the mean message longer than a burst; 1 at least."""
    remote = plan.is_remote()
    count = int(remote.sum())
    ratio = int(plan.ops.size_bytes[remote].sum()) // (count * fabric.gso_bytes) if count else 1
    return min(MOST, 1 << max(0, ratio.bit_length() - 1))


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest power of 2 up to `most` that fits, where smaller ones do if a larger one does; 1 needs not."""
    low, high = 0, most.bit_length() - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(1 << middle) else (low, middle - 1)
    return 1 << low


def _path(plans: Mapping[str, Plan], fabric: Fabric, send_ends: SendEnds, wanted: str) -> Path:
    code = sources_digest(CODE)
    digests = [plan.digest() for plan in plans.values()]
    content = "\0".join([code, fluid_digest(), *digests, repr(fabric.to_json()), repr(send_ends), wanted])
    return cache_folder() / "divisions" / hashlib.sha256(content.encode()).hexdigest()[:24]
