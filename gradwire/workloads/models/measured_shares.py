"""Shares of a device's rates that layers of each kind reach, as timed: the tables of workloads/models/layer_times.py.

`python -m benchmarks.layer_shares` makes this table again from the rows in benchmarks/measured/, and
`python benchmarks/gpu/time_layers.py` times such rows on any GPU.
"""

from __future__ import annotations

from gradwire.workloads.models.layer_times import Share, Shares, WorkKind

H100_PYTORCH = Shares(
    products={
        WorkKind.CONV: (
            Share(0.148, 0.127, 0.115),
            Share(0.326, 0.327, 0.272),
            Share(0.588, 0.387, 0.324),
            Share(1.085, 0.572, 0.487),
            Share(1.767, 0.576, 0.536),
            Share(3.656, 0.643, 0.603),
            Share(6.953, 0.713, 0.670),
        ),
        WorkKind.PRODUCT: (
            Share(1.336, 0.744, 0.645),
            Share(2.042, 0.702, 0.718),
            Share(3.967, 0.750, 0.706),
            Share(8.242, 0.717, 0.732),
            Share(12.333, 0.740, 0.703),
        ),
        # All pairs of tokens count as FLOPs. Sequences of 1,024 tokens and more are timed with a causal mask, of which
        # the kernel leaves half out: hence more than the peak.
        WorkKind.SCORES: (
            Share(0.217, 0.197, 0.065),
            Share(0.867, 0.417, 0.211),
            Share(1.734, 0.604, 0.345),
            Share(3.469, 0.767, 0.509),
            Share(16.546, 1.142, 0.783),
        ),
    },
    passes={
        WorkKind.BATCH_NORM: (11.0, 10.7),
        WorkKind.LAYER_NORM: (3.2, 8.8),
        WorkKind.ADD: (3.2, 3.2),
        WorkKind.POOL: (4.2, 7.8),
        WorkKind.EMBEDDING: (1.5, 51.4),
        WorkKind.AFTER_CONV: (7.4, 5.1),
        WorkKind.AFTER_PRODUCT: (2.8, 5.4),
        WorkKind.LOSS: (13.8, 14.5),
    },
    call_s=4e-6,
    source="layers timed on an H100 80GB HBM3 with PyTorch 2.11, cuDNN 9.19, bf16, kernels not fused (benchmarks/measured/h100_layers.csv)",
)
