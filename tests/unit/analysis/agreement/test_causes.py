"""Which trial is taken for the cause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gradwire.analysis.agreement.causes import (
    MARGIN,
    SUBJECTS,
    Cause,
    Deviation,
    Trial,
    explanation,
    first_cause,
    no_explanation,
)
from tests.shared.parts import tells

FAR = Deviation(measured_s=1.2, ideal_s=1.0)


def trial(cause: Cause, with_effect_s: float, *, is_bound: bool = False) -> Trial:
    return Trial(cause, with_effect_s, "It does", is_bound)


def cause(deviation: Deviation, *trials: Trial) -> Cause | None:
    found = first_cause(deviation, trials)
    return found.cause if found else None


@pytest.mark.parametrize("ratio", [0.9, 1.1])
def test_what_is_within_the_margin_does_not_matter(ratio: float) -> None:
    assert Deviation(ratio, 1.0).matters
    assert not Deviation(1 + (ratio - 1) * MARGIN * 9.9, 1.0).matters


def test_a_cause_leaves_at_most_half() -> None:
    assert FAR.explained_share(1.1) == pytest.approx(0.5)
    assert cause(FAR, trial(Cause.SKEW, 1.101)) is Cause.SKEW
    assert cause(FAR, trial(Cause.SKEW, 1.299)) is Cause.SKEW, "as much too far is as good"
    assert cause(FAR, trial(Cause.SKEW, 1.09)) is None
    assert cause(FAR, trial(Cause.SKEW, 1.31)) is None
    assert cause(FAR, trial(Cause.SKEW, 0.9)) is None, "the wrong way"


def test_shares_have_the_sign_of_the_difference() -> None:
    assert FAR.share(0.1) == pytest.approx(0.5)
    assert Deviation(measured_s=0.8, ideal_s=1.0).share(0.1) == pytest.approx(-0.5)


def test_agents_who_were_later_than_the_run_is_long_explain_no_more_than_all_of_it() -> None:
    late = Deviation(measured_s=1.03, ideal_s=1.0, late_s=0.05)
    assert cause(late, trial(Cause.AGENTS, late.ideal_s), trial(Cause.BURSTS, 0.9, is_bound=True)) is Cause.AGENTS
    far_too_late = Deviation(measured_s=1.03, ideal_s=1.0, late_s=0.07)
    assert cause(far_too_late, trial(Cause.AGENTS, far_too_late.ideal_s)) is None, "others hid most of it"
    fast = Deviation(measured_s=0.97, ideal_s=1.0, late_s=0.05)
    assert cause(fast, trial(Cause.AGENTS, fast.ideal_s)) is None, "they were late, and it is too fast"


def test_a_third_is_enough_where_little_is_left_but_a_hair_is_not() -> None:
    little = Deviation(measured_s=1.03, ideal_s=1.0)
    assert cause(little, trial(Cause.SOCKETS, 1.012)) is Cause.SOCKETS
    assert little.is_met(1.0099)
    assert cause(little, trial(Cause.SOCKETS, 1.0099)) is None


def test_the_first_that_meets_what_was_measured_is_believed_and_later_ones_are_not_made() -> None:
    made = []

    def trials() -> Iterator[Trial]:
        for number, (which, time_s) in enumerate([(Cause.ACKS, 1.12), (Cause.SWITCHES, 1.19), (Cause.SKEW, 1.2)]):
            made.append(number)
            yield trial(which, time_s)

    found = first_cause(FAR, trials())
    assert found is not None
    assert found.cause is Cause.SWITCHES
    assert made == [0, 1]


def test_of_those_that_explain_enough_the_best_is_taken() -> None:
    assert cause(FAR, trial(Cause.ACKS, 1.12), trial(Cause.SKEW, 1.15)) is Cause.SKEW
    assert cause(FAR, trial(Cause.SKEW, 1.15), trial(Cause.ACKS, 1.12)) is Cause.SKEW


def test_a_bound_explains_what_lies_below_it_on_its_own_side() -> None:
    fast = Deviation(measured_s=0.95, ideal_s=1.0)
    assert cause(fast, trial(Cause.BURSTS, 0.7, is_bound=True)) is Cause.BURSTS
    assert cause(fast, trial(Cause.BURSTS, 0.7)) is None
    assert cause(FAR, trial(Cause.BURSTS, 0.7, is_bound=True)) is None


def test_late_agents_are_no_part_of_the_networks_time() -> None:
    late = Deviation(measured_s=1.2, ideal_s=1.0, late_s=0.19)
    assert late.explained_share(late.ideal_s) == pytest.approx(0.95)
    assert cause(late, trial(Cause.AGENTS, late.ideal_s)) is Cause.AGENTS
    hidden = Deviation(measured_s=0.95, ideal_s=1.0, late_s=0.05)
    assert cause(hidden, trial(Cause.BURSTS, 0.9)) is Cause.BURSTS


def test_every_cause_that_is_tried_has_words() -> None:
    told = {Cause.NONE, Cause.UNEXPLAINED, Cause.NOT_EXAMINED}
    assert set(SUBJECTS) == set(Cause) - told
    for which in SUBJECTS:
        text = explanation(FAR, trial(which, 1.19))
        assert tells(text, "95%", "It does.")
        assert "1.2 s were" in text
    assert tells(no_explanation(FAR), "1.2 s measured", "1 s on an ideal")


def test_a_bound_claims_no_figure() -> None:
    text = explanation(Deviation(0.95, 1.0), trial(Cause.BURSTS, 0.7, is_bound=True))
    assert "%" not in text
    assert tells(text, "At most", "0.7 s", "1 s that an ideal", "0.95 s were")
