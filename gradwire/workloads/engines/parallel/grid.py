"""Who is in which group: a job's workers as a grid of tensor, data and pipeline ranks.

Source: Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC 2021.
Neighbours share a layer's products (tensor), so that they are on one host where hosts have that many GPUs; then come replicas (data), then
stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwire.faults import InputFault


@dataclass(frozen=True)
class Grid:
    """Workers by stage, replica and share of a layer: worker = (stage * data + replica) * tensor + share."""

    tensor: int
    data: int
    stages: int

    @staticmethod
    def of(workers: int, tensor: int, stages: int) -> Grid:
        """The grid of so many workers, as many replicas as they make. Raises InputFault if they make no whole number of replicas."""
        if workers % (tensor * stages):
            raise InputFault(
                f"cluster.workers = {workers}: must be a multiple of strategy.options.tensor = {tensor} times "
                f"strategy.options.stages = {stages}, the workers of one replica"
            )
        return Grid(tensor, workers // (tensor * stages), stages)

    def worker(self, stage: int, replica: int, share: int) -> int:
        """Number of a worker."""
        return (stage * self.data + replica) * self.tensor + share

    def place(self, worker: int) -> tuple[int, int, int]:
        """Stage, replica and share of a worker."""
        rest, share = divmod(worker, self.tensor)
        return (*divmod(rest, self.data), share)

    def tensor_groups(self, stage: int) -> list[list[int]]:
        """Workers of a stage that share layers' products."""
        return [[self.worker(stage, replica, share) for share in range(self.tensor)] for replica in range(self.data)]

    def data_groups(self, stage: int) -> list[list[int]]:
        """Workers of a stage that hold the same parameters, but for experts'."""
        return self._of_replicas(stage, [range(self.data)])

    def neighbours(self, stage: int, count: int) -> list[list[int]]:
        """Workers of a stage with the same share of so many neighbouring replicas, which have experts, or samples, between them."""
        return self._of_replicas(stage, [range(first, first + count) for first in range(0, self.data, count)])

    def same_experts(self, stage: int, experts: int) -> list[list[int]]:
        """Workers of a stage that hold the same experts."""
        return self._of_replicas(stage, [range(first, self.data, experts) for first in range(experts)])

    def _of_replicas(self, stage: int, groups: Sequence[range]) -> list[list[int]]:
        return [
            [self.worker(stage, replica, share) for replica in replicas]
            for replicas in groups
            for share in range(self.tensor)
        ]
