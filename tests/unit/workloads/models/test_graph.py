"""The layers' graph: who reads whom, and what added modules do to it."""

from __future__ import annotations

import pytest

from gradwire.faults import InputFault, InternalFault
from gradwire.workloads.models import model, model_names, synthetic
from gradwire.workloads.models.profile import LayerKind, Profile
from gradwire.workloads.models.shapes import Network, Node, concat

SYNTHETIC = ["inception-v3-netops+3compute", "inception-v3+2network+1compute"]


def readers(profile: Profile) -> list[list[int]]:
    """For each layer, the layers that read it."""
    out: list[list[int]] = [[] for _ in profile.layers]
    for index, layer in enumerate(profile.layers):
        for read in layer.inputs:
            out[read].append(index)
    return out


@pytest.mark.parametrize("name", model_names() + SYNTHETIC)
def test_graph_is_topological_and_connected(name: str) -> None:
    """Inputs come earlier, none twice, only embeddings and first layers read samples, and every layer but the last is
    read."""
    profile = model(name)
    assert all(max(layer.inputs, default=-1) < index for index, layer in enumerate(profile.layers))
    assert all(len(set(layer.inputs)) == len(layer.inputs) for layer in profile.layers)
    sources = [layer for layer in profile.layers if not layer.inputs]
    assert sources[0] is profile.layers[0]
    assert all(layer.kind is LayerKind.EMBEDDING for layer in sources[1:])
    assert [index for index, read in enumerate(readers(profile)) if not read] == [len(profile.layers) - 1]


@pytest.mark.parametrize("name", model_names() + SYNTHETIC)
def test_tensors_belong_to_their_layers_and_have_names_of_their_own(name: str) -> None:
    profile = model(name)
    assert len({tensor.name for tensor in profile.tensors}) == len(profile.tensors) == len(profile.tensor_layer)
    assert len({layer.name for layer in profile.layers}) == len(profile.layers)
    of_layers = [set(layer.tensors) for layer in profile.layers]
    assert all(tensor in of_layers[at] for tensor, at in zip(profile.tensors, profile.tensor_layer, strict=True))
    assert list(profile.tensor_layer) == sorted(profile.tensor_layer)
    assert sum(tensor.parameters for tensor in profile.tensors) == profile.parameters


@pytest.mark.parametrize("name", ["alexnet", "alexnet-bn", "alexnet-v2", "vgg16", "vgg19", "yolo-v1"])
def test_chains_have_no_branch(name: str) -> None:
    assert all(layer.inputs == (index - 1,) for index, layer in enumerate(model(name).layers) if index)


def test_inception_modules_branch_four_ways() -> None:
    """A stage's output is the four branches' last layers, and all four branches of the next one read all of it."""
    profile = model("inception-v1")
    first = [
        layer for layer in profile.layers if layer.name in {"mixed_3c/branch0a", "mixed_3c/branch1a", "mixed_3c/pool"}
    ]
    reads = {tuple(profile.layers[i].name for i in layer.inputs) for layer in first}
    branches = [f"mixed_3b/branch{end}/norm" for end in ("0a", "1b", "2b", "3")]
    assert reads == {tuple(branches)}


@pytest.mark.parametrize(("name", "units"), [("resnet50", 16), ("resnet101-v2", 33), ("resnet200", 66)])
def test_residual_units_add_two_branches(name: str, units: int) -> None:
    adds = [layer for layer in model(name).layers if layer.name.endswith("/add")]
    assert len(adds) == units
    assert all(len(layer.inputs) == 2 for layer in adds)


def test_resnet_creates_the_shortcut_first() -> None:
    """The order of variables in tf_cnn_benchmarks, on which round-robin placement depends."""
    names = [tensor.name for tensor in model("resnet50").tensors][:9]
    assert names == [
        "conv1/weights",
        "conv1/norm/beta",
        "conv1/norm/gamma",
        "block1/unit1/shortcut/weights",
        "block1/unit1/shortcut/norm/beta",
        "block1/unit1/shortcut/norm/gamma",
        "block1/unit1/conv1/weights",
        "block1/unit1/conv1/norm/beta",
        "block1/unit1/conv1/norm/gamma",
    ]


def test_both_classifiers_of_inception_v3_meet_in_the_loss() -> None:
    profile = model("inception-v3")
    assert [profile.layers[i].name for i in profile.layers[-1].inputs] == ["logits", "aux/logits"]


@pytest.mark.parametrize(("kind", "per_module"), [("compute", 284_656), ("network", 2_140_032)])
def test_added_modules_are_the_bases_own(kind: str, per_module: int) -> None:
    """Each adds what Mixed_5d and Mixed_6e have: 35x35x288 and 17x17x768."""
    base = model("inception-v3-netops")
    stage = synthetic.MODULES[kind].after
    assert sum(layer.parameters for layer in base.layers if layer.name.startswith(f"{stage}/")) == per_module
    longer = model(f"inception-v3-netops+5{kind}")
    assert longer.parameters - base.parameters == 5 * per_module
    assert longer.layers[: len(base.layers) // 4] == base.layers[: len(base.layers) // 4]


def test_compute_module_has_more_work_per_parameter() -> None:
    base = model("inception-v3-netops")

    def macs_per_parameter(kind: str) -> float:
        longer = model(f"inception-v3-netops+1{kind}")
        return (longer.flops - base.flops) / 2 / (longer.parameters - base.parameters)

    assert macs_per_parameter("compute") == pytest.approx(35 * 35, rel=0.01)
    assert macs_per_parameter("network") == pytest.approx(17 * 17, rel=0.01)


def test_added_modules_stand_between_their_stage_and_its_readers() -> None:
    base, longer = model("inception-v3"), model("inception-v3+2network")
    outputs = {base.layers[i].name for i in next(x for x in base.layers if x.name == "aux/pool").inputs}
    names = [layer.name for layer in longer.layers]
    for reader in ("aux/pool", "mixed_7a/branch0a", "mixed_7a/pool"):
        reads = {names[i] for i in longer.layers[names.index(reader)].inputs}
        assert reads == {name.replace("mixed_6e", "added_network2") for name in outputs}
    first = longer.layers[names.index("added_network1/branch0a")]
    assert {names[i] for i in first.inputs} == outputs


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vgg16+1compute", "vgg16 has no stage mixed_5d of 35x35x288"),
        ("inception-v3+0compute", r"'\+0compute' must be a count"),
        ("inception-v3+2fast", "one of compute, network"),
        ("inceptoin-v3+2compute", "did you mean 'inception-v3'"),
    ],
)
def test_impossible_additions_are_refused(name: str, message: str) -> None:
    with pytest.raises(InputFault, match=message):
        model(name)


def test_shapes_follow_from_strides_and_padding() -> None:
    net = Network(3, 299, 299)
    assert net.conv(net.sample, 8, 3, 2, "valid").shape == (8, 149, 149)
    assert net.conv(net.sample, 8, 3, 2, "same").shape == (8, 150, 150)
    assert net.conv(net.sample, 8, 7, 2, 3).shape == (8, 150, 150)
    x = net.conv(net.sample, 6, (1, 7), groups=3, bias=True)
    assert x.shape == (6, 299, 299)
    assert net.layers[-1].parameters == 7 * 1 * 6 + 6
    assert net.layers[-1].flops == 2 * 7 * 6 * 299 * 299


def test_shapes_that_do_not_fit_are_bugs_of_the_model() -> None:
    net = Network(3, 4, 4)
    with pytest.raises(InternalFault, match="does not fit"):
        net.pool(net.sample, 5)
    with pytest.raises(InternalFault, match="unequal shapes"):
        net.add(net.sample, Node((3, 2, 2), ()))
    with pytest.raises(InternalFault, match="unequal sizes"):
        concat(net.sample, Node((3, 2, 2), ()))
