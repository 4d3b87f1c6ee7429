"""Which workers may run a point."""

from __future__ import annotations

from gradwire.runs.executing.cluster.asking import Roster, listed
from tests.shared.parts import tells


def test_any_worker_may_run_a_point_until_one_that_is_there_is_refused() -> None:
    said: list[str] = []
    roster = Roster(said.append)
    assert roster.allowed(["a", "b"], unable=[]) is None
    roster.refuse("b", "another kernel")
    roster.refuse("b", "another kernel")
    (line,) = said
    assert tells(line, "worker b", "another kernel")
    assert roster.allowed(["a", "b", "c"], unable=[]) == ["a", "c"]
    assert roster.allowed(["a", "c"], unable=[]) is None  # the refused one has left


def test_who_was_unable_is_left_out_for_one_point_and_named_nowhere() -> None:
    said: list[str] = []
    roster = Roster(said.append)
    assert roster.allowed(["a", "b"], unable=["a"]) == ["b"]
    assert roster.allowed(["a", "b"], unable=["a", "b"]) == []
    assert roster.allowed(["a", "b"], unable=[]) is None
    assert said == []
    assert listed({"a": "full", "b": "away"}).splitlines() == ["worker a: full", "worker b: away"]
