"""The messages of Chakra's schema that gradwire reads and writes, described for protobuf.

Source: mlcommons/chakra, schema/protobuf/et_def.proto, whose numbers of fields these are. What is left out is skipped
when it is read. Described here rather than generated: generated code demands the version of protobuf that it was made
with, or a newer one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_ONE, _MANY = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED
_PACKAGE = "gradwire.chakra"

METADATA, MEM_LOAD, MEM_STORE, COMP, SEND, RECV, COLL = range(1, 8)
"""Values of NodeType."""
TYPES = {
    "INVALID_NODE": 0, "METADATA_NODE": METADATA, "MEM_LOAD_NODE": MEM_LOAD, "MEM_STORE_NODE": MEM_STORE,
    "COMP_NODE": COMP, "COMM_SEND_NODE": SEND, "COMM_RECV_NODE": RECV, "COMM_COLL_NODE": COLL,
}  # fmt: skip
"""Values of NodeType by the names that JSON has for them."""

_MESSAGES: dict[str, dict[str, tuple[int, int, int, str]]] = {
    "BoolList": {"values": (1, _Field.TYPE_BOOL, _MANY, "")},
    "Attribute": {
        "name": (1, _Field.TYPE_STRING, _ONE, ""),
        "double_val": (3, _Field.TYPE_DOUBLE, _ONE, ""),
        "float_val": (5, _Field.TYPE_FLOAT, _ONE, ""),
        "int32_val": (7, _Field.TYPE_INT32, _ONE, ""),
        "int64_val": (9, _Field.TYPE_INT64, _ONE, ""),
        "uint32_val": (11, _Field.TYPE_UINT32, _ONE, ""),
        "uint64_val": (13, _Field.TYPE_UINT64, _ONE, ""),
        "sint32_val": (15, _Field.TYPE_SINT32, _ONE, ""),
        "sint64_val": (17, _Field.TYPE_SINT64, _ONE, ""),
        "fixed32_val": (19, _Field.TYPE_FIXED32, _ONE, ""),
        "fixed64_val": (21, _Field.TYPE_FIXED64, _ONE, ""),
        "sfixed32_val": (23, _Field.TYPE_SFIXED32, _ONE, ""),
        "sfixed64_val": (25, _Field.TYPE_SFIXED64, _ONE, ""),
        "bool_val": (27, _Field.TYPE_BOOL, _ONE, ""),
        "bool_list": (28, _Field.TYPE_MESSAGE, _ONE, "BoolList"),
        "string_val": (29, _Field.TYPE_STRING, _ONE, ""),
    },
    "IOInfo": {
        "values": (1, _Field.TYPE_STRING, _ONE, ""),
        "shapes": (2, _Field.TYPE_STRING, _ONE, ""),
        "types": (3, _Field.TYPE_STRING, _ONE, ""),
    },
    "GlobalMetadata": {
        "version": (1, _Field.TYPE_STRING, _ONE, ""),
        "attr": (2, _Field.TYPE_MESSAGE, _MANY, "Attribute"),
    },
    "Node": {
        "id": (1, _Field.TYPE_UINT64, _ONE, ""),
        "name": (2, _Field.TYPE_STRING, _ONE, ""),
        "type": (3, _Field.TYPE_INT32, _ONE, ""),
        "ctrl_deps": (4, _Field.TYPE_UINT64, _MANY, ""),
        "data_deps": (5, _Field.TYPE_UINT64, _MANY, ""),
        "start_time_micros": (6, _Field.TYPE_UINT64, _ONE, ""),
        "duration_micros": (7, _Field.TYPE_UINT64, _ONE, ""),
        "inputs": (8, _Field.TYPE_MESSAGE, _ONE, "IOInfo"),
        "outputs": (9, _Field.TYPE_MESSAGE, _ONE, "IOInfo"),
        "attr": (10, _Field.TYPE_MESSAGE, _MANY, "Attribute"),
    },
}
_ONE_OF = "value"


def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="gradwire_chakra.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, label, of) in fields.items():
            added = message.field.add(name=field, number=number, type=kind, label=label)
            if of:
                added.type_name = f".{_PACKAGE}.{of}"
            if name == "Attribute" and field != "name":
                added.oneof_index = 0
        if name == "Attribute":
            message.oneof_decl.add(name=_ONE_OF)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _pool()


class ChakraAttribute(Protocol):
    """An attribute, as it is read."""

    @property
    def name(self) -> str:
        """Its name."""

    def WhichOneof(self, oneof_group: str, /) -> str | None:  # noqa: N802 (protobuf's name)
        """Returns the field that has its value."""


class ChakraMetadata(Protocol):
    """A trace's metadata, as they are read."""

    version: str
    attr: Iterable[ChakraAttribute]


class ChakraInputs(Protocol):
    """What a node is called with."""

    values: str


class ChakraNode(Protocol):
    """A node, as it is read."""

    id: int
    name: str
    type: int
    ctrl_deps: Iterable[int]
    data_deps: Iterable[int]
    duration_micros: int
    inputs: ChakraInputs
    attr: Iterable[ChakraAttribute]


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


Attribute, GlobalMetadata, Node = _message("Attribute"), _message("GlobalMetadata"), _message("Node")


def value_of(attribute: ChakraAttribute) -> object:
    """The value of an attribute; None for one without, or with one of a kind that is left out here."""
    which = attribute.WhichOneof(_ONE_OF)
    return None if which is None else getattr(attribute, which)
