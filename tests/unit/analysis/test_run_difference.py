"""Two runs beside each other: points are matched by their parameters, causes are told, and gates fail on what they name."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.analysis.points import VALID, PointResult
from gradwire.analysis.run_difference import Gate, PointDifference, RunFacts, apart, claim_differences, differences
from gradwire.cli.stored_runs import diff
from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric

FABRIC = Fabric(4, 10e9)
ORIGIN = {"kernel": "kernel-6.12-a", "gradwire": "0.1.0 abc"}


def run(time_s: float = 1.0, strategy: str = "ring", verdict: str = VALID, **changes: Any) -> RunFacts:
    result = PointResult({"strategy": strategy}, time_s, None, None, 8 / time_s, 0.5, 100, 1.0, 0.9, "x", "p1", verdict)
    return replace(RunFacts(result, FABRIC, {"iterations": "4"}, ORIGIN, "key1"), **changes)


def with_plan(facts: RunFacts, digest: str) -> RunFacts:
    return replace(facts, result=replace(facts.result, plan_digest=digest))


def causes(first: RunFacts, second: RunFacts) -> list[str]:
    (point,) = differences([first], [second]).points
    return list(point.causes)


def test_points_are_matched_by_their_parameters() -> None:
    found = differences([run(1.0, "ring"), run(2.0, "p3")], [run(2.5, "p3"), run(3.0, "horovod")])
    (point,) = found.points
    assert point.parameters == {"strategy": "p3"}
    assert point.change() == pytest.approx(0.25)
    assert found.only_in_first == ({"strategy": "ring"},)
    assert found.only_in_second == ({"strategy": "horovod"},)


def test_points_are_matched_by_settings_and_not_by_the_names_of_what_was_swept() -> None:
    """One run sweeps the congestion control, and the other has one of its values for all rates."""

    def point(time_s: float, rate: str, congestion: str, *swept: str) -> RunFacts:
        facts = run(time_s, point_settings={"rate": rate, "congestion": congestion}, key=f"{time_s}")
        return replace(facts, result=replace(facts.result, parameters=dict.fromkeys(("rate", *swept), rate)))

    first = [point(1.0, "10", "cubic", "congestion"), point(2.0, "10", "dctcp", "congestion")]
    found = differences(first, [point(2.2, "10", "dctcp"), point(3.0, "25", "dctcp")])
    assert [(each.first.iteration_time_s, each.second.iteration_time_s) for each in found.points] == [(2.0, 2.2)]
    assert (len(found.only_in_first), len(found.only_in_second)) == (1, 1)
    (alone,) = differences([point(1.0, "10", "cubic")], [point(2.0, "25", "cubic")]).points
    assert "rate: 10 -> 25" in alone.causes
    assert not differences(first, [point(2.0, "10", "bbr")]).points
    assert apart(first, [point(2.0, "10", "bbr")]) == ["congestion: cubic and dctcp in the first, bbr in the second"]
    assert apart(first, [point(2.0, "10", "")]) == ["congestion: cubic and dctcp in the first, unset in the second"]


@pytest.mark.parametrize(
    ("second", "told"),
    [
        (run(), []),
        (run(1.1), ["nothing that is known to decide it: runs of the same key should take the same time"]),
        (with_plan(run(key="key2"), "p2"), ["plan: p1 -> p2"]),
        (run(key="key2", fabric=Fabric(4, 25e9)), ["fabric.rate_bps: 1e+10 -> 2.5e+10"]),
        (run(key="key2", settings={"iterations": "9"}), ["iterations: 4 -> 9"]),
        (run(key="key2", origin={**ORIGIN, "kernel": "kernel-7.2"}), ["kernel: kernel-6.12-a -> kernel-7.2"]),
        (run(key="key2"), ["gradwire's code"]),
        (
            run(key="key2", origin={**ORIGIN, "gradwire": "0.1.0 def"}),
            ["gradwire: 0.1.0 abc -> 0.1.0 def", "gradwire's code"],
        ),
        (run(key=""), []),
    ],
)
def test_what_decides_a_result_and_differs_is_its_cause(second: RunFacts, told: list[str]) -> None:
    assert causes(run(), second) == told


def test_what_was_not_recorded_is_said_to_be_unknown() -> None:
    (cause,) = causes(run(), run(key="key2", origin={"kernel": ORIGIN["kernel"]}))
    assert cause == "gradwire's code"
    (cause,) = causes(run(origin={}), run(key="key2", origin={}))
    assert "did not record" in cause


def test_invalid_points_have_no_change() -> None:
    (point,) = differences([run()], [run(2.0, verdict="invalid: drops")]).points
    assert math.isnan(point.change())


def difference(before: RunFacts, after: RunFacts) -> PointDifference:
    (point,) = differences([before], [after]).points
    return point


@pytest.mark.parametrize(
    ("gate", "second", "reason"),
    [
        ("iteration_time > 1%", run(1.02), "iteration_time changed by +2.00%"),
        ("iteration_time > 1%", run(1.005), ""),
        ("iteration_time > 1%", run(0.5), ""),
        ("iteration_time < -1%", run(0.5), "iteration_time changed by -50.00%"),
        (" throughput<-1.5 %", run(1.02), "throughput changed by -1.96%"),
        ("iteration_time > 1%", run(verdict="invalid: drops"), "became invalid: drops"),
    ],
)
def test_a_gate_fails_on_what_it_names_and_on_what_became_invalid(gate: str, second: RunFacts, reason: str) -> None:
    assert Gate.parse(gate).fails(difference(run(), second)) == reason


def test_what_was_invalid_before_fails_no_gate() -> None:
    assert Gate.parse("iteration_time > 1%").fails(difference(run(verdict="invalid"), run(verdict="invalid"))) == ""


@pytest.mark.parametrize("text", ["speed > 1%", "iteration_time > 1", "iteration_time >= 1%", "iteration_time", ""])
def test_a_gate_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputFault, match="iteration_time > 1%"):
        Gate.parse(text)


def test_claims_are_matched_and_what_changed_is_told() -> None:
    def claim(name: str, measured: str, verdict: str) -> dict[str, str]:
        return {"scenario": "s", "claim": name, "measured": measured, "verdict": verdict}

    first = [claim("a", "1", "holds"), claim("b", "2", "holds"), claim("c", "3", "holds")]
    second = [claim("a", "1", "holds"), claim("b", "5", "differs"), claim("d", "4", "holds")]
    changed = {each.claim: each for each in claim_differences(first, second)}
    assert changed.keys() == {"b", "c", "d"}
    assert (changed["b"].first, changed["b"].second, changed["b"].second_outcome) == ("2", "5", "differs")
    assert changed["c"].second_outcome == "absent"
    assert changed["d"].first_outcome == "absent"


def test_claims_without_what_tells_them_apart_are_refused(tmp_path: Path) -> None:
    for name, heading in (("one", "scenario,claim"), ("other", "scenario,measured")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "claims.csv").write_text(f"{heading}\r\ns,1\r\n")
    with pytest.raises(InputFault, match="column claim"):
        diff(tmp_path / "one", tmp_path / "other", [], every=False, as_json=False)
