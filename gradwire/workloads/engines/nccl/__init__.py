"""NCCL's way to divide and send a collective: what it searches, what it chooses, and in which pieces, per version.

NCCL needs a GPU to run, but how it chooses is public. `tables` has its numbers, `search` what its topology search finds
on a machine, `chooser` the choice of algorithm and protocol, `pieces` channels, chunks and slices. All of it follows
https://github.com/NVIDIA/nccl at the tags that `tables` names.
"""
