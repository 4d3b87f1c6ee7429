"""Whether a point's model fits into the memory of its device, said before it is run or estimated."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.faults import InputFault
from gradwire.scenario.loading import Point
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.workloads.divisions.job_memory import job_memory


def memory_warnings(points: Sequence[Point]) -> list[str]:
    """Returns a sentence for each model, strategy and device that do not go together, without its full stop."""
    return list(dict.fromkeys(text for point in points if (text := memory_warning(point))))


def memory_warning(point: Point) -> str:
    """Returns how far a worker's memory is exceeded; "" where it is not, or where the device's is not known."""
    model = point.section.model
    if not model.device or model.layers or model.trace is not None or point.section.job:
        return ""
    catalogue = point.resolved.catalogue
    # Where an iteration's time is given, the device may have any name.
    memory_bytes = catalogue.device(model.device).memory_bytes if model.device in catalogue.devices else None
    if memory_bytes is None:
        return ""
    # A few blocks stand for all.
    whole = ResolvedPoint(point.section.model_copy(update={"model": model.model_copy(update={"blocks": None})}))
    try:
        needed = job_memory(whole.job, whole.strategy, whole.options)
    except InputFault:
        return ""  # A division that does not exist is refused when it is compiled.
    if needed.total_bytes <= memory_bytes:
        return ""
    parts = [f"states {needed.states_bytes / 1e9:.1f}", f"activations {needed.activations_bytes / 1e9:.1f}"]
    parts += [f"gathered {needed.buffers_bytes / 1e9:.1f}"] if needed.buffers_bytes else []
    return (
        f"{model.name} by {whole.strategy.name}: a worker needs {needed.total_bytes / 1e9:.1f} GB ({', '.join(parts)}), but "
        f"{model.device} has {memory_bytes / 2**30:.0f} GiB: such a job does not run there as it is"
    )
