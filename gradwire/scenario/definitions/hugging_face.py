"""Models from the `config.json` of Hugging Face's transformers: the shape of a transformer, read from a file, without
its weights. Which keys give a shape is in the table of families (workloads/models/family_table.py)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.scenario.explanations import explain, shown, validated
from gradwire.scenario.sections.defined import name_defect
from gradwire.scenario.toml_documents import file_text
from gradwire.strict_json import parse_json
from gradwire.workloads.models.config_keys import REQUIRED, Key, not_understood
from gradwire.workloads.models.families import Family, shape_of
from gradwire.workloads.models.family_table import FAMILIES, IN_OTHERS
from gradwire.workloads.models.profile import Profile
from gradwire.workloads.models.transformer_layers import transformer_profile
from gradwire.workloads.models.transformer_shapes import Head, Transformer

LARGEST = 10**9
"""Largest width, or count that makes nothing longer."""
MOST_EXPERTS = 40_000
"""Largest number of experts of all blocks together: Kimi K2 has 23,040, and three tensors in each. As a model file,
50,000 would be more values than a file may have (scenario/limits.py)."""
MOST_BLOCKS = 2_000
"""Sixteen times those of Llama 3 405B."""

OTHER_ENDS = ("EncoderModel", "DecoderModel", "HeadModel", "HeadsModel")
"""Ends of names of classes that are not those of whole models, though they end in "Model"."""


def hugging_face_profile(path: Path) -> Profile:
    """The model of a configuration file, one sample an iteration.

    It is called after the file, or after its folder where the file is called config.json. Raises InputFault with a line for each mistake.
    """
    content = _content(path)
    family, config, part = _language_part(path, content)
    shape = _shape(path, FAMILIES[family], config)
    if shape.experts is not None and shape.experts.count * shape.blocks > MOST_EXPERTS:
        raise InputFault(
            f"{path}: has {shape.experts.count:,} experts in each of {shape.blocks:,} blocks; must be at most {MOST_EXPERTS:,} in all"
        )
    sample = f"images of {shape.patches.image} pixels" if shape.patches else f"sequences of {shape.tokens} tokens"
    source = f"{path.name} of Hugging Face's {content['model_type']}{part}, on {sample}"
    return transformer_profile(_name(path), shape, 1, source)


def _language_part(path: Path, content: DocumentTable) -> tuple[str, DocumentTable, str]:
    """The family, its keys, and a note where they are those of a part of the model: of models that see as well, the
    language part."""
    family: DocumentValue = content.get("model_type")
    text, note = content, ""
    if isinstance(family, str) and family in IN_OTHERS:
        inner, note = content.get("text_config", {}), " (the language part alone)"
        if not isinstance(inner, dict):
            raise InputFault(f"{path}: text_config = {shown(inner)}: must be a table of keys")
        tied = {"tie_word_embeddings": content["tie_word_embeddings"]} if "tie_word_embeddings" in content else {}
        text = tied | inner
        family = text.get("model_type", IN_OTHERS[family])
    if not isinstance(family, str) or family not in FAMILIES:
        where = "text_config." if note else ""
        known = ", ".join(sorted([*FAMILIES, *IN_OTHERS]))
        raise InputFault(f"{path}: {where}model_type = {shown(family)}: must be one of {known}")
    return family, text, note


def _shape(path: Path, family: Family, config: DocumentTable) -> Transformer:
    kind = _kind(family, config)
    try:
        validated(kind, config)
        lines = []
    except ValidationError as error:
        lines = [line for defect in error.errors() for line in explain(kind, defect, config)]
    lines += [
        f"{name} = {shown(config[name])}: is not known of model_type = {shown(config.get('model_type'))}, and may change its parameters or "
        "operations; if it changes neither, leave it out in a copy"
        for name in not_understood(config, family.keys, family.ignored)
    ]
    if lines:
        raise InputFault("\n".join(f"{path}: {line}" for line in dict.fromkeys(lines)))
    try:
        return shape_of(family, config, _head(family, config))
    except InputFault as fault:
        raise InputFault(f"{path}: {fault}") from fault


def _kind(family: Family, config: DocumentTable) -> type[BaseModel]:
    """The keys of a family, by the names that they have in the file."""
    given: dict[str, Any] = {key.name_in(config): _field(field, key) for field, key in family.keys.items()}
    return create_model("Config", __config__=ConfigDict(extra="ignore", frozen=True, protected_namespaces=()), **given)


def _field(field: str, key: Key) -> tuple[Any, Any]:
    """The annotation and the default of a key, as pydantic wants them."""
    if key.means is not None:
        annotation: Any = (
            bool if set(map(type, key.means)) == {bool} and len(key.means) == 2 else Literal[tuple(key.means)]
        )
    else:
        most = MOST_BLOCKS if field.endswith("blocks") else LARGEST
        whole = Annotated[int, Field(ge=0 if key.default == 0 else 1, le=most)]
        annotation = {bool: bool, dict: dict[str, Any], tuple: _list_of(key)}.get(type(key.default), whole)
    if key.default is REQUIRED:
        return annotation, ...
    return annotation | None, key.default


def _list_of(key: Key) -> object:
    each: Any = Literal[key.among] if key.among else Annotated[int, Field(ge=0, le=LARGEST)]
    return Annotated[list[each], Field(max_length=MOST_BLOCKS)]


def _head(family: Family, config: DocumentTable) -> Head:
    """What stands behind the last block, by the class of the model that was saved. Raises InputFault for one that is
    not known."""
    saved = config.get("architectures") or []
    if not saved:
        return next(iter(family.heads.values()))
    name = str(saved[0] if isinstance(saved, list) else saved)
    ends = sorted([*family.heads, *OTHER_ENDS], key=len, reverse=True)
    end = next((end for end in ends if name.endswith(end)), "")
    if end not in family.heads:
        raise InputFault(
            f"architectures = {shown(saved)}: the first must end in {' or '.join(family.heads)}; what is behind the "
            "blocks of others is not known"
        )
    return family.heads[end]


def _content(path: Path) -> Document:
    text = file_text(path, "model", "JSON")
    try:
        content = parse_json(text)
    except ValueError as error:
        raise InputFault(f"{path}: not valid JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputFault(f"{path}: must be a JSON object, as transformers' config.json is")
    return content


def _name(path: Path) -> str:
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", path.parent.name if path.name == "config.json" else path.stem)
    if defect := name_defect(name):
        raise InputFault(
            f"{path}: the model would be called '{name}' after the file, but a name {defect}; rename the file"
        )
    return name
