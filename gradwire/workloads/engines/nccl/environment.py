"""NCCL's environment variables that decide how a collective is carried out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.faults import InputFault
from gradwire.workloads.engines.collectives.schedule import Collective
from gradwire.workloads.engines.nccl.tables import NcclAlgorithm, Protocol, Version, name_of

FUNCTIONS = {
    "broadcast": Collective.BROADCAST,
    "reduce": Collective.REDUCE,
    "allgather": Collective.ALL_GATHER,
    "reducescatter": Collective.REDUCE_SCATTER,
    "allreduce": Collective.ALL_REDUCE,
}
"""Collectives as prefixes of NCCL_ALGO and NCCL_PROTO name them, since 2.24."""
COLLNET = ("collnetdirect", "collnetchain")
"""Algorithms that need a plugin: they may be named, and are never available."""
SOCKETS = ("NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD")
"""Threads of a connection over sockets, and sockets of a thread: a message is divided among all of them."""
NET_PEER = "NCCL_NCHANNELS_PER_NET_PEER"
NUMBERS = (
    *("NCCL_NCHANNELS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", NET_PEER, "NCCL_BUFFSIZE"),
    *SOCKETS,
)
MOST_SOCKETS = 64
"""`MAX_SOCKETS`, src/transport/net_socket.cc."""
NVLS_ENABLE = "NCCL_NVLS_ENABLE"
"""0: neither NVLS nor NVLSTree; 1 and 2: where machines have it (`ncclNvlsInit`, src/transport/nvls.cc)."""
TUNER = "NCCL_TUNER_PLUGIN"
"""A tuner to load, or "none" for NCCL's own. It has an effect where NCCL reaches the network by a plugin (`Plugin`)."""
NAMES = ("NCCL_ALGO", "NCCL_PROTO", NVLS_ENABLE, TUNER, *NUMBERS)
"""Variables that are honoured. NCCL_NCHANNELS_PER_NET_PEER is of sends and receives (`grouped`), and changes no collective.
NCCL_NCHANNELS is short for the least and the most at once."""
TOPOLOGY = "NCCL_TOPO_FILE"
PREFIXED_SINCE = (2, 24)
MAX_BUFFER_BYTES = 1 << 30


@dataclass(frozen=True)
class Environment:
    """The settings of NCCL's environment variables: the algorithms and protocols that are allowed, and sizes."""

    version: Version
    #: NCCL_ALGO and NCCL_PROTO as they are set; None: not set.
    algorithms: str | None = None
    protocols: str | None = None
    #: NCCL_MIN_NCHANNELS and NCCL_MAX_NCHANNELS; 0: not set.
    channels: tuple[int, int] = (0, 0)
    #: NCCL_BUFFSIZE; None: not set.
    buffer_bytes: int | None = None
    #: Sockets that a message is divided among.
    sockets: int = 1
    #: Whether NCCL_NVLS_ENABLE allows NVLS.
    nvls_allowed: bool = True
    #: NCCL_TUNER_PLUGIN; None: not set.
    tuner: str | None = None
    #: NCCL_NCHANNELS_PER_NET_PEER, of sends and receives alone; 0: not set.
    net_peer_channels: int = 0

    def algorithms_for(self, kind: Collective) -> frozenset[NcclAlgorithm] | None:
        """The algorithms that NCCL_ALGO names, or None if it is not set. Raises InputFault."""
        names = {algorithm.value.lower(): algorithm for algorithm in NcclAlgorithm}
        allowed = _named(self.algorithms, "NCCL_ALGO", kind, (*names, *COLLNET), self.version)
        return None if allowed is None else frozenset(names[name] for name in allowed if name in names)

    def protocols_for(self, kind: Collective) -> frozenset[Protocol] | None:
        """The protocols that NCCL_PROTO names, or None if it is not set. Raises InputFault."""
        names = {protocol.value.lower(): protocol for protocol in Protocol}
        allowed = _named(self.protocols, "NCCL_PROTO", kind, tuple(names), self.version)
        return None if allowed is None else frozenset(names[name] for name in allowed)


def _named(
    text: str | None, variable: str, kind: Collective, names: Sequence[str], version: Version
) -> frozenset[str] | None:
    """The names that a list allows for a collective; None: all, by default (`parseList`, src/graph/tuning.cc)."""
    if text is None:
        return None
    allowed: frozenset[str] | None = None
    for number, entry in enumerate(text.split(";")):
        prefix, colon, elements = entry.rpartition(":")
        if colon and version < PREFIXED_SINCE:
            raise InputFault(
                f"{variable}={text}: NCCL {name_of(version)} knows no prefixes, as 2.24 does; write a list of names"
            )
        if number > 0 and not colon:
            raise InputFault(f"{variable}={text}: all entries but the first must have a prefix, such as allreduce:ring")
        if colon and prefix.strip().lower() not in FUNCTIONS:
            raise InputFault(f"{variable}={text}: {prefix!r} must be one of {', '.join(FUNCTIONS)}")
        listed = _listed(elements, text, variable, names)
        if not colon or FUNCTIONS[prefix.strip().lower()] is kind:
            allowed = listed
    return allowed


def _listed(elements: str, text: str, variable: str, names: Sequence[str]) -> frozenset[str]:
    without = elements.startswith("^")
    listed = {name.strip().lower() for name in elements.removeprefix("^").split(",") if name.strip()}
    unknown = sorted(listed - set(names))
    if unknown or not listed:
        raise InputFault(
            f"{variable}={text}: {unknown[0] if unknown else 'nothing'!r} must be one of {', '.join(names)}"
        )
    return frozenset(set(names) - listed if without else listed)


def environment_of(variables: Mapping[str, str], version: Version) -> Environment:
    """Returns the settings of these variables. Raises InputFault for names and values that are not understood."""
    if TOPOLOGY in variables:
        raise InputFault(f"{TOPOLOGY}: `gradwire ccl` takes the file as --topology, and says what it uses of it")
    unknown = sorted(set(variables) - set(NAMES))
    if unknown:
        raise InputFault(f"{unknown[0]}: not a variable that the choice of a collective knows; {', '.join(NAMES)} are")
    numbers = {name: _number(name, variables[name]) for name in NUMBERS if name in variables}
    both = numbers.get("NCCL_NCHANNELS", 0)
    sockets = math.prod(numbers.get(name, 1) for name in SOCKETS)
    if sockets > MOST_SOCKETS:
        raise InputFault(f"{' x '.join(SOCKETS)} = {sockets}: NCCL has {MOST_SOCKETS} sockets per connection at most")
    result = Environment(
        version=version,
        algorithms=variables.get("NCCL_ALGO"),
        protocols=variables.get("NCCL_PROTO"),
        channels=(numbers.get("NCCL_MIN_NCHANNELS", both), numbers.get("NCCL_MAX_NCHANNELS", both)),
        buffer_bytes=numbers.get("NCCL_BUFFSIZE"),
        sockets=sockets,
        nvls_allowed=_nvls_allowed(variables.get(NVLS_ENABLE, "2")),
        tuner=variables.get(TUNER),
        net_peer_channels=numbers.get(NET_PEER, 0),
    )
    for kind in FUNCTIONS.values():
        result.algorithms_for(kind)
        result.protocols_for(kind)
    return result


def _nvls_allowed(text: str) -> bool:
    if text.strip() not in ("0", "1", "2"):
        raise InputFault(f"{NVLS_ENABLE}={text}: must be 0, 1 or 2")
    return text.strip() != "0"


def _number(name: str, text: str) -> int:
    stripped = text.strip()
    if not stripped.isdecimal() or not 1 <= int(stripped[:12]) <= MAX_BUFFER_BYTES or len(stripped) > 12:
        raise InputFault(f"{name}={text}: must be a whole number from 1 to {MAX_BUFFER_BYTES}")
    if name == "NCCL_BUFFSIZE" and int(stripped) < 4096:
        raise InputFault(f"{name}={text}: must be at least 4096 bytes, 512 for each of NCCL's 8 steps")
    return int(stripped)
