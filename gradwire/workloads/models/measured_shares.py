"""What layers of each kind reach on a device, as timed: the tables of workloads/models/layer_times.py.

`python -m benchmarks.layer_shares` makes this table again from the rows in benchmarks/measured/, and
`python benchmarks/gpu/time_layers.py` times such rows on any GPU.
"""

from __future__ import annotations

from gradwire.workloads.models.layer_times import Share, Shares, Work

H100_PYTORCH = Shares(
    products={
        Work.CONV: (
            Share(0.148, 0.126, 0.116),
            Share(0.326, 0.322, 0.273),
            Share(0.588, 0.385, 0.313),
            Share(1.085, 0.555, 0.493),
            Share(1.767, 0.570, 0.532),
            Share(3.656, 0.630, 0.598),
            Share(6.953, 0.697, 0.658),
        ),
        Work.PRODUCT: (
            Share(0.213, 0.173, 0.175),
            Share(1.027, 0.644, 0.604),
            Share(2.042, 0.700, 0.711),
            Share(3.967, 0.746, 0.711),
            Share(8.297, 0.709, 0.723),
            Share(12.333, 0.733, 0.721),
        ),
        # All pairs of tokens count as FLOPs. Sequences of 1,024 tokens and more are timed with a causal mask, of which
        # the kernel leaves half out: hence more than the peak.
        Work.SCORES: (
            Share(0.217, 0.193, 0.057),
            Share(0.867, 0.411, 0.206),
            Share(1.734, 0.595, 0.343),
            Share(3.469, 0.834, 0.509),
            Share(16.546, 1.200, 0.787),
        ),
    },
    passes={
        Work.BATCH_NORM: (11.2, 11.0),
        Work.LAYER_NORM: (3.2, 8.7),
        Work.ADD: (3.2, 3.2),
        Work.POOL: (4.2, 7.8),
        Work.EMBEDDING: (2.3, 52.1),
        Work.AFTER_CONV: (7.0, 4.8),
        Work.AFTER_PRODUCT: (2.8, 4.3),
        Work.LOSS: (13.7, 14.6),
    },
    call_s=4e-6,
    source="layers timed on an H100 80GB HBM3 with PyTorch 2.11, cuDNN 9.19, bf16, kernels not fused (benchmarks/measured/h100_layers.csv)",
)
