"""Run by tests as a rank: each collective of PyTorch on the backend `nccl`, compared with what it has to yield."""

# mypy: ignore-errors

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

dist.init_process_group("nccl")
rank, ranks = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", 0)
numbers = torch.arange(ranks, device=device)


def check(name, holds):
    print(name, "right" if bool(holds) else "WRONG")


def full(value, *shape, dtype=torch.float32):
    return torch.full(shape, float(value), device=device, dtype=dtype)


x = full(rank + 1, 1000)
dist.all_reduce(x)
check("all_reduce", (x == ranks * (ranks + 1) / 2).all())
for operation, expected in ((dist.ReduceOp.MAX, ranks), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.AVG, (ranks + 1) / 2)):
    x = full(rank + 1, 1000, dtype=torch.bfloat16)
    dist.all_reduce(x, op=operation)
    check(f"all_reduce {operation}", (x == expected).all())
x = full(rank + 1, 40, 30).t()
dist.all_reduce(x)
check("not contiguous", (x == ranks * (ranks + 1) / 2).all())
x = full(rank, 10)
dist.broadcast(x, 1)
check("broadcast", (x == 1).all())
x = full(rank, 7)
dist.reduce(x, 0)
check("reduce", rank or (x == sum(range(ranks))).all())
parts = [full(-1, 5) for _ in range(ranks)]
dist.all_gather(parts, full(rank, 5))
check("all_gather", all((parts[peer] == peer).all() for peer in range(ranks)))
x = full(-1, 5 * ranks)
dist.all_gather_into_tensor(x, full(rank, 5))
check("all_gather_into_tensor", (x == numbers.repeat_interleave(5)).all())
x = full(-1, 5)
dist.reduce_scatter_tensor(x, numbers.float().repeat_interleave(5))
check("reduce_scatter_tensor", (x == rank * ranks).all())
x = full(-1, 5)
dist.reduce_scatter(x, [full(peer, 5) for peer in range(ranks)])
check("reduce_scatter", (x == rank * ranks).all())
x = full(-1, 2 * ranks)
dist.all_to_all_single(x, full(rank, 2 * ranks))
check("all_to_all_single", (x == numbers.repeat_interleave(2)).all())
parts = [full(-1, 3) for _ in range(ranks)]
dist.all_to_all(parts, [full(10 * rank + peer, 3) for peer in range(ranks)])
check("all_to_all", all((parts[peer] == 10 * peer + rank).all() for peer in range(ranks)))
parts = [full(-1, 4) for _ in range(ranks)] if rank == 0 else None
dist.gather(full(rank, 4), parts, 0)
check("gather", rank or all((parts[peer] == peer).all() for peer in range(ranks)))
x = full(-1, 4)
dist.scatter(x, [full(peer, 4) for peer in range(ranks)] if rank == 0 else None, 0)
check("scatter", (x == rank).all())
LARGE = 3 << 20
if rank == 0:
    dist.send(full(5, LARGE), 1)
if rank == 1:
    x = full(-1, LARGE)
    dist.recv(x, 0)
    check("send and recv", (x == 5).all())
x = full(-1, LARGE)
sends = dist.P2POp(dist.isend, full(rank, LARGE), (rank + 1) % ranks)
for work in dist.batch_isend_irecv([sends, dist.P2POp(dist.irecv, x, (rank - 1) % ranks)]):
    work.wait()
check("batch_isend_irecv", (x == (rank - 1) % ranks).all())
pair = dist.new_group([0, 1])
if rank < 2:
    x = full(1, 3)
    dist.all_reduce(x, group=pair)
    check("a group", (x == 2).all())
objects = [None] * ranks
dist.all_gather_object(objects, {"rank": rank})
check("all_gather_object", objects == [{"rank": peer} for peer in range(ranks)])
x = full(1, 3)
work = dist.all_reduce(x, async_op=True)
work.get_future().then(lambda future: future.value()).wait()
check("a future", (x == ranks).all())
x = full(1, 2 << 20)
dist.all_reduce(x, async_op=True)
torch.cuda.synchronize()
check("synchronize", (x == ranks).all())
try:
    dist.all_reduce(torch.ones(3))
    check("refused", False)
except RuntimeError:
    check("memory of the host is refused", True)
world = dist.group.WORLD
check("functional all_reduce", (functional.all_reduce(full(1, 4), "sum", world) == ranks).all())
x = functional.all_gather_tensor(full(rank, 2), 0, world)
check("functional all_gather", (x == numbers.repeat_interleave(2)).all())
check(
    "functional reduce_scatter", (functional.reduce_scatter_tensor(full(1, 2 * ranks), "sum", 0, world) == ranks).all()
)
check("functional all_to_all", (functional.all_to_all_single(full(rank, ranks), None, None, world) == numbers).all())
a, b = full(1, 2), full(1, 3)
with dist._coalescing_manager(device=device, async_ops=True) as together:
    dist.all_reduce(a)
    dist.all_reduce(b)
together.wait()
check("coalesced", (a == ranks).all() and (b == ranks).all())
