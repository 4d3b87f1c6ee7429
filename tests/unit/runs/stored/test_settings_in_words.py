"""A point's settings in words: what the scenario says, defaults, and what model, strategy and cluster decide where it is silent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gradwire.analysis.report.pages import BY_DEFAULT, BY_SCENARIO, Setting
from gradwire.runs.stored.settings_in_words import as_recorded, settings_of
from gradwire.scenario.loading import Point
from gradwire.scenario.schema import PointSection, StrategySection
from tests.unit.runs.test_campaign import good_job, machine, planned_runs, run


def point(tmp_path: Path, *settings: str) -> Point:
    return planned_runs(tmp_path, *settings)[0].point


def test_every_key_of_a_scenario_is_there(tmp_path: Path) -> None:
    found = settings_of(point(tmp_path))
    for name, section in PointSection.model_fields.items():
        # The options are there instead, what is defined in a few words each, and of programs, faults, jobs and a part those that there are.
        if name in ("strategy", "defined", "program", "fault", "job", "part"):
            continue
        assert section.annotation is not None
        for key in section.annotation.model_fields:
            assert any(known == f"{name}.{key}" or known.startswith(f"{name}.{key}.") for known in found), key


def test_values_have_units_and_say_who_decides(tmp_path: Path) -> None:
    found = settings_of(
        point(
            tmp_path,
            "transport.send_ends=buffered",
            "transport.unsent=256KB",
            'costs.aggregation_rate={value="2GB/s",source="measured"}',
            "fabric.loss=0.01",
        )
    )
    assert found["fabric.rate"] == Setting("10 Gbit/s", BY_SCENARIO)
    assert found["transport.unsent"] == Setting("256 kB", BY_SCENARIO)
    assert found["transport.buffer"] == Setting("4 MiB", BY_DEFAULT)
    assert found["costs.aggregation_rate"] == Setting("2 GB/s", BY_SCENARIO)
    assert found["costs.copy_rate"] == Setting("free", BY_DEFAULT)
    assert found["fabric.loss"] == Setting("0.01", BY_SCENARIO)
    assert found["run.seed"] == Setting("1", BY_DEFAULT)


def test_the_buffer_is_told_that_long_links_lead_to(tmp_path: Path) -> None:
    far = [f'fault.far{host}={{kind="delay",link="h{host}",delay="2ms"}}' for host in (1, 2)]
    found = settings_of(point(tmp_path, *far, "fabric.rate=25gbit"))
    assert found["transport.buffer"] == Setting("72 MiB", BY_DEFAULT)


def test_what_the_scenario_leaves_open_is_told_as_it_was_decided(tmp_path: Path) -> None:
    parameter_server = settings_of(point(tmp_path))
    assert parameter_server["cluster.servers"] == Setting("2", BY_DEFAULT)
    allreduce = settings_of(point(tmp_path, "strategy.name=lazy-allreduce", "strategy.options.wire=fp16"))
    assert allreduce["cluster.servers"] == Setting("none: an allreduce", BY_DEFAULT)
    assert allreduce["strategy.options.wire"] == Setting("fp16", BY_SCENARIO)
    assert allreduce["strategy.options.threshold_bytes"] == Setting("4 MiB", BY_DEFAULT)
    assert allreduce["fabric.classes"] == Setting("1", BY_DEFAULT)


def test_a_strategy_that_is_gone_takes_only_its_options_with_it(tmp_path: Path) -> None:
    known = point(tmp_path)
    gone = replace(
        known, section=known.section.model_copy(update={"strategy": StrategySection(name="of another package")})
    )
    found = settings_of(gone)
    assert found["strategy.name"].value == "of another package"
    assert found["cluster.servers"].value == "unset"


def test_what_sockets_did_is_told_as_the_run_recorded_it_and_not_as_strategies_say_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, good_job)
    (planned, *_) = planned_runs(tmp_path)
    run(tmp_path, [planned])
    today = settings_of(planned.point)
    assert as_recorded(today, planned.stored)["transport.send_ends"] == today["transport.send_ends"]
    task = json.loads((planned.folder / "task.json").read_text())
    task["sockets"]["unsent_bytes"] = 123_000
    (planned.folder / "task.json").write_text(json.dumps(task))
    (planned.folder / "seals.json").unlink()
    recorded = as_recorded(today, planned.stored)
    assert recorded["transport.send_ends"] == Setting("buffered", BY_DEFAULT)
    assert recorded["transport.unsent"] == Setting("123 kB", BY_DEFAULT)
    (planned.folder / "task.json").unlink()
    assert not {"transport.send_ends", "transport.unsent", "transport.buffer"} & set(as_recorded(today, planned.stored))
    chosen = settings_of(planned_runs(tmp_path, "transport.unsent=1MB", "transport.send_ends=buffered")[0].point)
    assert as_recorded(chosen, planned.stored)["transport.unsent"] == Setting("1 MB", BY_SCENARIO)
