"""Scenario files: sweeps, settings, and a message that says what would be right for everything that is wrong."""

from __future__ import annotations

import pickle
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tomli_w

from gradwire.faults import InputFault
from gradwire.scenario.loading import Scenario, load_scenario, parameter_names, resolve, without_settings
from gradwire.scenario.overrides import apply_setting
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads import units
from gradwire.workloads.checker import check

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
MINIMAL = """
title = "A test"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "vanilla"
"""

NESTED = 'rate="10gbit", topology="leaf-spine", leaves=2, spines=2'


def scenario(text: str = MINIMAL, *settings: str) -> Scenario:
    document = tomllib.loads(text)
    for setting in settings:
        apply_setting(document, setting)
    return resolve(document, "test.toml", "test")


def refusal(*settings: str, text: str = MINIMAL) -> str:
    """What is said against a scenario when its points are compiled, as `gradwire plan` would."""
    with pytest.raises(InputFault) as raised:
        compile_all(text, settings)
    return str(raised.value)


def compile_all(text: str, settings: Sequence[str]) -> None:
    for point in scenario(text, *settings).points:
        compile_point(point.section)


def test_without_a_sweep_there_is_one_point() -> None:
    (point,) = scenario().points
    assert point.parameters == {
        "model": "alexnet",
        "strategy": "vanilla",
        "workers": "2",
        "rate": "10gbit",
        "seed": "1",
    }


def test_sweeps_multiply_and_the_last_changes_fastest() -> None:
    text = MINIMAL + '[sweep]\n"cluster.workers" = [2, 4]\n"fabric.rate" = ["10gbit", "25gbit", "2.5gbit"]\n'
    points = scenario(text).points
    assert [(p.section.cluster.workers, p.section.fabric.rate) for p in points] == [
        (workers, rate) for workers in (2, 4) for rate in (10e9, 25e9, 2.5e9)
    ]
    assert [p.parameters["rate"] for p in points[:3]] == ["10gbit", "25gbit", "2.5gbit"]


def test_nested_and_quoted_sweeps_are_the_same() -> None:
    nested = scenario(MINIMAL + "[sweep.cluster]\nworkers = [2, 4]\n")
    quoted = scenario(MINIMAL + '[sweep]\n"cluster.workers" = [2, 4]\n')
    assert nested.points == quoted.points
    assert len(nested.points) == 2


def test_settings_replace_values_and_sweeps() -> None:
    text = MINIMAL + '[sweep]\n"cluster.workers" = [2, 4, 8]\n'
    assert [p.section.cluster.workers for p in scenario(text, "cluster.workers=3").points] == [3]
    assert [p.section.cluster.workers for p in scenario(text, "cluster.workers=[5, 6]").points] == [5, 6]
    assert len(scenario(text, "run.seed=[1,2,3]").points) == 9
    (point,) = scenario(MINIMAL, "fabric.rate=25gbit", "model.batch = 32", "fabric.fair_queues=false").points
    assert (point.section.fabric.rate, point.section.model.batch) == (25e9, 32)
    assert point.section.fabric.fair_queues is False


def test_an_option_that_is_a_list_is_set_by_a_list_of_one() -> None:
    settings = ("strategy.name=geryon", "strategy.options.rule=threshold", "strategy.options.thresholds=[[0.3, 0.6]]")
    (point,) = scenario(MINIMAL, *settings).points
    assert compile_point(point.section).fabric.classes == 3


def test_a_swept_option_is_a_parameter() -> None:
    points = scenario(MINIMAL, "strategy.name=partition-slicing", "strategy.options.slice_parameters=[0,1000]").points
    assert [point.parameters["slice_parameters"] for point in points] == ["0", "1000"]


@pytest.mark.parametrize(
    ("key", "name"),
    [("model.name", "model"), ("fabric.rate", "rate"), ("strategy.options.rule", "rule"), ("name", "name")],
)
def test_parameter_names(key: str, name: str) -> None:
    assert parameter_names([key]) == {key: name}


def test_parameters_with_the_same_last_part_keep_their_whole_key() -> None:
    keys = ["model.batch", "strategy.batch"]
    assert parameter_names(keys) == dict(zip(keys, keys, strict=True))


@pytest.mark.parametrize(
    ("rate_bps", "text"), [(10e9, "10gbit"), (2.5e9, "2.5gbit"), (1e8, "100mbit"), (1500, "1.5kbit"), (3, "3bit")]
)
def test_rates_as_text_and_back(rate_bps: float, text: str) -> None:
    assert units.rate_text(rate_bps) == text
    assert units.rate_bps(text) == rate_bps


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["cluster.workers=0"], ["cluster.workers = 0: must be a whole number of 1 to 65536"]),
        (["cluster.workers=many"], ["cluster.workers = 'many': must be a whole number"]),
        (["cluster.servers=0"], ["cluster.servers = 0"]),
        (["compute.device=v100"], ["compute: unknown key; did you mean 'model.device'? Known here: cluster"]),
        (["model.nmae=vgg19"], ["model.nmae: unknown key", "did you mean 'name'", "Known here: name, device"]),
        (["fabirc.rate=1gbit"], ["fabirc: unknown key", "did you mean 'fabric'"]),
        (["fabric.rate=10GB"], ["fabric.rate = '10GB'", "10gbit", "this is a size"]),
        (["fabric.rate=0gbit"], ["fabric.rate"]),
        (["fabric.rate=[]"], ["sweep.fabric.rate: the list of values is empty"]),
        (["fabric.topology=star"], ["fabric.topology", "leaf-spine"]),
        (["fabric.topology=leaf-spine"], ["leaves and spines of at least 1"]),
        (["transport.buffer=4bananas"], ["transport.buffer", "64KiB"]),
        (["run.iterations=0"], ["run.iterations = 0"]),
        (["run.capture=h1,h3"], ["run.capture", "'h3'", "h1 to h2"]),
        (["run.capture_snaplen=64"], ["run.capture_snaplen = 64", "128"]),
        (["model.name=vgg91"], ["'vgg91'", "did you mean 'vgg19'"]),
        (["model.name.first=x"], ["model.name.first: 'name' is a value, not a table"]),
        (["model.device=k04"], ["model.device: device 'k04'", "did you mean 'k40'"]),
        (["model.device=p4000"], ["no time for model 'alexnet'", "k40"]),
        (["strategy.name=vanila"], ["'vanila'", "did you mean 'vanilla'"]),
        (["strategy.name=zzz"], ["'zzz' is unknown. Known: "]),
        (["strategy.options.slices=3"], ["strategy.options.slices: 'vanilla' has no such option; it has none"]),
        (["costs.copy_rate=2GB/s"], ["costs.copy_rate: write where", 'value = "2GB/s", source = "measured"']),
        (
            ["strategy.name=geryon", "strategy.options.rule=fine"],
            ["strategy.options.rule = 'fine': must be", '"coarse"', "an option of 'geryon'"],
        ),
        (["strategy.name=geryon", "fabric.classes=1"], ["fabric.classes = 1", "needs at least 2"]),
        (["cluster.workers=10000"], ["at most 1,024 workers", "cluster.stands_for"]),
        (["costs.aggregation_rate.value=2GB/s"], ["costs.aggregation_rate.source: missing"]),
        (["cluster.workers"], ["write key=value"]),
        (["=3"], ["write key=value"]),
        (["sweep.model=x"], ["a list for its key"]),
        (["rate=25gbit"], ["rate: unknown key; did you mean 'fabric.rate'? Known here: cluster"]),
        (["wokers=4"], ["did you mean 'cluster.workers'?"]),
        (["name=ring"], ["did you mean 'model.name' or 'strategy.name'?"]),
        (["value=3"], ["value: unknown key; Known here"]),
        (["fabric.latency=2ms"], ["fabric.latency: unknown key; did you mean 'delay'? Known here: rate"]),
        (["cluster.nodes=4"], ["did you mean 'workers'?"]),
        (["job.a.cluster.nodes=4"], ["job.a.cluster.nodes: unknown key; did you mean 'workers'?"]),
        (["nodes=4"], ["did you mean 'cluster.workers'?"]),
        (["bandwidth=10gbit"], ["did you mean 'fabric.rate'?"]),
        (["fabric.jitter=1ms"], ["did you mean 'fabric.link.NAME.jitter'?"]),
        (["fabric.topo=single"], ["did you mean 'topology'?"]),
        (["fabric.rout=ecmp"], ["did you mean 'routers' or 'routing' or 'routes'?"]),
        (["fabric.racks=2"], ["did you mean 'leaves'?"]),
        (["fabric.colour=2"], ["fabric.colour: unknown key; Known here: rate"]),
        (["run.duration=2s"], ["run.duration: unknown key; Known here: warmup"]),
        (["fabric.mtu=9000"], ["fabric.mtu: unknown key; did you mean 'mtu_bytes'?"]),
        (["run.warmup_iterations=3"], ["did you mean 'warmup'?"]),
        (["titel=x"], ["did you mean 'title'?"]),
        (["fabric.oversubscription=4"], ["fabric.oversubscription = 4: needs fabric.topology = 'leaf-spine'"]),
        (["fabric.pods=2"], ["fabric.pods = 2: needs fabric.topology = 'fat-tree'"]),
        (["fabric.rails=true"], ["fabric.rails = true: needs fabric.topology = 'leaf-spine' or 'fat-tree'"]),
        ([f"fabric={{{NESTED}, cores=2}}"], ["fabric.cores = 2: needs fabric.topology = 'fat-tree'"]),
        ([f"fabric={{{NESTED}, rails=true}}"], ["fabric.rails = true: needs hosts with several NICs: cluster.nics"]),
        (["cluster.nics_per_host=2"], ["cluster.nics_per_host = 2: must divide cluster.workers_per_host = 1"]),
        (
            ["transport.unsent=64KiB", "transport.send_ends=departure"],
            ["transport.unsent = 65536B: needs send_ends = 'buffered'"],
        ),
        (
            ["transport.unsent=64KiB", "strategy.name=ring"],
            ["transport.unsent = 65536B: needs transport.send_ends = 'buffered'"],
        ),
        (["fabric.leaves=2"], ["test.toml: fabric.leaves = 2: needs fabric.topology = 'leaf-spine'"]),
        (["fabric.spines=2", "fabric.topology=single"], ["fabric.spines = 2: needs fabric.topology = 'leaf-spine'"]),
        ([f"fabric={{{NESTED}, oversubscription=inf}}"], ["fabric.oversubscription = inf", "finite"]),
        (["fabric.loss=nan"], ["fabric.loss = nan", "finite"]),
        (["model.speedup={conv=nan}"], ["test.toml: model.speedup.conv = nan", "finite"]),
        (["model.speedup={conv=0.0}"], ["test.toml: model.speedup.conv = 0.0: must be a number of 1e-06 to 1e+06"]),
        (["model.speedup={conv=1e-6}", "model.batch=1000000000"], ["too large or too small", "model.speedup"]),
        (["model.iteration_time=1e999s"], ["model.iteration_time = '1e999s'", "must be finite"]),
        (["model.iteration_time=1e9s"], ["model.iteration_time = '1e9s'", "at most 10000000s"]),
        (["transport.unsent=1e999GB"], ["transport.unsent = '1e999GB'", "must be finite"]),
        (["transport.unsent=2GiB"], ["transport.unsent = '2GiB'", "16KiB to 2147483647B"]),
        (["fabric.gso=1e999B"], ["fabric.gso = '1e999B'", "must be finite"]),
        (["fabric.rate=1e400gbit"], ["fabric.rate = '1e400gbit'", "must be finite"]),
        (["model.rate=1gbit"], ["did you mean 'fabric.rate'? Known here: name, device"]),
        (
            ["model.speedup={cnv=2}"],
            ["model.speedup.cnv: unknown key; did you mean 'conv'? Known here: conv, fc, norm"],
        ),
        (["model.speedup=2"], ["model.speedup = 2: must be a table of keys"]),
        (["strategy=p3"], ["strategy = 'p3': is a table of keys, not a value: write strategy.name=p3"]),
        (["fabric=25gbit"], ["fabric = '25gbit': is a table of keys, not a value. Known here: rate, topology"]),
        (
            ["model.iteration_time=1s", "model.forward_time=1s"],
            ["test.toml: model.forward_time: an iteration_time is of"],
        ),
        (
            ["strategy.name=geryon", "strategy.options.thresholds=[0.5]"],
            ["thresholds = 0.5: must be a list, like [0.5]", "one list is set by [[0.5]]"],
        ),
        (["model.name=vgg19+2x"], ["model.name: model 'vgg19+2x'"]),
        (
            ["model.name=inception-v3-netops+25compute", "model.device=p4000", "model.modules_device=k04"],
            ["model.modules_device: device 'k04' is not known"],
        ),
        (['model.layers=[{name="a"}]'], ["must be a list, like [{", "one list is set by [[{"]),
    ],
)
def test_what_is_wrong_is_refused_with_what_would_be_right(settings: list[str], said: list[str]) -> None:
    message = refusal(*settings)
    for words in said:
        assert words in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (MINIMAL.replace('title = "A test"', ""), "title: missing"),
        ('title = "x"\n', "model: missing"),
        (
            MINIMAL + '[[printed]]\nwhere = {}\nmetrik = "x"\nvalue = 1\nsource = "x"\n',
            "printed.0.metrik: unknown key; did you mean 'metric'?",
        ),
        ("sweep = 3\n" + MINIMAL, "sweep: must be a table"),
        (MINIMAL + '[sweep]\n"cluster.workers" = 3\n', "sweep.cluster.workers = 3"),
        (MINIMAL + '[sweep]\n"strategy.nmae" = ["x"]\n', "sweep.strategy.nmae: unknown key"),
        (MINIMAL + '[[cases]]\n"run.seed" = []\n', "sweep.run.seed: "),
        (MINIMAL + '[[cases]]\n"run.seed" = 1\n', "cases.0.run.seed = 1"),
    ],
)
def test_defects_of_the_file_itself(text: str, said: str) -> None:
    assert f"test.toml: {said}" in refusal(text=text)


def test_every_defect_is_named_at_once() -> None:
    message = refusal("cluster.workers=0", "fabric.rate=fast", "model.nmae=x")
    assert [line.split(":")[0] for line in message.splitlines()] == ["test.toml"] * 3


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    broken, binary = tmp_path / "broken.toml", tmp_path / "binary.toml"
    broken.write_text("title = \n")
    binary.write_bytes(b"\xff\xfe")
    for path, said in (
        (tmp_path / "none.toml", "no such scenario file"),
        (broken, "not valid TOML"),
        (binary, "UTF-16"),
        (tmp_path, "cannot be read"),
    ):
        with pytest.raises(InputFault, match=said) as raised:
            load_scenario(path)
        assert str(path) in str(raised.value)


def test_what_has_no_effect_may_be_written_as_it_is_anyway() -> None:
    (point,) = scenario(MINIMAL, "fabric.leaves=1", "fabric.spines=0", "fabric.oversubscription=1").points
    assert point.section == scenario().points[0].section


def test_own_iteration_time_and_its_source() -> None:
    (point,) = scenario(MINIMAL, "model.iteration_time=100ms", "model.iteration_time_source=measured").points
    job = compile_point(point.section).job
    assert job.compute_s == pytest.approx(0.1)
    assert job.compute.source == "measured"


def test_own_forward_time_and_its_source() -> None:
    settings = ["model.forward_time=100ms", "model.forward_time_source=profiled"]
    job = compile_point(scenario(MINIMAL, *settings).points[0].section).job
    assert sum(job.compute.forward_s) == pytest.approx(0.1)
    assert "0.1 s: profiled; " in job.compute.source
    assert "model.forward_time: an iteration_time" in refusal(*settings, "model.iteration_time=1s")
    assert "adds modules" in refusal("model.modules_device=k40")


def shipped() -> list[Path]:
    found = sorted(SCENARIOS.glob("*.toml"))
    assert found
    return found


@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.stem)
def test_shipped_scenarios_resolve_and_come_back_from_what_a_run_writes(path: Path) -> None:
    loaded = load_scenario(path, ["run.seed=[1,2]"])
    again = resolve(tomllib.loads(tomli_w.dumps(loaded.document)), "again.toml", path.stem)
    assert replace(again, settings=loaded.settings) == loaded
    assert len(loaded.points) % 2 == 0


CHECKED_OPS = 10_000
"""Every plan is checked before it runs; small ones of every strategy in tests/unit/workloads/strategies/test_every_strategy.py."""


@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.stem)
def test_shipped_scenarios_compile(path: Path) -> None:
    """One point of each strategy is compiled, the one with the fewest workers, and its plan checked if that takes no more than a moment."""
    seen: set[str] = set()
    for point in sorted(load_scenario(path).points, key=lambda point: point.section.cluster.workers):
        if point.section.strategy.name not in seen:
            seen.add(point.section.strategy.name)
            compiled = compile_point(point.section)
            plan = next(iter(compiled.plans.values()))
            if len(plan.ops) <= CHECKED_OPS:
                check(plan, compiled.job.relative_times)


def test_cases_are_sweeps_of_their_own_on_top_of_the_common_one() -> None:
    text = (
        MINIMAL
        + """
[[cases]]
"strategy.name" = ["vanilla"]
"run.seed" = [1, 2]
[[cases]]
"strategy.name" = ["ring", "p3"]
transport.send_ends = ["buffered"]
transport.unsent = ["256KB"]
"""
    )
    found = scenario(text, 'fabric.rate=["10gbit","25gbit"]')
    points = [(p.section.fabric.rate, p.section.strategy.name, p.section.run.seed) for p in found.points]
    assert points == [
        (rate, name, seed)
        for names, seeds in ((["vanilla"], [1, 2]), (["ring", "p3"], [1]))
        for rate in (10e9, 25e9)
        for name in names
        for seed in seeds
    ]
    assert [p.section.transport.unsent for p in found.points] == [None] * 4 + [256_000] * 4
    again = resolve(tomllib.loads(tomli_w.dumps(found.document)), "test.toml", "test")
    assert again.points == found.points


def test_ports_to_capture_are_given_as_a_list_or_in_one_text() -> None:
    (listed,) = scenario(MINIMAL + '[run]\ncapture = ["h1", "s1-eth2"]\n').points
    (named,) = scenario(MINIMAL, "run.capture=h1, s1-eth2").points
    assert listed.section.run.capture == named.section.run.capture == ("h1", "s1-eth2")
    fabric = compile_point(named.section).fabric
    assert [port.interface for port in fabric.ports_named(named.section.run.capture)] == ["h1-eth0", "s1-eth2"]
    assert [port.interface for port in fabric.ports_named(["all", "h2"])] == ["h1-eth0", "h2-eth0"]
    assert [port.interface for port in fabric.ports_named(["s1"])] == ["s1-eth1", "s1-eth2"]
    assert fabric.ports_named([]) == []
    assert scenario(MINIMAL, "run.capture=").points[0].section.run.capture == ()


MINIMAL_OF_A_RUN = """
title = "t"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "alexnet"
device = "k40"
[strategy]
name = "ring"
"""


def test_what_names_of_a_point_stand_for_is_looked_up_once_and_stays_where_it_is() -> None:
    (point,) = scenario().points
    assert point.resolved is point.resolved
    assert point.resolved.job is point.resolved.job
    elsewhere = pickle.loads(pickle.dumps(point))
    assert elsewhere == point
    assert "resolved" not in vars(elsewhere), "a strategy has functions that cannot be pickled"
    assert elsewhere.resolved.fabric == point.resolved.fabric


def test_a_scenario_knows_what_it_was_before_its_settings(tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text(MINIMAL)
    plain = load_scenario(tmp_path / "scenario.toml")
    changed = load_scenario(tmp_path / "scenario.toml", ["fabric.rate=25gbit"])
    assert without_settings(plain) is plain
    assert changed.points != plain.points
    (tmp_path / "scenario.toml").unlink()  # it is not read again
    assert without_settings(changed) == plain
