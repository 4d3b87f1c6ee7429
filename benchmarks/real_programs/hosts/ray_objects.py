"""Calls an actor on the other host of a cluster by Ray 1,000 times, each time after an answer, and fetches an object of 150 MB from it."""

import time

import numpy as np
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

CALLS, OBJECT_BYTES, HOSTS = 1000, 150_000_000, 2


class Far:
    """What runs there."""

    def ping(self) -> None:
        """Answers."""

    def make(self) -> np.ndarray:
        """An object, which stays there until it is fetched."""
        return np.ones(OBJECT_BYTES, np.uint8)


ray.init(address="auto", log_to_driver=False)
while len(nodes := [node for node in ray.nodes() if node["Alive"]]) < HOSTS:
    time.sleep(0.1)
here = ray.get_runtime_context().get_node_id()
(there,) = [node["NodeID"] for node in nodes if node["NodeID"] != here]
strategy = NodeAffinitySchedulingStrategy(there, soft=False)
far = ray.remote(Far).options(num_cpus=0, scheduling_strategy=strategy).remote()
ray.get(far.ping.remote())
begin_s = time.monotonic()
for _ in range(CALLS):
    ray.get(far.ping.remote())
print("RESULT requests", time.monotonic() - begin_s)
made = far.make.remote()
ray.wait([made], fetch_local=False)
begin_s = time.monotonic()
assert ray.get(made).nbytes == OBJECT_BYTES
print("RESULT file", time.monotonic() - begin_s)
