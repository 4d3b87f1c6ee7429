"""The plan of what examples/ddp.py does: ten layers of 3,686,400 bytes of gradients, each 2 ms forward and 4 ms backward, in buckets."""

from __future__ import annotations

from typing import Any

HOSTS = 8
LAYERS, LAYER_BYTES = 10, 320 * 320 * 3 * 3 * 4
ITERATION_S = 0.06
BUCKET_MIB = 8


def scenario(rate_gbps: int) -> dict[str, Any]:
    """A scenario, as `gradwire.run` takes it.

    A bucket is closed by the gradient that brings it to 8 MiB: three layers, three, three, and the one that is left.
    """
    layer = {
        "kind": "conv",
        "size": [f"{LAYER_BYTES}B"],
        "forward": f"{ITERATION_S / LAYERS / 3 * 1e3:g}ms",
        "backward": f"{ITERATION_S / LAYERS / 3 * 2e3:g}ms",
    }
    return {
        "title": "DDP's gradients as a plan",
        "cluster": {"workers": HOSTS},
        "fabric": {"rate": f"{rate_gbps}gbit"},
        "model": {"name": "ten", "layers": [{"name": f"conv{index}", **layer} for index in range(LAYERS)]},
        "strategy": {"name": "lazy-allreduce", "options": {"threshold_bytes": BUCKET_MIB << 20}},
    }
