"""The printed values: every row has a cell, scenarios can be read, and the rule of fitted rows is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.runs.ccl_machines import set_up
from gradwire.scenario.loading import load_scenario
from reproduction.world.cells import SCENARIOS, Called, Planned, Row, Source, load_given, printed_value, with_further
from reproduction.world.sources import SOURCES
from reproduction.world.sources.collectives import busbw_GBps, size_of
from reproduction.world.sources.training import on_one_gpu, single_gpu, time_by_kind_s, time_by_single_gpu_s
from tests.shared.parts import in_order

GIVEN = load_given()
HOST = ("host's rate", "time for a message", "time of a call", "pause between calls")
KINDS = {"compute time": "compute", **dict.fromkeys(HOST, "host")}
ONE_REASON_FOR_ALL = ("ultrascale", "pipedream")
each_source = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)


def test_every_given_row_is_of_a_source() -> None:
    assert len(GIVEN) == 102
    assert {row.source for row in GIVEN} == {source.name for source in SOURCES}


@each_source
def test_at_most_one_row_fixes_the_compute_time_and_one_the_hosts_rate(source: Source) -> None:
    fitted = [source.cell(row).fitted for row in with_further(source, GIVEN)]
    kinds = Counter(KINDS[name] for name in fitted if name)
    assert max(kinds.values(), default=0) <= 1
    own = {row.name for row in GIVEN if row.source == source.name}
    assert all(row.name in own for row in with_further(source, GIVEN) if source.cell(row).fitted)


@each_source
def test_every_scenario_can_be_read(source: Source) -> None:
    for row in with_further(source, GIVEN):
        cell = source.cell(row)
        for each in (cell.planned, *(what_if.planned for what_if in cell.what_ifs)):
            if isinstance(each, Planned):
                assert len(load_scenario(each.path, each.settings).points) == 1, each.command()
            if isinstance(each, Called):
                set_up(each.given)


@pytest.mark.parametrize(
    "source", [source for source in SOURCES if source.name not in ONE_REASON_FOR_ALL], ids=lambda source: source.name
)
def test_an_unknown_row_is_named(source: Source) -> None:
    with pytest.raises(InputFault, match=in_order(f"{source.name}: no rule", "frob")):
        source.cell(Row(source.name, "frob", "frob", "time", "ms"))


def test_every_scenario_file_is_of_some_row() -> None:
    used = {
        each.scenario
        for source in SOURCES
        for cell in map(source.cell, with_further(source, GIVEN))
        for each in (cell.planned, *(what_if.planned for what_if in cell.what_ifs))
        if isinstance(each, Planned)
    }
    assert used == {path.stem for path in SCENARIOS.glob("*.toml")} - {"gke-mlp"}


def test_values_that_are_fitted_on_are_given() -> None:
    assert printed_value("dlperf", "ResNet-50 v1.5 FP32 b128, NGC PyTorch", "1 GPUs") == 367.29
    with pytest.raises(InputFault, match="dlperf, x, y"):
        printed_value("dlperf", "x", "y")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "columns must be source, what"),
        ("source,what,setting,quantity,unit,printed\na,b,c,d,e,fast\n", "line 2: printed = 'fast'"),
        ("source,what,setting,quantity,unit,printed\na,b,c,d,e,1\na,b,c,d,e,2\n", "is there twice"),
    ],
)
def test_a_wrong_table_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "given.csv"
    path.write_text(text)
    with pytest.raises(InputFault, match=said):
        load_given(path)


def test_units() -> None:
    assert busbw_GBps(4, 1e9)(1.0) == pytest.approx(1.5)
    assert (size_of("4 MB"), size_of("64 MiB"), size_of("8 B")) == (4_000_000, 64 << 20, 8)


def test_a_step_takes_what_it_takes_on_one_gpu() -> None:
    known = single_gpu("resnet50-torchvision", "FP32", "MXNet")
    assert time_by_single_gpu_s("resnet50-torchvision", 770, known) == pytest.approx(770 / 385)
    # Others than PyTorch and MXNet have PyTorch's rows.
    assert single_gpu("bert-large", "AMP", "OneFlow") == single_gpu("bert-large", "AMP", "PyTorch")
    names = [(row.model, row.precision, row.framework) for row in on_one_gpu()]
    assert len(set(names)) == len(names)


def test_models_whose_convolutions_have_groups_take_longer_by_the_row_of_one_gpu() -> None:
    # By the table of an H100 alone, a ResNeXt-50 takes 1.12 times as long as a ResNet-50; by operations 1.03.
    known = "resnet50-torchvision"
    assert time_by_kind_s(known, known, 32, 1.0) == pytest.approx(1.0)
    assert time_by_kind_s("resnext50", known, 32, 1.0) == pytest.approx(1.47, abs=0.01)


def test_a_command_runs_the_row_alone() -> None:
    source = next(source for source in SOURCES if source.name == "tc_cluster")

    def command(setting: str) -> str:
        planned = source.cell(Row("tc_cluster", "nccl all-reduce, 128 MiB, 8 hosts", setting, "time", "ms")).planned
        assert isinstance(planned, Planned)
        return planned.command()

    call = (
        "gradwire run reproduction/world/scenarios/tc-cluster-nccl.toml --set cluster.workers=8 "
        "--set strategy.options.collective=all-reduce --set strategy.options.size=128MiB"
    )
    assert command("default") == call
    assert command("delay 1 ms, rate 5 Gbit/s") == (
        f"{call} --set fabric.topology=leaf-spine --set fabric.leaves=8 --set fabric.spines=1 "
        "--set fabric.oversubscription=1.99469 --set fabric.delay=275us"
    )


def test_a_command_of_ccl_says_all_that_differs() -> None:
    row = next(row for row in GIVEN if row.setting == "TCP, 24 GPUs, tree, 4 MB")
    planned = next(source for source in SOURCES if source.name == "gke_a3").cell(row).planned
    assert isinstance(planned, Called)
    assert planned.command() == (
        "gradwire ccl all-reduce --machines 3 --nic 200gbit --mtu 8896 --nics 1 --transport tcp --burst-cost 5.18us "
        "--latency 43us --env NCCL_ALGO=Tree --sizes '4 MB'"
    )
    assert planned.given.variables == ("NCCL_ALGO=Tree",)
