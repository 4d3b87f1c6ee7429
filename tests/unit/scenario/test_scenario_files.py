"""Scenarios by their paths: each file that one names is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.regular_files import read_bytes
from gradwire.scenario import toml_documents
from gradwire.scenario.scenario_files import read_scenario

MODEL = """
name = "tiny"
batch = 8
source = "made up"
[[layers]]
name = "fc"
kind = "fc"
tensors = { weights = 1000 }
flops = "66 kFLOP"
"""
SCENARIO = """
title = "Read once"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[model]
name = "./tiny.toml"
device = "k40"
[strategy]
name = "ring"
"""


def test_a_scenario_and_its_model_file_are_read_once_also_with_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.toml").write_text(MODEL)
    (tmp_path / "once.toml").write_text(SCENARIO)
    read: list[str] = []

    def counted(path: Path, *limits: Any, **options: Any) -> bytes:
        read.append(path.name)
        return read_bytes(path, *limits, **options)

    monkeypatch.setattr(toml_documents, "read_bytes", counted)
    scenario = read_scenario(tmp_path / "once.toml", ["fabric.rate=25gbit", "model.batch=16"])
    assert sorted(read) == ["once.toml", "tiny.toml"]
    assert scenario.title.startswith("Read once, with")
