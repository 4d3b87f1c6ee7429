"""Tables in documents: those that are read, and those that are filled in."""

from __future__ import annotations

import pytest

from gradwire.documents import Document, DocumentTable, list_of, table_at, table_of
from gradwire.faults import InputFault


def test_a_table_is_read_at_its_keys_and_what_is_no_table_is_an_empty_one() -> None:
    document: DocumentTable = {"strategy": {"options": {"inside": "ring"}}, "title": "none"}
    assert table_at(document) == document
    assert table_at(document, "strategy", "options") == {"inside": "ring"}
    for keys in (("title",), ("sweep",), ("strategy", "name"), ("title", "options")):
        assert table_at(document, *keys) == {}


def test_a_table_that_is_not_there_is_made_and_a_value_is_refused() -> None:
    document: Document = {"model": {"name": "alexnet"}, "fabric": "10gbit"}
    table_of(document, "model")["device"] = "k40"
    table_of(document, "defined")["models"] = {}
    assert document == {"model": {"name": "alexnet", "device": "k40"}, "fabric": "10gbit", "defined": {"models": {}}}
    with pytest.raises(InputFault, match="fabric: is a value, not a table"):
        table_of(document, "fabric")


def test_a_value_is_a_list_of_itself() -> None:
    assert list_of([1, "2"]) == [1, "2"]
    assert list_of("12") == ["12"]
