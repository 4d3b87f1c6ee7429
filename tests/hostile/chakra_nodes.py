"""Chakra traces with wrong values in their nodes."""

from __future__ import annotations

from random import Random
from typing import Any

from gradwire.workloads.traces.formats import chakra_messages as chakra

NUMBERS = (
    0, 1, 2, 3, 5, 10, 99, 1000, 65_536, 10**9, 2**31 - 1, 2**31, 2**32, 2**50, 2**50 + 1, 2**53, 2**63 - 1, -1, -2, -(2**31),
    -(2**63),
)  # fmt: skip
TEXTS = (
    "", "0", "1", "-1", "world", "x" * 10_000, "[" * 3000, "[red]", "é", "\x00", "process_group", "[{", "[1, 2, 0, 5, 4, 'cuda']",
    "[1, 2, 0, 99999999999999999999999, 4, 'cuda']", '[{"pg_name": "0", "ranks": [0, 1]}]',
    '[{"pg_name": "5", "ranks": "' + "[" * 900 + '"}]', '[{"pg_name": "1", "ranks": [], "pg_size": 1000000000}]',
    '[{"pg_name": "1", "ranks": [-5, 7]}]', "9" * 4000,
)  # fmt: skip
NAMES = (
    "is_cpu_op", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "comm_priority", "pg_name", "comm_group", "num_ops",
    "stream", "root", "involved_dim", "schema", "rank", "world_size", "tensor_size", "",
)  # fmt: skip
UNSIGNED = (0, 1, 2, 3, 4, 5, 100, 10**9, 2**32, 2**63, 2**64 - 1)
VERSIONS = ("0.0.4", "", "1.0.2-chakra.0.0.4", "gradwire", "symbolic_tensor_network", "x" * 300)


def nodes(rank: int, random: Random) -> list[Any]:
    """Metadata and a few nodes, most of them sensible, some of them not."""
    count = random.choice((0, 1, 2, 3, 5, 8, 30))
    found = [_metadata(rank, random)]
    for number in range(count):
        node = chakra.Node(
            id=number + 1, name=f"n{number}", type=random.choice((4, 4, 4, 7, 7, 7, 7, 7, 1, 5 + rank % 2))
        )
        if number:
            node.data_deps.extend(random.sample(range(1, number + 1), min(number, random.choice((0, 1, 1, 2)))))
        node.duration_micros = random.choice((0, 5, 100))
        if node.type >= chakra.SEND:
            sensible = {
                "comm_type": random.choice((0, 0, 2, 5, 6, 7, 9)),
                "comm_size": random.choice((4, 1000)),
                "comm_src": 0,
                "comm_dst": 1,
            }
            node.attr.extend(chakra.Attribute(name=name, int64_val=value) for name, value in sensible.items())
        found.append(node)
    for _ in range(random.choice((0, 0, 1, 1, 2, 4))):
        _spoil(random.choice(found[1:] or found), random, found)
    if random.random() < 0.01:
        _swell(found, random)
    return found


def _swell(found: list[Any], random: Random) -> None:
    """Very many calls, or nodes that each have a process group of very many ranks."""
    count, first = random.choice((300, 3000)), 10_000
    grouped = random.random() < 0.5
    for number in range(first, first + count):
        node = chakra.Node(id=number, name="process_group" if grouped else "call", type=1 if grouped else chakra.COLL)
        if grouped:
            node.inputs.values = f'[{{"pg_name": "{number}", "ranks": [], "pg_size": {random.randint(1, 65_536)}}}]'
        else:
            node.attr.extend([_attribute("comm_type", 0), _attribute("comm_size", 8)])
        found.append(node)


def _metadata(rank: int, random: Random) -> Any:
    about = chakra.GlobalMetadata(version=random.choice(VERSIONS) if random.random() < 0.3 else "0.0.4")
    if random.random() < 0.9:
        schema = random.choice((*VERSIONS, *TEXTS)) if random.random() < 0.3 else "0.0.4"
        said = {"schema": schema, "world_size": 2, "rank": rank}
        if random.random() < 0.1:
            said[random.choice(("rank", "world_size"))] = random.choice(NUMBERS)
        about.attr.extend(_attribute(name, value) for name, value in said.items())
    return about


def _attribute(name: str, value: Any) -> Any:
    return chakra.Attribute(name=name, **{"string_val" if isinstance(value, str) else "int64_val": value})


def _random_attribute(random: Random) -> Any:
    """An attribute that a reader knows, or one without a name, with a value of any kind, or without one."""
    name = random.choice(NAMES)
    if random.random() < 0.1:
        found = chakra.Attribute(name=name)
        found.bool_list.values.extend([random.random() < 0.7] * random.choice((0, 1, 4)))
        return found
    values: tuple[dict[str, Any], ...] = (
        {},
        {"string_val": random.choice(TEXTS)},
        {"double_val": random.choice((float("nan"), float("inf"), -1.5, 1e300))},
        {"bool_val": random.random() < 0.5},
        {"uint64_val": random.choice(UNSIGNED)},
        {"int64_val": random.choice(NUMBERS)},
        {"int64_val": random.choice(NUMBERS)},
    )
    return chakra.Attribute(name=name, **random.choice(values))


def _spoil(node: Any, random: Random, all_nodes: list[Any]) -> None:
    """Changes something of a node, or repeats it."""
    if not isinstance(node, chakra.Node):
        return
    choice = random.randrange(8)
    if choice == 0:
        node.id = random.choice(UNSIGNED)
    elif choice == 1:
        node.data_deps.extend(random.choices((*UNSIGNED, node.id), k=random.choice((1, 3, 2000))))
    elif choice == 2:
        node.type = random.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 99, -1))
    elif choice == 3:
        node.duration_micros = random.choice(UNSIGNED)
    elif choice == 4:
        node.inputs.values = random.choice(TEXTS)
        node.name = random.choice(TEXTS)
    elif choice == 5:
        all_nodes.append(node)
    elif choice == 6 and node.attr:
        del node.attr[random.randrange(len(node.attr))]
    else:
        node.attr.append(_random_attribute(random))


def encoded(messages: list[Any], random: Random) -> bytes:
    """Messages behind their lengths, some of which lie."""
    parts = []
    for message in messages:
        data = message.SerializeToString()
        length = len(data) if random.random() > 0.01 else random.choice((0, 1, len(data) + 1, 10**9, 2**63, 2**70 - 1))
        parts.append(_varint(length) + data)
    return b"".join(parts)


def _varint(value: int) -> bytes:
    parts = []
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])
