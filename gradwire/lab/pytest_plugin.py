"""The fixture `gradwire_lab` of pytest: labs that end with their test, and whose packets are kept if it fails.

pytest loads this with every test run of an environment that has gradwire, so it imports nothing of gradwire's before a
test asks for the fixture.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gradwire.lab.network import Network

PACKETS = "gradwire-packets"
SEED = 1
_LETTERS = re.compile(r"[^A-Za-z0-9_.-]+")


class Labs:
    """The labs of one test. seed: of labs that set none."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._networks: list[Network] = []

    def __call__(self, **settings: object) -> Network:
        """A network to draw, as `gradwire.lab.network` makes it; packets are captured unless it says capture=False."""
        import gradwire.lab  # noqa: PLC0415

        network = gradwire.lab.network(**{"seed": self._seed, "capture": True, **settings})
        self._networks.append(network)
        return network

    def end(self) -> None:
        """Ends all labs of the test."""
        for network in self._networks:
            network.close()

    def keep(self, folder: Path) -> Iterator[str]:
        """Ends all labs, keeps their packets in a folder, and yields the story of each."""
        for number, network in enumerate(self._networks, 1):
            place = folder if len(self._networks) == 1 else folder / str(number)
            yield network.story()
            files = network.keep(place)
            if files:
                yield f"packets: {', '.join(str(file) for file in files)}"


_LABS = pytest.StashKey[Labs]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options for the folder of packets and for the seed."""
    group = parser.getgroup("gradwire", "labs of gradwire")
    group.addoption(
        "--gradwire-packets",
        default=PACKETS,
        metavar="FOLDER",
        help=f"where packets of failed tests are kept, in a folder per test (default: {PACKETS})",
    )
    group.addoption(
        "--gradwire-seed", type=int, default=SEED, metavar="SEED", help="the seed of labs whose test names none"
    )


@pytest.fixture
def gradwire_lab(request: pytest.FixtureRequest) -> Iterator[Callable[..., Network]]:
    """Makes labs for a test: `net = gradwire_lab()` draws a network like `gradwire.lab.network()`."""
    labs = Labs(request.config.getoption("--gradwire-seed"))
    request.node.stash[_LABS] = labs
    yield labs
    labs.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keeps the packets of a test that failed, and adds to its message where they are."""
    report = yield
    labs = item.stash.get(_LABS, None)
    if labs is not None and call.when == "call" and report.failed:
        folder = item.config.invocation_params.dir / item.config.getoption("--gradwire-packets")
        lines = labs.keep(folder / _LETTERS.sub("-", item.nodeid).strip("-"))
        report.sections.append(("gradwire lab", "\n".join(lines)))
    return report
