"""`set=` as a mapping or as texts becomes what --set takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradwire.api.running import settings_of
from gradwire.faults import InputFault
from gradwire.scenario.overrides import apply_setting
from tests.shared.parts import in_order


@pytest.mark.parametrize(
    "value",
    [
        "25gbit",
        "vgg19",
        "true",
        "nan",
        "a=b",
        "",
        " spaces ",
        "two\nlines",
        "1979-05-27",
        'with "quotes"',
        8,
        0.5,
        True,
        [2, 4],
        ["vanilla", "p3"],
        [[0.5], [0.25, 1]],
        {"x": 1, "y.z": ["a", "b"]},
    ],
)
def test_a_value_arrives_as_it_was_given(value: Any) -> None:
    (text,) = settings_of({"table.key": value})
    document: dict[str, Any] = {}
    apply_setting(document, text)
    arrived = document["sweep"]["table.key"] if isinstance(value, list) else document["table"]["key"]
    assert arrived == value
    assert type(arrived) is type(value)
    assert "\n" not in text


def test_words_stay_as_they_are_since_folders_are_named_after_them() -> None:
    given = {"model.name": "vgg19", "fabric.rate": "25gbit", "cluster.workers": np.int64(4)}
    assert settings_of(given) == ("model.name=vgg19", "fabric.rate=25gbit", "cluster.workers=4")


def test_texts_are_taken_as_on_the_command_line() -> None:
    assert settings_of(["model.name=vgg19"]) == ("model.name=vgg19",)
    assert settings_of(()) == ()


def test_what_is_no_setting_is_refused() -> None:
    with pytest.raises(InputFault, match="give a mapping"):
        settings_of("model.name=vgg19")
    with pytest.raises(InputFault, match=in_order("set:", "object")):
        settings_of({"model.name": object()})
