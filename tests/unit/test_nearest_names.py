"""Which of the names that exist is meant by one that does not."""

from __future__ import annotations

import pytest

from gradwire.nearest_names import ALIKE, nearest_names, question

KEYS = ("rate", "routing", "routes", "rails", "buffer")
MODELS = ("vgg11", "vgg13", "vgg16", "vgg19", "alexnet", "resnet50")


@pytest.mark.parametrize(
    ("name", "allowed", "meant"),
    [
        ("rout", KEYS, ["routing", "routes"]),  # both begin with it, and the shorter one is merely more alike
        ("route", KEYS, ["routes"]),
        ("bufer", KEYS, ["buffer"]),
        ("vgg91", MODELS, ["vgg19"]),  # as many letters in order as of the other three, but its own ones
        ("vgg19x", MODELS, ["vgg19"]),
        ("vgg1", MODELS, []),  # any of four
        ("resnet5", MODELS, ["resnet50"]),
        ("cat", ("bat", "car", "dog"), ["bat", "car"]),
        ("transformer", MODELS, []),
        ("", KEYS, []),
    ],
)
def test_all_names_that_are_as_near_are_meant(name: str, allowed: tuple[str, ...], meant: list[str]) -> None:
    assert nearest_names(name, allowed) == meant


def test_names_that_are_less_alike_than_asked_for_are_not_meant() -> None:
    assert nearest_names("nmae", ["name"], cutoff=ALIKE) == ["name"]
    assert nearest_names("nmae", ["name"], cutoff=0.8) == []


def test_the_question_has_all_names() -> None:
    assert question("rout", KEYS) == "did you mean 'routing' or 'routes'?"
    assert question("transformer", MODELS) == ""
