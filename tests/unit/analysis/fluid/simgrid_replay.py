"""Replays a plan in SimGrid (https://simgrid.org), whose network shares links max-min fair.

It is run by the system's Python, which has `simgrid`, and knows nothing of gradwire's code. It reads a task as JSON from standard input
and prints the ends of its iterations in seconds. Each lane (a serial stream or a send queue) is an actor that takes its next op, sleeps or
sends, and then ends the op. TCP's part in SimGrid's model is switched off: no latency, no window limit, all of the bandwidth, no
cross traffic.
"""

from __future__ import annotations

import heapq
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from simgrid import Actor, Comm, Engine, Host, Semaphore, this_actor

PLAIN_SHARING = {
    "network/model": "CM02",
    "network/bandwidth-factor": 1,
    "network/latency-factor": 1,
    "network/TCP-gamma": 0,
    "network/weight-S": 0,
    "network/crosstraffic": 0,
}
YIELDS = 20
"""So often others may act before a lane chooses, so that ops which become ready at the same moment compete by their order."""


def platform(task: dict[str, Any]) -> str:
    """SimGrid's description of hosts, one-way links and routes."""
    hosts = [f'<host id="{host}" speed="1f"/>' for host in task["hosts"]]
    links = [
        f'<link id="{name}" bandwidth="{rate!r}Bps" latency="0s" sharing_policy="SHARED"/>'
        for name, rate in task["links"].items()
    ]
    routes = [
        f'<route src="{source}" dst="{target}" symmetrical="NO">'
        + "".join(f'<link_ctn id="{name}"/>' for name in names)
        + "</route>"
        for source, target, names in task["routes"]
    ]
    body = "\n".join([*hosts, *links, *routes])
    head = '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    return f'{head}<platform version="4.1"><zone id="all" routing="Full">{body}</zone></platform>'


class Lane:
    """A serial stream or a send queue: its waiting ops, and the count of those that have become ready."""

    def __init__(self, policy: str, orders: list[int], iterations: int) -> None:
        self.policy = policy
        self.ready = Semaphore(0)
        self._waiting: list[tuple[float, float, int, int]] = []
        self._turns = [(i, order) for i in range(iterations) for order in sorted(orders)][::-1]

    def push(self, iteration: int, op: int, order: int, now_s: float) -> None:
        keys = {"compute": (now_s, order), "fifo": (now_s, order), "reduce": (order, now_s)}
        first, second = keys.get(self.policy, (iteration, order))
        heapq.heappush(self._waiting, (first, second, iteration, op))
        self.ready.release()

    def take(self) -> tuple[int, int] | None:
        if not self._waiting:
            return None
        if self.policy == "counter":
            if self._waiting[0][:2] != self._turns[-1]:
                return None
            self._turns.pop()
        return heapq.heappop(self._waiting)[2:]


class Replay:
    """All ops of all iterations."""

    def __init__(self, task: dict[str, Any]) -> None:
        self.ops, self.iterations = task["ops"], task["iterations"]
        self.lanes = [Lane(lane["policy"], lane["orders"], self.iterations) for lane in task["lanes"]]
        self.followers: list[list[tuple[int, int]]] = [[] for _ in self.ops]
        for op, row in enumerate(self.ops):
            for on, lag in row["deps"]:
                self.followers[on].append((op, lag))
        self.waits = {
            (i, op): sum(lag <= i for _, lag in row["deps"]) + (row["kind"] == "recv")
            for i in range(self.iterations)
            for op, row in enumerate(self.ops)
        }
        self.left = len(self.waits)
        self.ends_s = [0.0] * self.iterations
        self.all_ended = Semaphore(0)

    def begin(self) -> None:
        for (iteration, op), waits in list(self.waits.items()):
            if not waits:
                self.become_ready(iteration, op)

    def become_ready(self, iteration: int, op: int) -> None:
        row = self.ops[op]
        if row["kind"] == "recv":
            self.end(iteration, op)
        else:
            self.lanes[row["lane"]].push(iteration, op, row["order"], Engine.clock)

    def dependency_ended(self, iteration: int, op: int) -> None:
        if iteration < self.iterations:
            self.waits[iteration, op] -= 1
            if not self.waits[iteration, op]:
                self.become_ready(iteration, op)

    def end(self, iteration: int, op: int) -> None:
        if self.ops[op]["concludes"]:
            self.ends_s[iteration] = max(self.ends_s[iteration], Engine.clock)
        for follower, lag in self.followers[op]:
            self.dependency_ended(iteration + lag, follower)
        self.left -= 1
        if not self.left:
            self.all_ended.release()

    def serve(self, lane: Lane) -> None:
        """The life of a lane."""
        Actor.self().daemonize()
        while True:
            lane.ready.acquire()
            for _ in range(YIELDS):
                this_actor.yield_()
            while (taken := lane.take()) is not None:
                self.perform(*taken)

    def perform(self, iteration: int, op: int) -> None:
        row = self.ops[op]
        if row["duration_s"]:
            this_actor.sleep_for(row["duration_s"])
        if row["route"]:
            Comm.sendto(Host.by_name(row["route"][0]), Host.by_name(row["route"][1]), row["bytes"])
        self.end(iteration, op)
        for recv in row["recvs"]:
            self.dependency_ended(iteration, recv)


def main() -> None:
    task = json.load(sys.stdin)
    engine = Engine(
        ["replay", "--log=root.thresh:warning", *(f"--cfg={key}:{value}" for key, value in PLAIN_SHARING.items())]
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "platform.xml"
        path.write_text(platform(task))
        engine.load_platform(str(path))
    replay = Replay(task)
    anywhere = Host.by_name(task["hosts"][0])

    def whole() -> None:
        replay.begin()
        replay.all_ended.acquire()

    Actor.create("whole", anywhere, whole)
    for number, lane in enumerate(replay.lanes):
        Actor.create(f"lane{number}", anywhere, replay.serve, lane)
    engine.run()
    print(json.dumps(replay.ends_s))


if __name__ == "__main__":
    main()
