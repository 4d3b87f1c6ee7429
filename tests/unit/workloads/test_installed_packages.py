"""Models and devices of installed packages: found by name, imported when they are named, and refused with their
package's name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.loading import load_scenario
from gradwire.workloads.installed_packages import installed_catalogue
from gradwire.workloads.models.catalogue import BUILT_IN
from gradwire.workloads.models.compute_times import compute_time
from tests.shared.parts import in_order, tells
from tests.shared.snippets import install
from tests.unit.scenario.definitions.own_files import write_own_files

MODULE = """\
from gradwire.plugin import Device, Fact, Layer, LayerKind, Profile, Tensor

GPU = Device("a package's GPU", (Fact("two-layers", 4, 0.5, "timed"),))


def two_layers():
    first = Layer("first", LayerKind.FC, (Tensor("first/weights", 100),), 1e6, ())
    second = Layer("second", LayerKind.FC, (Tensor("second/weights", 300),), 3e6, (0,))
    return Profile("two-layers", (first, second), 4, "made up")
"""
MODEL_ENTRY, DEVICE_ENTRY = {"two-layers": "own_models:two_layers"}, {"own-gpu": "own_models:GPU"}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a package with models and devices for this process: takes its module's text and its entries."""

    def put(text: str, models: dict[str, str], devices: dict[str, str], name: str = "own") -> None:
        folder = tmp_path / name
        monkeypatch.syspath_prepend(install(folder, name, "1.2", {}, models=models, devices=devices))
        (folder / "own_models.py").write_text(text)
        sys.modules.pop("own_models", None)

    return put


def test_a_packages_model_and_device_are_found_and_listed(package: Any, call: Any, tmp_path: Path) -> None:
    package(MODULE, MODEL_ENTRY, DEVICE_ENTRY)
    catalogue = installed_catalogue()
    profile = catalogue.model("two-layers")
    assert profile.parameters == 400
    assert catalogue.devices_for(profile)[0] == "own-gpu"
    assert compute_time(profile, "own-gpu", catalogue=catalogue).forward_s[0] == pytest.approx(0.5 / 3 / 4)
    for command, name in (("models", "two-layers"), ("devices", "own-gpu")):
        (facts,) = (listed for listed in json.loads(call(command, "--json")[1]) if listed["name"] == name)
        assert facts["from"] == ["own 1.2"]
        assert "own 1.2" in " ".join(call(command)[1].split())
    scenario = write_own_files(tmp_path)
    settings = ("model.name=two-layers", "model.device=own-gpu", "strategy.name=ring")
    assert load_scenario(scenario, settings).points[0].parameters["model"] == "two-layers"


def test_nothing_is_imported_until_it_is_named(package: Any) -> None:
    package("raise RuntimeError('no luck')\n", MODEL_ENTRY, DEVICE_ENTRY)
    assert installed_catalogue().model("alexnet") is BUILT_IN.model("alexnet")
    assert "own_models" not in sys.modules
    assert installed_catalogue().devices_for(installed_catalogue().model("vgg16")) == BUILT_IN.devices_for(
        BUILT_IN.model("vgg16")
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no luck')\n", "imported: RuntimeError: no luck"),
        ("two_layers = 3\n", "is a int: .*Profile"),
        ("def two_layers():\n    return 3\n", "returns a int: .*Profile"),
        ("def two_layers():\n    return 1 / 0\n", "ZeroDivisionError"),
        (MODULE.replace('Profile("two-layers"', 'Profile("three"'), "calls itself 'three'"),
    ],
)
def test_a_model_that_cannot_be_used_is_named_and_the_others_are_listed(
    package: Any, call: Any, text: str, said: str
) -> None:
    package(text, MODEL_ENTRY, {})
    with pytest.raises(InputFault, match=said) as fault:
        installed_catalogue().model("two-layers")
    assert tells(str(fault.value), "'two-layers' of own 1.2", "own_models:two_layers")
    status, out, err = call("models")
    assert status == 2
    assert "resnet50" in out
    assert "own 1.2" in err


@pytest.mark.parametrize(("text", "said"), [("GPU = 3\n", "is a int: .*Device"), ("", "imported")])
def test_a_device_that_cannot_be_used_is_named(package: Any, text: str, said: str) -> None:
    package(text, {}, DEVICE_ENTRY)
    with pytest.raises(InputFault, match=said) as fault:
        installed_catalogue().device("own-gpu")
    assert "'own-gpu' of own 1.2" in str(fault.value)


def test_names_that_two_claim_are_refused_with_both(package: Any) -> None:
    package(MODULE, {"alexnet": "own_models:two_layers"}, {"k40": "own_models:GPU"})
    with pytest.raises(InputFault, match=in_order("model 'alexnet'", "gradwire", "own 1.2", "gradwire.models")):
        installed_catalogue().model("alexnet")
    with pytest.raises(InputFault, match=in_order("device 'k40'", "gradwire", "own 1.2")):
        installed_catalogue().device("k40")
    package(MODULE, MODEL_ENTRY, {}, "first")
    package(MODULE, MODEL_ENTRY, {}, "second")
    with pytest.raises(InputFault, match="model 'two-layers' is"):
        installed_catalogue().model("two-layers")


def test_a_file_and_a_package_of_one_name_are_refused_where_both_are_named(package: Any, tmp_path: Path) -> None:
    package(MODULE.replace("two-layers", "tiny"), {"tiny": "own_models:two_layers"}, {})
    scenario = write_own_files(tmp_path)
    assert load_scenario(scenario).points[0].section.defined.models.keys() == {"tiny"}
    scenario.write_text(scenario.read_text() + '[sweep]\n"model.name" = ["tiny", "../mine/tiny.toml"]\n')
    with pytest.raises(InputFault, match=in_order("model 'tiny':", "tiny.toml", "package")):
        load_scenario(scenario)
