"""Labs: networks in a few lines of Python, on which real programs run in virtual time, for tests and experiments.

    import gradwire.lab

    with gradwire.lab.network() as net:
        h1, h2, s1 = net.host("h1"), net.host("h2"), net.switch("s1")
        net.link(h1, s1, rate="10gbit", delay="1ms")
        net.link(h2, s1, rate="10gbit", delay="1ms")
        h1.start("iperf3 -s")
        print(h2.run("iperf3 -c h1 -J").json()["end"]["sum_received"]["bits_per_second"])

docs/labs.md explains it; the fixture `gradwire_lab` of pytest does the same for tests.
"""

from __future__ import annotations

from gradwire.lab.devices import Host, Link, Switch
from gradwire.lab.exploration import Failure, explore
from gradwire.lab.network import Network
from gradwire.lab.programs import LimitReached, Process, ProgramFailed, Result
from gradwire.lab.settings import Settings

__all__ = [
    "Failure",
    "Host",
    "LimitReached",
    "Link",
    "Network",
    "Process",
    "ProgramFailed",
    "Result",
    "Settings",
    "Switch",
    "explore",
    "network",
]


def network(**settings: object) -> Network:
    """A network to draw, as a context manager that ends all that runs on it.

    settings: those of `Settings`, such as seed=3 or memory="4GiB". Raises InputFault for those that cannot be.
    """
    return Network(Settings.of(settings))
