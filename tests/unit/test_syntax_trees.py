"""Syntax trees beside other threads."""

from __future__ import annotations

import pytest

from gradwire.syntax_trees import parsed


def test_what_another_thread_came_between_is_parsed_once_more() -> None:
    outcomes = [SystemError("AST constructor recursion depth mismatch"), None]

    def parse() -> str:
        if outcome := outcomes.pop(0):
            raise outcome
        return "tree"

    assert parsed(parse) == "tree"
    assert outcomes == []


def test_what_fails_twice_is_raised() -> None:
    def parse() -> str:
        raise SystemError("mismatch")

    with pytest.raises(SystemError):
        parsed(parse)


def test_one_may_be_made_while_another_is() -> None:
    assert parsed(lambda: parsed(lambda: "tree")) == "tree"
