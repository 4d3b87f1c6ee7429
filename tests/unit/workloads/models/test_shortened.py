"""Transformers with fewer blocks: what stays costs and reads what it did."""

from __future__ import annotations

import pytest

from gradwire.documents import Document
from gradwire.faults import InputFault
from gradwire.scenario.loading import resolve
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.workloads.models import model
from gradwire.workloads.models.compute_times import compute_time
from gradwire.workloads.models.resized import block_count, kept_layers, shortened, shortened_time
from tests.shared.parts import in_order, tells

DOCUMENT: Document = {
    "title": "four blocks",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "bert-large", "device": "v100", "blocks": 4},
    "strategy": {"name": "ring"},
}


@pytest.mark.parametrize("name", ["llama3-8b", "bert-large", "gpt3-175b", "deepseek-v3"])
def test_all_blocks_are_the_model_itself(name: str) -> None:
    profile = model(name)
    assert shortened(profile, block_count(profile)).layers == profile.layers


def test_parameters_are_those_of_the_blocks_that_stay() -> None:
    profile = model("llama3-70b")
    assert block_count(profile) == 80
    few, more = shortened(profile, 4), shortened(profile, 5)
    block = more.parameters - few.parameters
    assert block == 855_654_400  # 8192^2 x 2 + 2 x 8192 x 1024 + 3 x 8192 x 28672 and two normalisations
    assert few.parameters == profile.parameters - 76 * block
    assert tells(few.name, "llama3-70b", "4 blocks")
    assert [layer.name for layer in few.layers if layer.name.endswith("attention/norm")] == [
        f"block{index}/attention/norm" for index in range(4)
    ]


def test_layers_read_the_layer_that_stands_where_theirs_stood() -> None:
    profile = model("llama3-8b")
    few = shortened(profile, 3)
    number_of = {layer.name: number for number, layer in enumerate(few.layers)}
    first_of_second = few.layers[number_of["block1/attention/norm"]]
    assert [few.layers[number].name for number in first_of_second.inputs] == ["block0/ffn/add"]
    assert [few.layers[number].name for number in few.layers[number_of["final_norm"]].inputs] == ["block2/ffn/add"]


def test_blocks_of_several_kinds_stay_in_proportion() -> None:
    profile = model("deepseek-v3")  # the first 3 of 61 blocks are dense
    kept = [profile.layers[number].name for number in kept_layers(profile, 20)]
    mixtures = {name.partition("/")[0] for name in kept if name.endswith("/router")}
    assert len({name.partition("/")[0] for name in kept if name.startswith("block")} - mixtures) == 1


def test_a_block_keeps_its_time() -> None:
    profile = model("bert-large")
    whole = compute_time(profile, "v100")
    few = shortened_time(whole, profile, 6)
    kept = kept_layers(profile, 6)
    assert few.iteration_s == pytest.approx(sum(whole.forward_s[i] + whole.backward_s[i] for i in kept))
    assert len(few.forward_s) == len(shortened(profile, 6).layers)
    # An iteration time that is given is that of all blocks.
    given: Document = {
        **DOCUMENT,
        "model": {"name": "bert-large", "device": "mine", "iteration_time": "240ms", "blocks": 12},
    }
    (point,) = resolve(given, "test", "test").points
    job = ResolvedPoint(point.section).job
    assert job.compute_s == pytest.approx(ResolvedPoint(point.section).compute.iteration_s)
    assert 0.12 < job.compute_s < 0.135  # half of the blocks, and what is in no block


def test_what_has_not_as_many_blocks_is_refused() -> None:
    with pytest.raises(InputFault, match=in_order("model.blocks = 81:", "'llama3-70b'", "80 blocks")):
        shortened(model("llama3-70b"), 81)
    with pytest.raises(InputFault, match=in_order("model.blocks = 2:", "'alexnet'", "no blocks")):
        shortened(model("alexnet"), 2)
