"""Model files and device files: what they mean, what is refused, and that what gradwire has survives the way to a file and back."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.definitions.conversion import (
    device_file,
    device_of,
    device_text,
    model_file,
    model_text,
    profile_of,
)
from gradwire.scenario.definitions.inlining import read_definition
from gradwire.scenario.explanations import validated
from gradwire.scenario.sections.defined import DeviceFile, ModelFile
from gradwire.workloads.models import model, model_names
from gradwire.workloads.models.device_facts import DEVICES
from gradwire.workloads.models.profile import Layer, LayerKind, Profile, Tensor
from gradwire.workloads.models.published_models import TRANSFORMERS
from tests.shared.parts import in_order
from tests.unit.scenario.definitions.own_files import DEVICE, MODEL

TAKEN = [name for name in model_names() if name not in TRANSFORMERS]
"""Models that are all different; published transformers are built alike, of which those below have most kinds of
tensors."""


@pytest.mark.parametrize(
    "name", [*TAKEN, "inception-v3-netops+2compute", "bert-base", "vit-l16", "t5-11b", "gpt-oss-20b", "mixtral-8x7b"]
)
def test_every_model_is_the_same_after_the_way_to_a_file_and_back(name: str) -> None:
    file = validated(ModelFile, tomllib.loads(model_text(model_file(model(name)))))
    assert profile_of(file.name, file) == replace(model(name), name=name.replace("+", "-"))


@pytest.mark.parametrize("name", DEVICES)
def test_every_device_is_the_same_after_the_way_to_a_file_and_back(name: str) -> None:
    file = validated(DeviceFile, tomllib.loads(device_text(device_file(name, DEVICES[name]))))
    assert (file.name, device_of(file)) == (name, DEVICES[name])


def test_a_model_file_means_what_it_says() -> None:
    profile = profile_of("tiny", validated(ModelFile, tomllib.loads(MODEL)))
    embedding, head = profile.layers
    assert embedding == Layer("embedding", LayerKind.EMBEDDING, (Tensor("embedding/words", 64_000, 1000),), 1e6, ())
    assert head.inputs == (0,)
    assert head.flops == 2e9  # a multiply-add is two operations
    assert head.tensors == (Tensor("head/weights", 64_000, 64), Tensor("head/bias", 1000))
    assert (profile.batch, profile.source) == (8, "made up")


def test_a_tensor_that_no_file_can_describe_is_refused() -> None:
    layer = Layer("a", LayerKind.FC, (Tensor("weights", 6, 4),), 1.0, ())
    with pytest.raises(InputFault, match=in_order("'weights'", "'a'")):
        model_file(Profile("m", (layer,), 1, "made up"))


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("[1000, 64]", '"x"', r"layers.0.tensors.words = 'x': must be a tensor's shape, such as \[768, 3072\], or its"),
        ("[1000, 64]", "[1000, 0]", "layers.0.tensors.words.1 = 0: must be a whole number of 1 to"),
        ("[1000, 64]", "[]", r"layers.0.tensors.words = \[\]: a shape has at least one number"),
        ("[1000, 64]", "true", "layers.0.tensors.words = true: must be a tensor's shape"),
        ('"1 MFLOP"', "1000000", "layers.0.flops = 1000000: must be a number of floating-point operations"),
        ('"1 MFLOP"', '"1 MFLOPS"', "FLOPS and FLOP/s are rates: a number of operations is written FLOP"),
        ('"1 MFLOP"', '"1 MB"', "this is a size"),
        ('flops = "1 GMAC"', "", "layers.1.flops: missing; write a number of floating-point operations"),
        ('name = "tiny"', 'name = "ti ny"', "name = 'ti ny': may have letters"),
        ('name = "tiny"', 'name = "tiny.toml"', "does not end in .toml"),
        ('name = "tiny"', "", "name: missing; write a text"),
        ('kind = "fc"', 'kind = "dense"', 'layers.1.kind = \'dense\': must be "conv", "fc"'),
        ('name = "head"', 'name = "embedding"', "layers: two are called 'embedding'"),
        ('kind = "fc"', 'inputs = ["x"]', "layers.1.inputs: 'head' reads 'x', which is not an earlier layer"),
        ("batch = 8", "batch = 0", "batch = 0: must be a whole number"),
        ("batch = 8", "", "batch: missing"),
        ("tensors = {", "tensor = {", "layers.0.tensor: unknown key; did you mean 'tensors'"),
        (MODEL, "", "is empty; a model file has the keys name, batch, source and layers"),
        (MODEL, "name = tiny", "not valid TOML"),
    ],
)
def test_what_is_wrong_in_a_model_file_is_told_with_file_and_key(
    tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(MODEL.replace(old, new))
    with pytest.raises(InputFault, match=complaint) as fault:
        read_definition(path, ModelFile)
    assert all(line.startswith(f"{path}: ") for line in str(fault.value).splitlines())


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(MODEL.replace("batch = 8", "batch = 0").replace('"fc"', '"dense"'))
    with pytest.raises(InputFault) as fault:
        read_definition(path, ModelFile)
    assert len(str(fault.value).splitlines()) == 2


FACT = '[[facts]]\nmodel = "tiny"\nbatch = 8\nsource = "measured"\n'


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        (DEVICE[DEVICE.index("[peak]") :], "", "facts: missing; a device needs times of models, or a .peak. rate"),
        ("0.4", "40", "peak.efficiency = 40: must be a number above 0 and of at most 1"),
        ("100 TFLOP/s", "100 TFLOP", "this is a number of floating-point operations"),
        ('"24 GiB"', '"24"', "memory = '24': must be a size"),
        (
            "memory",
            'alike = { tiny = "large" }\nmemory',
            "alike.tiny = 'large': must be a model with a fact here: none",
        ),
        (
            "[peak]",
            f"{FACT}[peak]",
            "facts.0.iteration_time: write either this, or both forward_time and backward_time",
        ),
        ("[peak]", f'{FACT}forward_time = "1s"\n[peak]', "facts.0.iteration_time: write either this, or both"),
        ("[peak]", f'{FACT}forward_time = "1s"\niteration_time = "2s"\n[peak]', "facts.0.iteration_time: write either"),
    ],
)
def test_what_is_wrong_in_a_device_file_is_told(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "gpu.toml"
    path.write_text(DEVICE.replace(old, new))
    with pytest.raises(InputFault, match=complaint):
        read_definition(path, DeviceFile)


def test_a_file_that_is_not_there_is_told_as_what_it_would_be(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=in_order("gpu.toml:", "device")):
        read_definition(tmp_path / "gpu.toml", DeviceFile)
