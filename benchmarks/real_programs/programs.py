"""The programs, what is asked of each, and what the wire allows: round trips for small questions, the payload of a line for large ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

RATE_BPS = 10e9
TCP_SHARE, UDP_SHARE = 1448 / 1538, 1472 / 1538
"""Of a line, at an MTU of 1500: what is left for payload by the headers of IP, TCP with time stamps or UDP, and Ethernet with its gap."""
FILE_BYTES = 150_000_000


@dataclass(frozen=True)
class Figure:
    """One number of a program."""

    asked: str
    allowed_s: float
    #: Its name in the script.
    name: str = "file"


def _file(share: float = TCP_SHARE, size_bytes: int = FILE_BYTES) -> Figure:
    return Figure(f"{size_bytes // 1_000_000} MB", size_bytes * 8 / (RATE_BPS * share))


@dataclass(frozen=True)
class Program:
    """What runs on emulated hosts: a script of the folder hosts/."""

    title: str
    #: Debian's, which have to be installed.
    packages: tuple[str, ...]
    figures: tuple[Figure, ...]
    hosts: int = 2
    #: Modules of Python that it imports, by the names that pip has for them.
    modules: Mapping[str, str] = field(default_factory=dict)
    #: Of each link between a host and the switch.
    delay_s: float = 0.0


ETCD_DELAY_S = 1e-3
ETCD_TRIP_S = 4 * ETCD_DELAY_S
REDIS_DELAY_S = 10e-6
BLOCKS_BYTES, ROOT_BYTES = 51_396_608, 16_779_264
"""Parameters of hosts/fsdp_llama.py: of its blocks, which are gathered forward and backward, and of what is around them, gathered once."""
FSDP_S = (2 * BLOCKS_BYTES + ROOT_BYTES + 2 * (BLOCKS_BYTES + ROOT_BYTES)) / 2 * 8 / (RATE_BPS * TCP_SHARE)
"""Half of what is gathered comes from the other of two hosts, as does half of what an all-reduce sends, twice. Gloo has no other
reduce-scatter."""
THOUSAND = "1,000 questions, one after the other"
PROGRAMS: Mapping[str, Program] = {
    "etcd": Program(
        "etcd, three members",
        ("etcd-server", "etcd-client"),
        (
            Figure(
                "put at the leader: connect, greet, ask, and the leader asks the others",
                4 * ETCD_TRIP_S,
                "put at the leader",
            ),
            Figure("put at a follower: one way more to the leader and back", 5 * ETCD_TRIP_S, "put at the follower"),
            Figure("read that asks no other member", 3 * ETCD_TRIP_S, "read without the others"),
        ),
        hosts=4,
        delay_s=ETCD_DELAY_S,
    ),
    "http": Program("nginx and curl", ("nginx-light", "curl"), (_file(),)),
    "nbd": Program("nbdkit and nbdcopy, a network block device", ("nbdkit", "libnbd-bin"), (_file(),)),
    "rsync": Program("rsync over OpenSSH", ("rsync", "openssh-server", "openssh-client"), (_file(),)),
    "redis": Program(
        "Redis, redis-cli and redis-benchmark",
        ("redis-server", "redis-tools"),
        (_file(), Figure("1,000 pings, one after the other", 1000 * 4 * REDIS_DELAY_S, "requests")),
        delay_s=REDIS_DELAY_S,
    ),
    "nats": Program(
        "two NATS servers, with nats-py",
        ("nats-server",),
        (
            Figure(f"{THOUSAND}, past both servers", 1000 * 12 * REDIS_DELAY_S, "requests"),
            Figure("150 MB past both servers", _file().allowed_s),
        ),
        hosts=4,
        modules={"nats-py": "nats"},
        delay_s=REDIS_DELAY_S,
    ),
    "grpc": Program(
        "gRPC",
        (),
        (
            Figure(THOUSAND, 1000 * 4 * REDIS_DELAY_S, "requests"),
            Figure("150 MB by 1,000 streams at once", _file().allowed_s),
        ),
        modules={"grpcio": "grpc"},
        delay_s=REDIS_DELAY_S,
    ),
    "fsdp": Program(
        "torchrun, FSDP2 over Gloo",
        (),
        (Figure("an iteration of a transformer of 68 MB, whose reduce-scatters are all-reduces", FSDP_S, "iteration"),),
        modules={"torch": "torch"},
    ),
    "jax": Program(
        "JAX, collectives over Gloo",
        (),
        (Figure("all-reduce of 16 MB", _file(size_bytes=16_000_000).allowed_s, "all-reduce"),),
        modules={"jax": "jax"},
    ),
    "ray": Program(
        "Ray",
        (),
        (Figure(THOUSAND, 1000 * 4 * REDIS_DELAY_S, "requests"), _file()),
        modules={"ray": "ray"},
        delay_s=REDIS_DELAY_S,
    ),
    "ptp": Program(
        "ptp4l -S, PTP over UDP with software timestamps",
        ("linuxptp",),
        (Figure("path delay, of two links; a frame alone finds them idle", 2 * REDIS_DELAY_S, "path delay"),),
        delay_s=REDIS_DELAY_S,
    ),
    "aioquic": Program("QUIC by aioquic", (), (_file(UDP_SHARE, 15_000_000),), modules={"aioquic": "aioquic"}),
    "quic": Program(
        "HTTP/3 by ngtcp2 with GnuTLS", ("ngtcp2-server", "ngtcp2-client"), (_file(UDP_SHARE, 15_000_000),)
    ),
}
