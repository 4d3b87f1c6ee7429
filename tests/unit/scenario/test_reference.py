"""What can be written in a scenario is told from the schema itself: keys with their meanings, the page of all keys, the JSON Schema."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gradwire.faults import InputFault
from gradwire.scenario.reference import (
    REQUIRED,
    every_section,
    explained,
    found_by_words,
    json_schema,
    markdown,
    option_facts,
    option_tables,
    sections,
)
from gradwire.scenario.schema import FileSection, PointSection
from gradwire.scenario.synonyms import SYNONYMS
from gradwire.workloads.strategy_registry import BUILT_IN
from gradwire.workloads.trace_replay.replay_strategy import REPLAY
from tests.shared.parts import in_order
from tests.shared.snippets import ROOT

STRATEGIES = [*(BUILT_IN[name] for name in sorted(BUILT_IN)), REPLAY]
SCENARIOS = [
    *sorted((ROOT / "scenarios").glob("*.toml")),
    *sorted((ROOT / "examples" / "programs").glob("*.toml")),
    *(
        path
        for path in sorted((ROOT / "reproduction" / "world" / "scenarios").glob("*.toml"))
        if "title" in tomllib.loads(path.read_text())
    ),
]


def test_every_key_and_every_option_has_a_meaning_and_says_what_its_value_must_be() -> None:
    facts = [key for section in sections() for key in section.keys]
    facts += [option for each in STRATEGIES for option in option_facts(each.options)]
    assert [key.name for key in facts if not key.meaning.endswith((".", ")")) or not key.value] == []


def test_synonyms_name_keys_that_there_are_and_no_key_itself_in_its_section() -> None:
    known = {key.name for section in sections() for key in section.keys} | {section.name for section in sections()}
    known |= {section.name.removesuffix(".NAME") for section in sections()}
    known |= {key.name for table in option_tables(STRATEGIES) for key in table.keys}
    assert {key for keys in SYNONYMS.values() for key in keys} - known == set()
    assert {
        word for word, keys in SYNONYMS.items() if any(key.endswith(f".{word}") for key in keys if "NAME" not in key)
    } == set()


WORDS = ("latency", "gpudirect", "ps")


def test_a_synonym_leads_to_its_key() -> None:
    of_word = {
        word: [facts.name for section in explained(word, STRATEGIES) for facts in section.keys] for word in WORDS
    }
    assert of_word["latency"] == ["fabric.delay", "costs.message_latency.value", "costs.message_latency.source"]
    assert of_word["gpudirect"] == ["strategy.options.nccl.transport"]
    assert "cluster.servers" in of_word["ps"]
    assert {section.name for section in explained("allreduce", STRATEGIES)} >= {"strategy 'ring'", "strategy 'ddp'"}
    found = [key.name for section in found_by_words("bandwidth", every_section(STRATEGIES)) for key in section.keys]
    assert "fabric.rate" in found


def test_all_tables_are_there() -> None:
    names = {section.name for section in sections()}
    assert names >= {
        "",
        *(PointSection.model_fields.keys() - {"program", "fault", "job"}),
        "program.NAME",
        "fault.NAME",
        "job.NAME",
        "printed[]",
        "model.layers[]",
        "costs.copy_rate",
    }
    (file,) = (section for section in sections() if not section.name)
    assert [key.name for key in file.keys] == list(FileSection.model_fields)


def test_the_page_of_all_keys_is_that_of_today() -> None:
    page = (ROOT / "docs" / "scenario-reference.md").read_text()
    assert page == markdown(STRATEGIES), "run `gradwire explain --markdown > docs/scenario-reference.md`"


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("fabric.rate", ["fabric.rate"]),
        (
            "transport",
            [
                f"transport.{key}"
                for key in ("buffer", "send_ends", "unsent", "congestion", "agents", "connections", "agent_code")
            ],
        ),
        ("title", ["title"]),
        ("costs.copy_rate.value", ["costs.copy_rate.value"]),
        ("ecn", ["fabric.ecn", "fabric.link.NAME.ecn", "defined.networks.NAME.links[].ecn"]),
        (
            "buffer",
            [
                "fabric.buffer",
                "fabric.lossless.buffer",
                "fabric.link.NAME.buffer",
                "transport.buffer",
                "defined.networks.NAME.links[].buffer",
            ],
        ),
        ("p3", [f"strategy.options.{option}" for option in BUILT_IN["p3"].options.model_fields]),
    ],
)
def test_a_key_a_section_or_a_strategy_is_explained(key: str, names: list[str]) -> None:
    assert [facts.name for section in explained(key, STRATEGIES) for facts in section.keys] == names


def test_an_option_is_explained_for_each_strategy_that_has_it() -> None:
    told = explained("strategy.options.wire", STRATEGIES)
    assert {section.name for section in told} >= {"strategy 'ring'", "strategy 'horovod'"}
    assert {facts.default for section in told for facts in section.keys} == {"fp32"}


def test_values_that_have_no_default_are_required() -> None:
    required = {key.name for section in sections() for key in section.keys if key.default == REQUIRED}
    assert {"title", "cluster.workers", "fabric.rate", "model.name", "strategy.name"} <= required
    assert "fabric.loss" not in required


@pytest.mark.parametrize(
    ("key", "hint"), [("fabric.rat", "fabric.rate"), ("horovd", "horovod"), ("qqqq", "gradwire explain")]
)
def test_what_is_not_there_is_refused_with_the_nearest_name(key: str, hint: str) -> None:
    with pytest.raises(InputFault, match=hint):
        explained(key, STRATEGIES)


def test_editors_have_the_schema_that_gradwire_prints_and_use_it_for_every_scenario() -> None:
    assert json.loads((ROOT / "docs" / "scenario.schema.json").read_text()) == json_schema(), (
        "gradwire explain --json-schema > docs/scenario.schema.json"
    )
    editors = tomllib.loads((ROOT / ".taplo.toml").read_text())
    (rule,) = editors["rule"]
    assert (ROOT / rule["schema"]["path"]).samefile(ROOT / "docs" / "scenario.schema.json")
    matched = {path.resolve() for pattern in rule["include"] for path in ROOT.glob(pattern)}
    left_out = {path.resolve() for pattern in rule["exclude"] for path in ROOT.glob(pattern)}
    assert matched - left_out == {path.resolve() for path in SCENARIOS}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    """Of the schema, which is one itself."""
    schema = json_schema()
    assert jsonschema.validators.validator_for(schema) is jsonschema.Draft202012Validator
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_json_schema_takes_every_shipped_scenario(path: Path, validator: jsonschema.Draft202012Validator) -> None:
    validator.validate(tomllib.loads(path.read_text()))


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("fabric", "rat", "10gbit"),
        ("fabric", "rate", 10),
        ("cluster", "workers", 0),
        ("fabric", "topology", "star"),
        ("", "titel", "x"),
    ],
)
def test_the_json_schema_rejects_what_gradwire_rejects(
    table: str, key: str, value: Any, validator: jsonschema.Draft202012Validator
) -> None:
    document: dict[str, Any] = copy.deepcopy(tomllib.loads((ROOT / "scenarios" / "geryon-table2.toml").read_text()))
    (document[table] if table else document)[key] = value
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(document)


def test_a_search_finds_keys_by_what_they_mean() -> None:
    names = [facts.name for section in explained("link delay", []) for facts in section.keys]
    assert {"fabric.delay", "fabric.link.NAME.delay"} <= set(names)
    assert "model.name" not in names
    with pytest.raises(InputFault, match="zeppelin"):
        explained("zeppelin", [])


def test_words_with_other_endings_are_found_and_typing_errors_are_not_searched() -> None:
    assert "fault.NAME.every" in [facts.name for section in explained("flaps", []) for facts in section.keys]
    assert "fault.NAME.kind" in [facts.name for section in explained("flapping links", []) for facts in section.keys]
    assert [facts.name for section in explained("ecmp routing", []) for facts in section.keys] == ["fabric.routing"]
    with pytest.raises(InputFault, match=in_order("fabirc.rate", "fabric.rate")):
        explained("fabirc.rate", [])


@pytest.mark.parametrize("table", ["fault", "job", "fabric"])
def test_a_table_is_explained_by_its_first_word(table: str) -> None:
    (section, *_) = explained(table, [])
    assert section.name in (table, f"{table}.NAME")
    assert len(section.keys) > 3
