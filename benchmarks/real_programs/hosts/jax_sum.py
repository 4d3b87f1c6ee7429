"""Adds arrays of all hosts by JAX, whose collectives are Gloo's; the first host prints what an all-reduce takes."""

import os
import time

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

NUMBERS, TIMES = 4_000_000, 5
"""Of four bytes each, and how often they are added."""

hosts, place = os.environ["GRADWIRE_HOSTS"].split(), int(os.environ["GRADWIRE_INDEX"])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(coordinator_address=f"{hosts[0]}:9999", num_processes=len(hosts), process_id=place)
mesh = Mesh(np.array(jax.devices()), ("hosts",))
by_host = PartitionSpec("hosts")
add = jax.jit(
    jax.shard_map(lambda part: jax.lax.psum(part, "hosts"), mesh=mesh, in_specs=by_host, out_specs=PartitionSpec())
)
numbers = jax.make_array_from_callback(
    (len(hosts), NUMBERS), NamedSharding(mesh, by_host), lambda _: np.ones((1, NUMBERS), np.float32)
)
add(numbers).block_until_ready()
begin_s = time.monotonic()
for _ in range(TIMES):
    added = add(numbers).block_until_ready()
if place == 0:
    assert float(added[0, 0]) == len(hosts)
    print("RESULT all-reduce", (time.monotonic() - begin_s) / TIMES)
jax.distributed.shutdown()
