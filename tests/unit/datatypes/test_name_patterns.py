"""What a pattern means among thousands of names is what it means when it is held against each of them."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from gradwire.datatypes.name_patterns import NumberedNames

LETTERS = st.text("h1s-[]*?!é\U0010ffff", max_size=6)


@given(st.lists(st.lists(LETTERS, max_size=3), max_size=12), LETTERS)
def test_it_finds_what_a_look_at_each_name_finds(names_of_things: list[list[str]], pattern: str) -> None:
    names = NumberedNames(names_of_things)
    wanted = [
        number
        for number, of_thing in enumerate(names_of_things)
        if any(name == pattern or fnmatchcase(name, pattern) for name in of_thing)
    ]
    assert list(names.matching(pattern)) == wanted
    assert list(names.called(pattern)) == [number for number, each in enumerate(names_of_things) if pattern in each]
