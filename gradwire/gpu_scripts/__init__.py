"""PyTorch scripts for GPUs, with PyTorch's build for CPUs: the CPU computes the numbers, a clock of the device takes the time,
and RCCL carries the collectives.

All of this runs in the script's own Python, which has torch and nothing of gradwire's dependencies.
"""
