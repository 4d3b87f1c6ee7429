"""InfraGraph from others: a file of a few kilobytes neither takes hours nor all memory, and what is wrong is one message."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradwire.faults import InputFault
from gradwire.scenario.definitions.network_files import network_in
from gradwire.scenario.definitions.yaml_documents import yaml_document
from tests.shared.parts import tells

ONE_HOST: dict[str, Any] = {
    "name": "net",
    "devices": [
        {"name": "host", "components": [{"name": "nic", "choice": "nic", "count": 1}]},
        {"name": "switch", "components": [{"name": "port", "choice": "port", "count": 16_384}]},
    ],
    "links": [{"name": "wire"}],
    "instances": [{"name": "host", "device": "host", "count": 1}, {"name": "switch", "device": "switch", "count": 1}],
    "edges": [
        {
            "ep1": {"instance": "host", "component": "nic"},
            "ep2": {"instance": "switch", "component": "port"},
            "scheme": "one2one",
            "link": "wire",
        }
    ],
}


def refusal(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(InputFault) as raised:
        network_in(str(path), path)
    message = str(raised.value)
    assert str(path) in message
    assert len(message) < 1000
    return message


@pytest.mark.parametrize(
    "value",
    ["!!timestamp foo", "!!int ''", "!!float ''", "!!bool foo", "!!python/object/apply:os.system ['false']", "! 3"],
)
def test_yaml_with_tags_is_refused_before_it_is_constructed(tmp_path: Path, value: str) -> None:
    assert "tag (" in refusal(tmp_path / "net.yaml", f"instances: {value}\n")


@pytest.mark.parametrize("number", [":".join(["1"] * 500_000), "0x" + "f" * 1_000_000])
def test_a_number_in_yaml_that_takes_hours_to_read_is_refused(tmp_path: Path, number: str) -> None:
    assert "more than 4,000 characters" in refusal(tmp_path / "net.yaml", f"instances: {number}\n")


def test_devices_in_devices_are_looked_at_once(tmp_path: Path) -> None:
    """Twelve to the power of twelve ways lead from the first device to the last."""
    deep, wide = 12, 12
    inner = [{"name": "nic", "choice": "nic", "count": 1}]
    devices = [
        {
            "name": f"d{level}-{number}",
            "components": inner
            if level == deep - 1
            else [{"name": f"d{level + 1}-{n}", "choice": "device", "count": 1} for n in range(wide)],
        }
        for level in range(deep)
        for number in range(wide)
    ]
    document = {
        **ONE_HOST,
        "devices": [*devices, ONE_HOST["devices"][1]],
        "instances": [{"name": "host", "device": "d0-0", "count": 1}, ONE_HOST["instances"][1]],
        "edges": [{**ONE_HOST["edges"][0], "ep1": {"instance": "host", "component": "d1-0"}}],
    }
    path = tmp_path / "net.json"
    path.write_text(json.dumps(document))
    assert network_in(str(path), path)["hosts"] == ["host.0"]
    devices[-1]["components"] = [{"name": "d0-0", "choice": "device", "count": 1}]
    assert "or itself" in refusal(path, json.dumps(document))


def test_links_of_all_edges_together_have_a_limit(tmp_path: Path) -> None:
    end = {"instance": "switch", "component": "port"}
    edge = {"ep1": end, "ep2": end, "scheme": "one2one", "link": "wire"}
    said = refusal(tmp_path / "net.json", json.dumps({**ONE_HOST, "edges": [edge] * 16_384}))
    assert tells(said, "edges.1:", "16,384 links")


@pytest.mark.parametrize("rate", ["1e300", "-1", "NaN", "9" * 4000])
def test_a_rate_that_no_link_has_is_refused(tmp_path: Path, rate: str) -> None:
    text = json.dumps({**ONE_HOST, "links": [{"name": "wire", "physical": {"bandwidth": {"gigabits_per_second": 0}}}]})
    said = refusal(tmp_path / "net.json", text.replace('"gigabits_per_second": 0', f'"gigabits_per_second": {rate}'))
    assert tells(said, "links.wire.physical.bandwidth.gigabits_per_second:", "0 to 1e+15")


def test_a_name_of_thousands_of_digits_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(ONE_HOST).replace('"switch"', f'"{"9" * 5000}"'))
    assert network_in(str(path), path)["switches"] == [f"{'9' * 5000}.0"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("instances: 1\ninstances: 2\n", "the key instances is given twice"),
        ("? [a]\n: b\n", "the key ['a'] is no text"),
        ("--- 1\n--- 2\n", "has 2 documents"),
        ("<<: {instances: 1}\n", "<< is no value"),
        ("instances: =\n", "= is no value"),
        ("instances: " + "[" * 17 + "]" * 17, "lists and tables more than 16 deep"),
        ("instances: *x\n", "has an anchor"),
        ("a: &a [1, 1]\nb: [*a, *a]\n", "has an anchor"),
    ],
)
def test_yaml_that_no_program_writes_is_refused(tmp_path: Path, text: str, said: str) -> None:
    assert said in refusal(tmp_path / "net.yaml", text)


def test_yaml_of_any_depth_is_refused(tmp_path: Path) -> None:
    """By gradwire's limit, or by that of libyaml where PyYAML has it."""
    assert re.search("16 deep|nesting depth", refusal(tmp_path / "net.yaml", "[" * 100_000))


def test_values_of_yaml_are_those_of_pyyaml(tmp_path: Path) -> None:
    text = "a: [1, 2.5, yes, null, ~, 0x1f, 1e3, 1.0e+3, 2001-01-01, 1:30, '3', \"x\", .5, .inf]\nb: {}\nc: []\nd:\n- |\n  text\n- {e: f}\n"
    assert yaml_document(tmp_path / "net.yaml", text) == yaml.safe_load(text)
    assert yaml_document(tmp_path / "net.yaml", "") is None
