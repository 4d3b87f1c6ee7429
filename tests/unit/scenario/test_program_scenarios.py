"""Scenarios of programs: what sweeps make of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.datatypes.records import PlannedFault
from gradwire.documents import table_at
from gradwire.faults import InputFault
from gradwire.scenario.loading import load_scenario, scenario_of
from gradwire.scenario.program_scenarios import programs_of
from tests.shared.parts import in_order, tells
from tests.shared.program_scenario_files import load_programs

TEXT = """
title = "Flows"
metric = "goodput_bps"
[cluster]
workers = 4
[fabric]
rate = "10gbit"
[program.server]
command = "iperf3 -s"
hosts = "h1"
background = true
[program.client]
command = "iperf3 --json -c h1 -n $size"
hosts = ["h3", "h2"]
start = "100ms"
figures = "iperf3"
arguments = { size = "10M", parallel = 2 }
[sweep]
"fabric.rate" = ["10gbit", "100gbit"]
"program.client.arguments.size" = ["10M", "1G"]
"""


def scenario_file(folder: Path, text: str = TEXT) -> Path:
    path = folder / "flows.toml"
    path.write_text(text)
    return path


def test_points_are_the_product_of_what_is_swept(tmp_path: Path) -> None:
    scenario = load_programs(scenario_file(tmp_path))
    assert (scenario.name, scenario.title, scenario.metric, scenario.over) == ("flows", "Flows", "goodput_bps", "")
    assert [point.parameters for point in scenario.points] == [
        {"rate": rate, "size": size, "workers": "4", "seed": "1"}
        for rate in ("10gbit", "100gbit")
        for size in ("10M", "1G")
    ]
    point = scenario.points[2]
    client, server = point.section.program["client"], point.section.program["server"]
    assert (point.hosts_of(client), point.hosts_of(server), client.start) == ([2, 1], [0], 0.1)
    assert client.arguments == {"size": "10M", "parallel": 2}
    assert (point.fabric.hosts, point.fabric.rate_bps, point.fabric.classes) == (4, 100e9, 1)


def test_settings_replace_values_and_sweeps(tmp_path: Path) -> None:
    settings = ["fabric.rate=25gbit", "program.client.arguments.size=[1,2,3]", "program.client.hosts=all"]
    scenario = load_programs(scenario_file(tmp_path), settings)
    assert [point.parameters["size"] for point in scenario.points] == ["1", "2", "3"]
    assert {point.parameters["rate"] for point in scenario.points} == {"25gbit"}
    assert scenario.points[0].hosts_of(scenario.points[0].section.program["client"]) == [0, 1, 2, 3]
    assert tells(scenario.title, "Flows", "fabric.rate = 25gbit", "size = 1 or 2 or 3", "hosts = all")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("program.client.hosts=h2,h9", "program.client.hosts: no host is called 'h9'; hosts are h1 to h4"),
        ("program.client.hosts=h2,h2", "program.client.hosts: name each host once"),
        ("program.client.comand=x", "program.client.comand: unknown key; did you mean 'command'?"),
        ("program.client.start=3", "program.client.start = 3: must be a duration"),
        ("program.client.launch=slurm", 'must be "each", "torch" or "mpi"'),
        ("program.client.figures=csv", 'must be "lines", "iperf3" or "osu"'),
        (
            "program.client.arguments.2x=3",
            "program.client.arguments.2x: must be a name that a shell takes for a variable",
        ),
        ("program.client.arguments.GRADWIRE_HOST=h1", "and not begin with GRADWIRE_"),
        ("program.client.background=true", "all programs have background = true, so the run would never end"),
        ("run.iterations=3", "run.iterations: unknown key"),
        ("model.name=vgg16", "model: unknown key"),
        ("run.capture=h7", "h7"),
        ("fabric.leaves=2", "needs fabric.topology"),
        ("fabric.rails=true", "fabric.rails = true: "),
        (
            "fabric={rate='1gbit', topology='leaf-spine', leaves=1, spines=1, rails=true}",
            "several NICs of a host are several network namespaces here",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_would_be_right(tmp_path: Path, setting: str, said: str) -> None:
    with pytest.raises(InputFault) as fault:
        load_programs(scenario_file(tmp_path), [setting])
    assert said in str(fault.value)


def test_a_programs_name_has_to_suit_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=r"program\.\.\./client: a name"):
        load_programs(
            scenario_file(tmp_path, TEXT.replace("[program.client]", '[program."../client"]').split("[sweep]")[0])
        )


def test_what_reads_plans_says_that_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=in_order("programs", "no plan")):
        load_scenario(scenario_file(tmp_path))
    with pytest.raises(InputFault, match=in_order("programs", "no plan")):
        scenario_of({"title": "x", "program": {}})


GRAPH = """{"nodes": [{"id": "s1"}, {"id": "s2"}, {"id": "h1"}, {"id": "h2"}, {"id": "h3"}],
"links": [{"source": "s1", "target": "s2", "delay": "1ms"}, {"source": "h1", "target": "s1"}, {"source": "h2", "target": "s2"},
{"source": "h3", "target": "s2"}]}"""
ON_A_GRAPH = TEXT.replace("workers = 4", "workers = 2").replace('rate = "10gbit"', 'rate = "10gbit"\nfile = "lab.json"')


def test_programs_run_on_a_network_from_a_file_and_on_all_its_hosts(tmp_path: Path) -> None:
    (tmp_path / "lab.json").write_text(GRAPH)
    scenario = load_programs(scenario_file(tmp_path, ON_A_GRAPH), ["fabric.rate=25gbit"])
    (tmp_path / "lab.json").unlink()
    fabric = scenario.points[0].fabric
    assert (fabric.host_names(), fabric.rate_bps) == (["h1", "h2", "h3"], 25e9)
    assert fabric.graph is not None
    assert fabric.graph.trunks[0].delay_s == 0.001
    assert table_at(scenario.document, "fabric")["file"] == "lab"


def test_a_network_that_is_not_there_is_one_message(tmp_path: Path) -> None:
    with pytest.raises(InputFault) as refused:
        load_programs(scenario_file(tmp_path, ON_A_GRAPH))
    path = tmp_path / "flows.toml"
    assert str(refused.value).startswith(f"{path}: fabric.file: {tmp_path / 'lab.json'}: ")
    assert "\n" not in str(refused.value)


CONTENT = {
    "title": "Faults",
    "cluster": {"workers": 2},
    "fabric": {"rate": "1gbit"},
    "program": {"only": {"command": "true"}},
}
CUT = {"kind": "link-down", "link": "h2", "at": "1s", "duration": "1s"}


def test_faults_are_the_network_s_and_can_be_set() -> None:
    (point,) = programs_of({**CONTENT, "fault": [CUT]}, ["fault.1.at=2s"]).points
    assert point.faults == (PlannedFault("1", "link-down", 2_000_000_000, -1, 1_000_000_000, "h2-eth0", link="h2"),)
    assert point.fabric.faulty
    assert not programs_of(CONTENT).points[0].fabric.faulty


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"kind": "tenant", "source": "h1", "destination": "h2", "rate": "0.1gbit"}, "x.kind = 'tenant': a tenant is a program"),
        ({"kind": "dead-worker", "worker": 0}, "x.kind = 'dead-worker': programs have no workers; kinds are link-down"),
        ({**CUT, "iteration": 1}, "x.iteration: programs have no iterations"),
        ({**CUT, "link": "h9"}, "x.link = 'h9': no link is called that"),
        ({**CUT, "rate": "1gbit"}, "x.rate: has no effect"),
        ({**CUT, "job": "a"}, "x.job: has no effect"),
    ],
)  # fmt: skip
def test_faults_that_programs_cannot_have_are_refused(fault: dict[str, str], said: str) -> None:
    with pytest.raises(InputFault, match=said):
        programs_of({**CONTENT, "fault": {"x": fault}})


def test_a_controller_is_refused_by_its_key(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("x = 1\n")
    text = TEXT.replace('rate = "10gbit"', 'rate = "10gbit"\ncontroller = "app.py"')
    with pytest.raises(InputFault, match=in_order("fabric.controller:", "strategies")):
        load_programs(scenario_file(tmp_path, text))
