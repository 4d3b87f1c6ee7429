"""Scenario files of programs, read as commands read them, which know from the file which kind it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradwire.scenario.loading import ScenarioOrigin
from gradwire.scenario.program_scenarios import ProgramScenario, programs_of_document
from gradwire.scenario.toml_documents import read_document


def load_programs(path: Path, settings: Sequence[str] = ()) -> ProgramScenario:
    """The scenario of programs in a file, with `key=value` settings."""
    return programs_of_document(read_document(path), ScenarioOrigin.of_file(path), settings)
