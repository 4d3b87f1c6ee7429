"""Every host sends as many bytes to every other, all at once, in SimGrid with its default model of a TCP network.

    /usr/bin/python3 simgrid_all_to_all.py HOSTS BYTES_PER_FLOW RATE_BPS

Run by the system's Python, which has `simgrid`. Prints the simulated seconds.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from simgrid import Actor, Engine, Host, Mailbox


def platform(hosts: int, rate_bps: float) -> str:
    """A star: a link to the switch and one from it for each host."""
    names = range(hosts)
    bodies = [f'<host id="h{host}" speed="1f"/>' for host in names]
    bodies += [
        f'<link id="{way}{host}" bandwidth="{rate_bps / 8!r}Bps" latency="1us"/>'
        for host in names
        for way in ("up", "down")
    ]
    bodies += [
        f'<route src="h{a}" dst="h{b}" symmetrical="NO"><link_ctn id="up{a}"/><link_ctn id="down{b}"/></route>'
        for a, b in itertools.permutations(names, 2)
    ]
    head = '<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">'
    return f'{head}<platform version="4.1"><zone id="all" routing="Full">{"".join(bodies)}</zone></platform>'


def send(name: str, size_bytes: int) -> None:
    """One flow's sender."""
    Mailbox.by_name(name).put("", size_bytes)


def receive(name: str) -> None:
    """One flow's receiver."""
    Mailbox.by_name(name).get()


def main() -> None:
    """Builds the platform, runs, prints the end."""
    hosts, size_bytes, rate_bps = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    engine = Engine(["all-to-all", "--log=root.thres:critical"])
    with TemporaryDirectory() as folder:
        path = Path(folder) / "platform.xml"
        path.write_text(platform(hosts, rate_bps), encoding="utf-8")
        engine.load_platform(str(path))
    for a, b in itertools.permutations(range(hosts), 2):
        name = f"{a} to {b}"
        Actor.create(f"send {name}", Host.by_name(f"h{a}"), send, name, size_bytes)
        Actor.create(f"receive {name}", Host.by_name(f"h{b}"), receive, name)
    engine.run()
    print(Engine.clock)


if __name__ == "__main__":
    main()
