"""JSON from users: what another reader would take for something else is refused, wherever it is read."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradwire.analysis.program_results import read_lines
from gradwire.faults import InputFault
from gradwire.inside.program_protocol import ProgramEnded, event_of
from gradwire.reading_budget import reading_budget
from gradwire.scenario.definitions.inlining import read_model
from gradwire.scenario.definitions.network_files import network_in
from gradwire.strict_json import parse_json
from gradwire.typed_json import decoded
from gradwire.workloads import doubled_keys
from tests.shared.parts import in_order
from tests.shared.snippets import ROOT

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_what_json_has_is_read(content: object) -> None:
    assert parse_json(json.dumps(content)) == content
    assert parse_json(json.dumps(content, ensure_ascii=False)) == content


WRONG = {
    "a key twice": '{"a": 1, "b": {"c": 1, "c": 2}}',
    "the same key, otherwise written": '{"a": 1, "\\u0061": 2}',
    "not a number": '{"a": NaN}',
    "no end": '{"a": [-Infinity]}',
    "too large": '{"a": 1e999}',
    "too long": f'{{"a": {"9" * 5000}}}',
    "too deep": "[" * 100_000,
    "half a character": r'{"a": "\ud800"}',
    "the other half, in a key": r'{"\uDC00": 1}',
}


@pytest.mark.parametrize("text", WRONG.values(), ids=WRONG)
def test_what_it_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_json(text)


CONFIG = {
    "model_type": "llama", "vocab_size": 1000, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
}  # fmt: skip
NUMBERS = (
    "NaN",
    "Infinity",
    "-1",
    "0",
    "1e999",
    "1e30",
    "9" * 30,
    '"8"',
    "true",
    "[]",
    "1.5",
    r'"\ud800"',
    "1000000000",
)


@pytest.mark.parametrize("key", [key for key in CONFIG if key != "model_type"])
@pytest.mark.parametrize("value", NUMBERS, ids=range(len(NUMBERS)))
def test_a_configuration_with_a_wrong_number_ends_with_one_message(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({**CONFIG, key: "@"}).replace('"@"', value))
    if value == "1000000000" and key in ("vocab_size", "intermediate_size"):
        return  # a model that can be
    with pytest.raises(InputFault) as refused:
        read_model(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_keys_that_are_given_twice_are_refused_in_every_file(tmp_path: Path) -> None:
    config, graph, infra = tmp_path / "m.json", tmp_path / "n.json", tmp_path / "i.yaml"
    config.write_text(json.dumps(CONFIG)[:-1] + ', "hidden_size": 128}')
    graph.write_text('{"nodes": [{"id": "h1", "id": "h2"}], "edges": []}')
    infra.write_text("instances: {}\ninstances: {}\n")
    reads: tuple[Callable[[], object], ...] = (
        lambda: read_model(config),
        lambda: network_in("n.json", graph),
        lambda: network_in("i.yaml", infra),
        lambda: read_lines('{"a": 1, "a": 2}'),
    )
    for read in reads:
        with pytest.raises(InputFault, match="is given twice"):
            read()


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "text", [DEEP, f'{{"x": {DEEP}}}', f'{{"event": "output", "x": {DEEP}}}', "", "{", '{"event": 3}', "\x00"]
)
def test_whatever_a_program_answers_is_a_message_or_none(text: str) -> None:
    assert event_of(text) is None
    with pytest.raises(ValueError):
        decoded(text, ProgramEnded)
    with pytest.raises(ValueError):
        decoded(text.encode() + b"\xff", ProgramEnded)


def test_a_key_given_twice_among_very_many_is_found_soon() -> None:
    text = "{" + ", ".join(f'"{number}": 0' for number in [*range(100_000), 99_999]) + "}"
    with pytest.raises(ValueError, match=in_order('"99999"', "twice")), reading_budget("text", 0):
        parse_json(text)


AMONG_PROCESSES = ("agents", "controller", "inside", "programs", "recorder", "topo", "vm")
"""Folders whose JSON is what gradwire's own processes, and tools that it calls, say to one another while they run."""
OTHERWISE = {
    "cli/running.py": "what pandas has just written",
    "lab/programs.py": "what any program says, as Python's own reader has it",
    "runs/stored/soundness.py": "types alone, of what `Fabric.from_json` then reads",
    "strict_json.py": "the strict reader",
    "typed_json.py": "typed messages of programs and caches, and reports of tools, of which iperf3's says a key twice itself",
    "workloads/traces/formats/execution_trace.py": "parts of nodes that `JsonItems` has read",
    "workloads/traces/formats/json_items.py": "traces of gigabytes, with `refuse_doubled_keys`",
    "workloads/traces/formats/kineto_events.py": "parts of events that `JsonItems` has read",
}
"""Modules that read JSON by another reader, and what."""
LOOSE_READERS = {"json.load", "json.loads", "json.JSONDecoder", "msgspec.json.decode", "msgspec.json.Decoder"}


def test_files_of_users_are_read_by_the_strict_reader() -> None:
    folder = ROOT / "gradwire"
    found = {
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*.py"))
        if path.relative_to(folder).parts[0] not in AMONG_PROCESSES
        and "json" in (source := path.read_text())
        and LOOSE_READERS
        & {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    }
    assert found == set(OTHERWISE)
    for imported in ("from json import", "from msgspec.json import", "import json as", "import msgspec.json"):
        assert [path for path in folder.rglob("*.py") if re.search(rf"^\s*{imported}", path.read_text(), re.M)] == []


KEYS = st.text(st.sampled_from('ab"\\:{} \u00e9'), max_size=2)
PAIRS = st.recursive(
    st.integers(0, 9).map(str) | KEYS.map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(KEYS.map(lambda key: json.dumps(key, ensure_ascii=False)), inner), max_size=4).map(
            lambda pairs: "{" + " , ".join(f"{key} :{value}" for key, value in pairs) + "}"
        )
    ),
)
"""JSON, some of whose objects have a key twice."""


@given(st.lists(PAIRS, max_size=4))
def test_machine_code_finds_the_keys_that_python_finds(items: list[str]) -> None:
    def refused(least_bytes: int) -> bool:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(doubled_keys, "IN_CODE_FROM_BYTES", least_bytes)
            try:
                doubled_keys.refuse_doubled_keys(f"[{', '.join(items)}]".encode())
            except ValueError:
                return True
        return False

    assert refused(0) == refused(1 << 30)
