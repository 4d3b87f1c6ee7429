"""What `gradwire ccl` is asked in tests, which change some of it."""

from __future__ import annotations

from gradwire.runs.ccl import Given

USUAL = Given(
    machines=2,
    gpus=8,
    gpu="h100",
    nic="200gbit",
    nics=8,
    transport="rdma",
    links=None,
    nvswitch=True,
    amd=False,
    dtype="float",
    version="2.22",
    variables=(),
    latency=None,
    delay="0us",
    machine_rate=None,
    burst_cost=None,
    mtu_bytes=9000,
)
