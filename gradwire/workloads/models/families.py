"""Families of transformers, and the shape that a config.json of transformers gives in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gradwire.documents import DocumentTable
from gradwire.faults import InputFault
from gradwire.workloads.models.config_keys import Key
from gradwire.workloads.models.transformer_shapes import (
    Experts,
    Head,
    Indexer,
    Latent,
    Patches,
    Transformer,
)

MOST_TOKENS = 8192
"""Largest number of tokens of a sample. Configurations print the longest context, up to 131072 tokens; Llama 3 was
trained on 8192 before its context was extended (The Llama 3 Herd of Models 2024, sections 3.4.1 and 3.4.2)."""

Settle = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Family:
    """What the models of a `model_type` have in common."""

    #: The key of each field of the shape: of `Transformer`; "experts.count" is that of its `Experts`. Fields that no
    #: shape has: "context", tokens that positions reach; "mlp_kinds", which blocks have experts; "labels" of classes; and
    #: those that begin with "only", of keys that are understood with some values only.
    keys: Mapping[str, Key]
    #: Fields that are the same in all models.
    traits: Mapping[str, Any]
    #: What stands behind the last block, by the end of the name in `architectures`; the first where there is no such key.
    heads: Mapping[str, Head]
    #: Rows of a table of learned positions beyond the context; None without a table.
    extra_positions: int | None = None
    #: Positions of the context that no token has.
    unused_positions: int = 0
    #: Keys of this family that change nothing, because its code does not read them.
    ignored: frozenset[str] = frozenset()
    #: What follows from several keys.
    settle: Settle | None = None


def shape_of(family: Family, config: DocumentTable, head: Head) -> Transformer:
    """The shape that a file's keys give. They must be of the right kinds; InputFault is raised where they contradict
    one another."""
    found = {field: key.field_value(config) for field, key in family.keys.items() if not field.startswith("only")}
    if family.settle is not None:
        family.settle(found)
    found |= family.traits
    context, labels, kinds = found.pop("context", 0), found.pop("labels", None), found.pop("mlp_kinds", ())
    if kinds:
        found["experts.dense"] = tuple(number for number, kind in enumerate(kinds) if kind == "dense")
    if family.extra_positions is not None:
        found["positions"] = context + family.extra_positions
    parts = {name: _part(family, kind, name, found) for name, kind in _PARTS.items()}
    found = {field: value for field, value in found.items() if "." not in field} | parts
    patches = parts["patches"]
    if patches and patches.patch > patches.image:
        names = {part: family.keys[f"patches.{part}"].name for part in ("patch", "image")}
        raise InputFault(f"{names['patch']} = {patches.patch}: must be at most {names['image']}, {patches.image}")
    _settle_widths(family, found)
    found["tokens"] = patches.tokens if patches else min(context - family.unused_positions, MOST_TOKENS)
    found["pooler"] = found.get("pooler", False) and head in (Head.NONE, Head.PRETRAINING)
    found["classes"] = len(labels) if labels else config.get("num_labels") or 2
    return Transformer(**found, head=head)


_PARTS: Mapping[str, type] = {"experts": Experts, "latent": Latent, "indexer": Indexer, "patches": Patches}


def _part(family: Family, kind: type, name: str, found: Mapping[str, Any]) -> Any:
    """The part of a shape whose fields are called after it; None for a model without it, or without experts."""
    own = {field.removeprefix(f"{name}."): value for field, value in found.items() if field.startswith(f"{name}.")}
    if not own.keys() & {"key_value_rank", "heads", "image"} and not own.get("count"):
        return None
    lacking = [field for field, value in own.items() if value is None]
    if lacking:
        names = ", ".join(f"{family.keys[f'{name}.{field}'].name}: missing" for field in lacking)
        raise InputFault(names)
    return kind(**{field: tuple(value) if isinstance(value, list) else value for field, value in own.items()})


def _settle_widths(family: Family, found: dict[str, Any]) -> None:
    """Widths that follow from others, where a file does not have them."""
    width, heads = found["width"], found["heads"]
    if not found.get("head_width"):
        if width % heads:
            names = {field: family.keys[field].name for field in ("heads", "width")}
            raise InputFault(f"{names['heads']} = {heads}: must divide {names['width']}, {width}")
        found["head_width"] = width // heads
    found["key_value_heads"] = found.get("key_value_heads") or heads
    if heads % found["key_value_heads"]:
        name = family.keys["key_value_heads"].name
        raise InputFault(f"{name} = {found['key_value_heads']}: must divide the {heads} heads of queries")
    found["ffn"] = found.get("ffn") or 4 * width
    if found.get("word_width") in (None, width):
        found["word_width"] = 0
    found["words_alone"] = bool(found.get("words_alone") and found["word_width"])
