"""Process groups of a job in which only this rank exists: PyTorch's fake ones, whatever backend the script asks for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.testing._internal.distributed.fake_pg import FakeStore

REFUSED = 3
"""Exit status of a process that may not be a rank."""


class ProcessGroups:
    """All process groups that the script makes, also those that this rank is not in: what other ranks do in theirs
    follows from them. They are numbered in the order in which they are made, and equal ones have one number."""

    def __init__(self, rank: int, world: int) -> None:
        self._rank, self._world = rank, world
        self.numbers: dict[tuple[int, ...], int] = {tuple(range(world)): 0}

    def learn(self, ranks: Sequence[int]) -> int:
        """The number of a group of these ranks."""
        return self.numbers.setdefault(tuple(int(rank) for rank in ranks), len(self.numbers))

    def name(self, group: Any) -> str:
        """Returns the name of a process group in the recorded file."""
        return str(self.learn(dist.get_process_group_ranks(group)))

    def rank_in(self, group: Any, place: int) -> int:
        """The rank at a place of a process group."""
        return int(dist.get_process_group_ranks(group)[place])

    def replace(self, refuse: Callable[[], None]) -> None:
        """Makes all process groups fake from now on. refuse: what a fork of this process does that becomes a rank."""
        own = os.getpid()
        c10d: Any = distributed_c10d
        initialise, make, split = c10d.init_process_group, c10d._new_process_group_helper, c10d.split_group
        tagged = c10d._new_group_with_tag

        def init_process_group(*_: Any, **named: Any) -> None:
            if os.getpid() != own:
                refuse()
                os._exit(REFUSED)
            kept = {name: named[name] for name in ("timeout", "group_name") if name in named}
            initialise("fake", store=FakeStore(), rank=self._rank, world_size=self._world, **kept)

        def new_process_group_helper(size: int, place: int, ranks: Any, _: Any, *rest: Any, **named: Any) -> Any:
            named.pop("device_id", None)
            named["backend_options"] = None
            return make(size, place, ranks, "fake", *rest[:2], **named)

        def new_group_with_tag(ranks: Any = None, *rest: Any, **named: Any) -> Any:
            if ranks is not None:
                self.learn(sorted(ranks) if named.get("sort_ranks", True) else ranks)
            return tagged(ranks, *rest, **named)

        def split_group(parent_pg: Any = None, split_ranks: Any = None, *rest: Any, **named: Any) -> Any:
            for ranks in split_ranks or ():
                self.learn(ranks)
            return split(parent_pg, split_ranks, *rest, **named)

        for old, new in (
            (initialise, init_process_group),
            (make, new_process_group_helper),
            (tagged, new_group_with_tag),
            (split, split_group),
        ):
            _replace_everywhere(old, new)


def _replace_everywhere(old: Any, new: Any) -> None:
    """Puts another function in the place of one, in all modules that have imported it by its name."""
    for module in list(sys.modules.values()):
        names = [name for name, value in list(getattr(module, "__dict__", {}).items()) if value is old]
        for name in names:
            setattr(module, name, new)


def refuse_ranks(tell: Callable[[], None]) -> None:
    """Ends this process when it becomes a rank: one that the script started itself."""

    def init_process_group(*_: Any, **__: Any) -> None:
        tell()
        os._exit(REFUSED)

    _replace_everywhere(distributed_c10d.init_process_group, init_process_group)
