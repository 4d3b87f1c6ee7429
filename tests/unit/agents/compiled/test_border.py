"""What the compiled agent shares with Python is said once; the compiler or the loading of the agent refuses whatever
differs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from gradwire.agents import transfer
from gradwire.agents.compiled import border, library
from gradwire.agents.compiled.structures import FAILURES, SHARED, c_name
from gradwire.datatypes.wire import framing
from gradwire.faults import InternalFault
from gradwire.vm.kernel_source import AGENT, AGENT_FLAGS, PATCHES, agent_sources
from tests.shared.parts import tells

CALLS_PATCH = PATCHES / "6.12" / "um-calls.patch"


def compiled(folder: Path, changes: dict[str, tuple[str, str]]) -> subprocess.CompletedProcess[str]:
    """Compiles the agent's sources after a replacement in each of some files."""
    for path in agent_sources():
        text = path.read_text()
        if path.name in changes:
            old, new = changes[path.name]
            assert old in text
            text = text.replace(old, new, 1)
        (folder / path.name).write_text(text)
    code = [str(path) for path in sorted(folder.glob("*.c"))]
    command = ["gcc", *AGENT_FLAGS, "-o", str(folder / "agent.so"), *code]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_header_is_what_python_says() -> None:
    assert (AGENT / "border.h").read_text() == border.header(), f"write it anew: {border.REMEDY}"


def test_a_changed_number_changes_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = border.border_digest()
    monkeypatch.setitem(border._CONSTANTS["agents/transfer.py"], "INLINE_BYTES", transfer.INLINE_BYTES + 1)
    border.border_digest.cache_clear()
    try:
        assert border.border_digest() != before
        assert f"#define INLINE_BYTES {transfer.INLINE_BYTES + 1}\n" in border.header()
    finally:
        border.border_digest.cache_clear()


def test_no_source_in_c_says_a_shared_name_again() -> None:
    names = re.findall(r"^#define (\w+)|^(?:struct|union|enum) (\w+) \{", border.header(), re.MULTILINE)
    for path in agent_sources():
        if path.name != "border.h":
            said = set(re.findall(r"^#define (\w+)|^(?:struct|union|enum) (\w+) \{", path.read_text(), re.MULTILINE))
            assert not said & set(names), path.name


def test_the_places_of_a_header_are_those_that_python_packs() -> None:
    names = list(framing.HEADER_DTYPE.fields or {})
    assert border.offsets(framing._FIXED, names) == border._header_fields()


@pytest.mark.parametrize("name", [*SHARED, *(c_name(kind) for kind in FAILURES)])
def test_a_structure_that_differs_is_not_compiled(tmp_path: Path, name: str) -> None:
    """One of another size: a field more at its end."""
    body = re.search(rf"struct {name} {{\n.*?}};\n", border.header(), re.DOTALL)
    assert body
    done = compiled(tmp_path, {"border.h": (body[0], body[0].replace("};\n", "\tint64_t more;\n};\n"))})
    assert done.returncode
    assert f"struct {name} has another size" in done.stderr


def test_fields_that_change_places_are_not_compiled(tmp_path: Path) -> None:
    done = compiled(
        tmp_path, {"border.h": ("\tint64_t held;\n\tint64_t needed;\n", "\tint64_t needed;\n\tint64_t held;\n")}
    )
    assert done.returncode
    assert tells(done.stderr, "held", "struct not_complete is elsewhere")


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("transfer.c", ".set_bytes = of_set", ".slot = of_set"),
        ("transfer.c", "fail_closed(replay, receiver)", "fail_closed(replay, receiver->end->connection)"),
        ("transfer.c", "fail_call(replay, call)", "fail_call(replay, call, 0)"),
        ("interpreter.c", "(struct contradictory){", "(struct not_complete){"),
    ],
)
def test_details_of_another_failure_are_not_compiled(tmp_path: Path, file: str, right: str, wrong: str) -> None:
    assert compiled(tmp_path, {file: (right, wrong)}).returncode


def test_an_agent_of_another_border_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    assert not compiled(tmp_path, {}).returncode
    library.load(tmp_path / "agent.so")  # None where the kernel takes no lists of calls, and no fault
    (tmp_path / "other").mkdir()
    here = f"{border.border_digest():#018x}"
    assert not compiled(tmp_path / "other", {"border.h": (here, "0x0123456789abcdef")}).returncode
    said = (
        f"the compiled agent shares border 0123456789abcdef with Python, and Python has {border.border_digest():016x}: "
    )
    with pytest.raises(InternalFault, match=said) as refused:
        library.load(tmp_path / "other" / "agent.so")
    assert "\n" not in str(refused.value)


def test_an_agent_that_does_not_say_its_border_is_refused(tmp_path: Path) -> None:
    assert not compiled(
        tmp_path, {"exported.h": ("EXPORTED uint64_t border_digest", "uint64_t border_digest")}
    ).returncode
    with pytest.raises(InternalFault, match="border none"):
        library.load(tmp_path / "agent.so")


def test_lists_of_calls_are_what_the_kernel_reads() -> None:
    """calls.h and the kernel's patch, which both have the structures: the same fields in the same order."""
    added = "\n".join(line[1:] for line in CALLS_PATCH.read_text().splitlines() if line.startswith("+"))
    in_kernel, here = added, (AGENT / "calls.h").read_text()
    for name in ("call", "ready"):
        assert _fields(here, name) == _fields(in_kernel, f"um_{name}")
    for name in ("CALLS", "EACH_READY", "NOTHING"):
        assert _number(here, name) == _number(in_kernel, f"UM_{name}")


def _fields(text: str, name: str) -> list[tuple[str, str]]:
    body = re.search(rf"struct {name} {{(.*?)}}", text, re.DOTALL)
    assert body
    fields_of_type = []
    for of_type, names in re.findall(r"(?:__)?([us]\d+|u?int\d+_t) ([^;]+);", re.sub(r"/\*.*?\*/", "", body[1])):
        short = of_type.replace("uint", "u").replace("int", "s").removesuffix("_t")
        fields_of_type += [(short, field.strip()) for field in names.split(",")]
    return fields_of_type


def _number(text: str, name: str) -> int:
    match = re.search(rf"#define {name}\s+(\S+)", text)
    assert match
    return int(match[1], 0)
