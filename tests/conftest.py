"""What all tests share: which are left to commands of their own, and what a test may be skipped for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.core import CORE
from tests.file_parts import files_in_part, part_of
from tests.shared.examples import DEFAULT, examples
from tests.shared.own_pace import learn_pace_in
from tests.unmet import NEEDS, is_met

PROGRAMS, BROAD, END_TO_END = "programs", "broad", "end_to_end"
# How long an example takes is the machine's affair: beside other work, 200 ms are not enough for what takes 10.
settings.register_profile(
    "gradwire", max_examples=examples(DEFAULT), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("gradwire")
REASONS = frozenset(need.reason for need in NEEDS.values())


@pytest.fixture(scope="session", autouse=True)
def _learns_its_own_pace(tmp_path_factory: pytest.TempPathFactory) -> None:
    learn_pace_in(tmp_path_factory.mktemp("pace"))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves tests/programs, whose modules import torch, to `make test-programs`."""
    is_left = collection_path == Path(__file__).with_name(PROGRAMS) and config.option.markexpr != PROGRAMS
    return is_left or None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--part K/N`."""
    parser.addoption("--part", metavar="K/N", type=part_of, help="of the broad tests, the files of part K of N")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves to `make test-broad` what boots machines and is not in CORE, unless another command has it; and files of other parts."""
    tests = Path(__file__).parent
    for item in items:
        is_end_to_end = item.path.is_relative_to(tests / END_TO_END)
        if is_end_to_end and str(item.path.relative_to(tests)) not in CORE and item.get_closest_marker("long") is None:
            item.add_marker(BROAD)
    if part := config.getoption("part"):
        chosen = files_in_part((item.path for item in items if item.get_closest_marker(BROAD)), *part)
        config.hook.pytest_deselected(items=[item for item in items if item.path not in chosen])
        items[:] = [item for item in items if item.path in chosen]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test that needs what this user or machine has not."""
    for name, need in NEEDS.items():
        if item.get_closest_marker(name) and not is_met(name):
            pytest.skip(need.reason)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why something was skipped."""
    *_, said = report.longrepr if isinstance(report.longrepr, tuple) else (str(report.longrepr),)
    return str(said).removeprefix("Skipped: ")


def _refuse(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Makes a failure of a skip for another reason than the table's: a green run would say less than it seems to."""
    if report.skipped and not hasattr(report, "wasxfail") and (reason := _reason(report)) not in REASONS:
        report.outcome = "failed"
        report.longrepr = f"skipped, for a reason that tests/unmet.py does not have: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fails what is skipped for another reason."""
    report = yield
    _refuse(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole modules."""
    report = yield
    _refuse(report)
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was skipped, and why."""
    skipped = Counter(map(_reason, terminalreporter.stats.get("skipped", [])))
    for reason, count in sorted(skipped.items()):
        terminalreporter.write_line(f"skipped, {count} tests: {reason}")
