"""How a large model's workers are divided, and who takes part then."""

from __future__ import annotations

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.explanations import validated_options
from gradwire.scenario.parallelism import Parallel, divided, kept_blocks
from gradwire.workloads.strategies.megatron import MegatronOptions
from gradwire.workloads.strategy_registry import strategy
from tests.shared.parts import in_order


def test_groups_multiply() -> None:
    parallel = Parallel.parse("data=4, tensor=8,pipeline=2")
    assert (parallel.workers, parallel.usual_on_host) == (64, 8)
    assert (str(parallel), parallel.words) == ("data=4,tensor=8,pipeline=2", "data4-tensor8-pipeline2")


@pytest.mark.parametrize(("text", "on_host"), [("data=64", 8), ("data=12", 4), ("data=4,tensor=2", 2), ("data=3", 1)])
def test_a_machine_has_a_tensor_group_or_up_to_eight(text: str, on_host: int) -> None:
    assert Parallel.parse(text).usual_on_host == on_host


@pytest.mark.parametrize("text", ["", "data", "data=0", "data=x", "rows=2", "data=2,data=4", "tensor=-1", "data=2,,"])
def test_what_is_no_division_is_refused(text: str) -> None:
    with pytest.raises(InputFault, match=in_order("--parallel '", "data, tensor, pipeline, context, expert")):
        Parallel.parse(text)


def test_experts_are_divided_among_replicas() -> None:
    with pytest.raises(InputFault, match=in_order("expert = 3", "data = 8")):
        Parallel.parse("data=8,expert=3")


def test_data_alone_is_divided_by_several_strategies() -> None:
    names = {contender.strategy for contender in divided(Parallel.parse("data=8"))}
    assert {"ddp", "fsdp", "megatron"} <= names
    assert {contender.strategy for contender in divided(Parallel.parse("data=8"), ["fsdp"])} == {"fsdp"}


def test_what_else_is_divided_is_the_same_for_all() -> None:
    found = divided(Parallel.parse("data=2,tensor=4,pipeline=2"))
    assert {contender.strategy for contender in found} == {"megatron"}
    assert all(contender.options["tensor"] == 4 and contender.options["stages"] == 2 for contender in found)
    own = [{name: contender.options[name] for name in contender.told_by} for contender in found]
    assert own[0] == {}
    assert all(own[1:])
    assert len({str(each) for each in own}) == len(own)
    with pytest.raises(InputFault, match=in_order("--strategy fsdp:", "data=2,tensor=4,pipeline=2", "megatron")):
        divided(Parallel.parse("data=2,tensor=4,pipeline=2"), ["fsdp"])


def test_context_is_a_degree_like_the_others() -> None:
    parallel = Parallel.parse("data=2,context=4,tensor=2")
    assert (parallel.workers, str(parallel)) == (16, "data=2,tensor=2,context=4")
    for contender in divided(parallel):
        chosen = validated_options(strategy(contender.strategy), contender.options)
        assert isinstance(chosen, MegatronOptions)
        assert (chosen.context, chosen.tensor, chosen.microbatches) == (4, 2, 8)
    assert {contender.strategy for contender in divided(Parallel.parse("context=2"))} == {"megatron"}


@pytest.mark.parametrize(
    ("text", "blocks", "kept"),
    [("data=8", 80, 8), ("data=8", 15, None), ("pipeline=4", 80, 16), ("pipeline=3", 96, 12)],
)
def test_a_few_blocks_of_each_stage_stand_for_many(text: str, blocks: int, kept: int | None) -> None:
    assert kept_blocks(Parallel.parse(text), blocks) == kept
