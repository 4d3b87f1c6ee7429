"""Small algorithms of MSCCL, as msccl-tools writes them."""

from __future__ import annotations

from collections.abc import Sequence

Step = tuple[str, tuple[str, int], tuple[str, int]]
"""Type, source and target."""
NOWHERE = ("i", -1)


def step(
    number: int,
    kind: str,
    source: tuple[str, int],
    target: tuple[str, int],
    depends: tuple[int, int] = (-1, -1),
    count: int = 1,
) -> str:
    """A step."""
    ends = f'srcbuf="{source[0]}" srcoff="{source[1]}" dstbuf="{target[0]}" dstoff="{target[1]}"'
    return (
        f'<step s="{number}" type="{kind}" {ends} cnt="{count}" depid="{depends[0]}" deps="{depends[1]}" hasdep="0"/>\n'
    )


def block(number: int, sends_to: int, receives_from: int, steps: Sequence[str], channel: int = 0) -> str:
    """A thread block."""
    return f'<tb id="{number}" send="{sends_to}" recv="{receives_from}" chan="{channel}">\n{"".join(steps)}</tb>\n'


def algorithm(collective: str, blocks: Sequence[Sequence[str]], chunks: int, *, in_place: bool = False) -> str:
    """A program of GPUs with these thread blocks."""
    gpus = "".join(
        f'<gpu id="{gpu}" i_chunks="{chunks}" o_chunks="{chunks}" s_chunks="{chunks}">\n{"".join(of_gpu)}</gpu>\n'
        for gpu, of_gpu in enumerate(blocks)
    )
    said = f'proto="Simple" nchannels="1" nchunksperloop="{chunks}" ngpus="{len(blocks)}" coll="{collective}" inplace="{int(in_place)}"'
    return f'<!-- made up -->\n<algo name="small" {said}>\n{gpus}</algo>\n'


def ring_of_three() -> str:
    """An all-reduce in place around a ring, by one thread block on each GPU and all types that it can have."""
    blocks = []
    for gpu in range(3):
        spots = [("i", (gpu - behind) % 3) for behind in range(5)]
        kinds = ("s", "rrs", "rrcs", "rcs", "r")
        steps = [step(number, kind, spot, spot) for number, (kind, spot) in enumerate(zip(kinds, spots, strict=True))]
        blocks.append([block(0, (gpu + 1) % 3, (gpu - 1) % 3, steps)])
    return algorithm("allreduce", blocks, 3, in_place=True)


def exchange_of_two() -> str:
    """An all-reduce from input to output: each GPU copies its own, another thread block gets the other's, and adds it."""
    blocks = []
    for gpu in range(2):
        own = [step(0, "cpy", ("i", 0), ("o", 0), count=2), step(1, "nop", NOWHERE, NOWHERE, (1, 1))]
        own.append(step(2, "re", ("s", 0), ("o", 0), count=2))
        others = [step(0, "s", ("i", 0), NOWHERE, count=2), step(1, "r", NOWHERE, ("s", 0), count=2)]
        blocks.append([block(0, -1, -1, own), block(1, 1 - gpu, 1 - gpu, others)])
    return algorithm("allreduce", blocks, 2)
