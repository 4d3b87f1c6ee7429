"""Puts the contents of a scenario's files into the scenario itself, under `defined`, so that it no longer depends on
them.

A run folder's copy of its scenario can then be read anywhere, whatever became of the files. Strategies' files are an
exception: their code stays in its place, and the scenario has its path. An old run can be read without it. A trace
stays in its place as well, because of its size.

Files with a table of routes are TOML with [[route]], or CSV with a header. Each becomes the content of a
RoutesDefinition.
"""

from __future__ import annotations

import copy
import csv
import io
import re
from collections.abc import Container
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.files import without_links
from gradwire.named_code import NamedBy, permit
from gradwire.reading_budget import reading_budget
from gradwire.scenario.definitions.controller_files import controller_in
from gradwire.scenario.definitions.conversion import device_of, model_content, model_file, profile_of
from gradwire.scenario.definitions.hugging_face import hugging_face_profile
from gradwire.scenario.definitions.network_files import network_in
from gradwire.scenario.explanations import explain, validated, value_at
from gradwire.scenario.file_references import (
    TABLES,
    TRACES,
    file_at,
    is_file,
    python_reference,
    strategy_reference,
    swapped_table,
)
from gradwire.scenario.sections.defined import DeviceDefinition, DeviceFile, ModelDefinition, ModelFile, name_defect
from gradwire.scenario.sections.network import MOST_ROWS, NetworkDefinition, RoutesDefinition
from gradwire.scenario.toml_documents import file_text, read_document
from gradwire.workloads.fields import LOWEST_RATE_BPS
from gradwire.workloads.installed_packages import installed_catalogue
from gradwire.workloads.models.catalogue import BUILT_IN
from gradwire.workloads.strategy_registry import BUILT_IN as BUILT_IN_STRATEGIES
from gradwire.workloads.strategy_registry import strategy_in, strategy_names

NOUNS = {
    "models": "model",
    "devices": "device",
    "strategies": "strategy",
    "networks": "network",
    "routes": "table of routes",
    "controllers": "controller",
}
FilesRead = dict[tuple[str, Path], Document]
"""The content of model and device files that were read already, by the table that they are for and their paths."""
COLUMNS = ("switch", "destination", "next")
HAS = 'a table of routes has rows like [[route]] switch = "s1" destination = "h*" next = ["s5", "s6"]'


def inlined(
    document: DocumentTable, base: Path, code: NamedBy, read: FilesRead | None = None
) -> tuple[Document, list[str]]:
    """A scenario's content with names in place of files, and a line for each defect of the files.

    base: the folder that paths are relative to. code: who names the files of Python among them, which decides whether
    they run (`gradwire.named_code`). read: files that are not read again, to which this function adds. The line of a
    defect begins with its key, whose value stays as it is.
    """
    reader = _Reader(document, base, code, {} if read is None else read)
    reader.permit_defined()
    found = swapped_table(document, reader.name_of)
    lines = [*reader.lines, *reader.ambiguous()]
    if any(reader.files.values()):
        found["defined"] = reader.defined
        _add_rate(found, reader.files["networks"])
    return found, list(dict.fromkeys(lines))


def _add_rate(document: Document, networks: Container[str]) -> None:
    """Sets `fabric.rate`, where it is missing, to that of the fastest host, if the fabric's file has the rates of all links.
    networks: the names of those that files define."""
    fabric = document.get("fabric")
    if not isinstance(fabric, dict) or "rate" in fabric:
        return
    name = fabric.get("file")
    if not isinstance(name, str) or name not in networks:
        return
    found = validated(NetworkDefinition, value_at(document, ["defined", "networks", name])).fastest_of_hosts_bps
    if found is not None:
        document["fabric"] = {**fabric, "rate": f"{max(found, LOWEST_RATE_BPS):.17g}bit"}


class _Reader:
    """Reads the files of one scenario."""

    def __init__(self, document: DocumentTable, base: Path, code: NamedBy, read: FilesRead) -> None:
        self.lines: list[str] = []
        #: The file that each name comes from, by table.
        self.files: dict[str, dict[str, Path]] = {table: {} for table in NOUNS}
        #: Names that the scenario says itself, by table.
        self.named: dict[str, set[str]] = {table: set() for table in NOUNS}
        written = document.get("defined", {})
        self.defined: Document = copy.deepcopy(written) if isinstance(written, dict) else {}
        self._base, self._code = base, code
        self._content_of = read

    def permit_defined(self) -> None:
        """Permits the files of code whose paths the scenario has under `defined`, as documents do that were made of others."""
        for table in ("strategies", "controllers"):
            there = self.defined.get(table, {})
            for name, content in there.items() if isinstance(there, dict) else ():
                file = content.get("file") if isinstance(content, dict) else content
                try:
                    self._code_path(str(file))
                except InputFault as fault:
                    self.lines.append(f"defined.{table}.{name}: {fault}")

    def name_of(self, key: str, value: str) -> str:
        """The name of the thing that a file defines; any other value is a name already."""
        table = TABLES[key]
        if key not in TRACES and not is_file(key, value):
            self.named[table].add(value)
            return value
        try:
            return str(self._path(value)) if key in TRACES else self._read(table, value)
        except InputFault as fault:
            self.lines += [f"{key}: {line}" for line in str(fault).splitlines()]
            return value

    def _read(self, table: str, value: str) -> str:
        if table == "strategies":
            text, wanted = strategy_reference(value)
            path = self._code_path(text)
            name = strategy_in(path, wanted).name
            if defect := name_defect(name):
                raise InputFault(f"{path}: the name '{name}' {defect}")
            if name in BUILT_IN_STRATEGIES:
                raise InputFault(f"{path}: '{name}' is a strategy of gradwire: give yours another name")
            return self._keep(table, name, path, str(path))
        if table == "networks":
            return self._read_network(value)
        path = self._code_path(value) if table == "controllers" else self._path(value)
        with reading_budget(path):
            return self._read_file(table, path)

    def _read_file(self, table: str, path: Path) -> str:
        if table == "controllers":
            return self._keep(table, _name_after(path.stem, "controller"), path, controller_in(path))
        if table == "routes":
            return self._keep(table, _name_after(path.stem), path, routes_in(path))
        known = table, path
        if known not in self._content_of:
            self._content_of[known] = read_model(path) if table == "models" else read_definition(path, DeviceFile)
        content = copy.deepcopy(self._content_of[known])
        name = content.pop("name")
        assert isinstance(name, str), "it was validated when it was read"
        if _is_another(table, name, content):
            if path.suffix == ".json":  # of Hugging Face's, which has no name but its folder's
                return self._keep(table, f"{name}-config", path, content)
            raise InputFault(
                f"{path}: name = '{name}': gradwire has another {NOUNS[table]} of this name; give yours another name"
            )
        return self._keep(table, name, path, content)

    def _read_network(self, value: str) -> str:
        """A network is called by its file, and by the class in it."""
        class_name = python_reference(value)
        path = self._path(value) if class_name is None else self._code_path(strategy_reference(value)[0])
        with reading_budget(path):  # of pydantic's check as well
            content = _valid_network(value, path)
        return self._keep("networks", _name_after(class_name or path.stem, "network"), path, content)

    def _path(self, text: str) -> Path:
        return without_links(file_at(self._base, text))

    def _code_path(self, text: str) -> Path:
        """The path of a file of code. Raises InputFault if it may not run."""
        path = file_at(self._base, text)
        permit(path, self._code)
        return without_links(path)

    def _keep(self, table: str, name: str, path: Path, content: DocumentValue) -> str:
        there = self.defined.setdefault(table, {})
        if not isinstance(there, dict):
            raise InputFault(f"defined.{table}: is a value, not a table")
        if name in there and there[name] != content:
            other = self.files[table].get(name, f"defined.{table}.{name}")
            raise InputFault(f"{path}: is called '{name}', as is {other}: give each another name")
        there[name] = content
        self.files[table][name] = path
        return name

    def ambiguous(self) -> list[str]:
        """Describes names that stand both for installed things and for those that a file of the same scenario
        defines."""
        catalogue = installed_catalogue()
        # A file may say of a built-in model or device just what gradwire says.
        built_in: dict[str, Container[str]] = {"models": BUILT_IN.models, "devices": BUILT_IN.devices, "strategies": ()}
        known = {
            "models": catalogue.models,
            "devices": catalogue.devices,
            "strategies": strategy_names(),
            "networks": (),
            "routes": (),
            "controllers": (),
        }
        return [
            f"{NOUNS[table]} '{name}': is what {path} defines, and an installed package too; give yours another name"
            for table, files in self.files.items()
            for name, path in files.items()
            if name in self.named[table] and name in known[table] and name not in built_in[table]
        ]


def _name_after(text: str, otherwise: str = "routes") -> str:
    """A name of the letters that names may have."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.") or otherwise


def _valid_network(value: str, path: Path) -> Document:
    content = network_in(value, path)
    try:
        validated(NetworkDefinition, content)
    except ValidationError as error:
        lines = [line for defect in error.errors() for line in explain(NetworkDefinition, defect, content)]
        named = [re.sub(r"^links\.(\d+)", partial(_link_named, content), line) for line in lines]
        raise InputFault("\n".join([f"{path}: {line}" for line in dict.fromkeys(named)])) from error
    return content


def _link_named(content: DocumentTable, match: re.Match[str]) -> str:
    """A link by its ends, in place of its number."""
    near, far = (value_at(content, ["links", int(match[1]), end]) for end in ("a", "b"))
    return f"link '{near}' to '{far}'"


def _is_another(table: str, name: str, content: DocumentTable) -> bool:
    """Returns whether gradwire itself has a model or device of that name with another content."""
    if table == "models":
        return name in BUILT_IN.models and BUILT_IN.model(name) != profile_of(name, validated(ModelDefinition, content))
    return name in BUILT_IN.devices and BUILT_IN.device(name) != device_of(validated(DeviceDefinition, content))


def read_model(path: Path) -> Document:
    """The content of a model file, or the equivalent content for a config.json of Hugging Face's. Raises
    InputFault."""
    if path.suffix != ".json":
        return read_definition(path, ModelFile)
    try:
        return model_content(model_file(hugging_face_profile(path)))
    except ValidationError as error:  # each number may be, and their product may not
        reasons = dict.fromkeys(defect["msg"].removeprefix("Value error, ") for defect in error.errors())
        raise InputFault(f"{path}: its model {'; '.join(reasons)}") from error


def read_definition(path: Path, kind: type[ModelFile | DeviceFile]) -> Document:
    """The content of a model file or a device file, which is valid. Raises InputFault with a line for each mistake."""
    noun, example = (
        ("model", "batch, source and layers") if kind is ModelFile else ("device", "description and facts or peak")
    )
    content = read_document(path, noun, f"a {noun} file has the keys name, {example}")
    try:
        validated(kind, content)
    except ValidationError as error:
        lines = [line for defect in error.errors() for line in explain(kind, defect, content)]
        raise InputFault("\n".join([f"{path}: {line}" for line in dict.fromkeys(lines)])) from error
    return content


def routes_in(path: Path) -> Document:
    """Reads a table of routes from a file; its names may not exist. Raises InputFault with a line for each defect,
    which names row and key."""
    content = _of_csv(path) if path.suffix == ".csv" else read_document(path, "routes", HAS)
    try:
        validated(RoutesDefinition, content)
    except ValidationError as error:
        lines = [line for defect in error.errors() for line in explain(RoutesDefinition, defect, content)]
        named = [re.sub(r"^route\.(\d+)\.?", lambda match: f"row {int(match[1]) + 1}: ", line) for line in lines]
        raise InputFault("\n".join([f"{path}: {line}" for line in dict.fromkeys(named)])) from error
    return content


def _of_csv(path: Path) -> Document:
    text = file_text(path, "routes", "CSV")
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise InputFault(f"{path}: not valid CSV: {error}") from error
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    if not rows or tuple(rows[0]) != COLUMNS:
        raise InputFault(
            f"{path}: the first line must be {','.join(COLUMNS)}; several next hops are separated by spaces"
        )
    if len(rows) > MOST_ROWS + 1:
        raise InputFault(f"{path}: has {len(rows) - 1:,} rows; must be at most {MOST_ROWS:,}")
    for number, row in enumerate(rows[1:], 1):
        if len(row) != len(COLUMNS):
            raise InputFault(
                f"{path}: row {number}: has {len(row)} columns instead of {len(COLUMNS)}: {','.join(COLUMNS)}"
            )
    return {"route": [dict(zip(COLUMNS, row, strict=True)) for row in rows[1:]]}
