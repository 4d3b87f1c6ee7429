"""Strategies in files: their code is run once per text, and what goes wrong there is the file's fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.named_code import COMMAND_LINE, permit
from gradwire.workloads.strategy import Strategy
from gradwire.workloads.strategy_registry import strategies_in, strategy_in
from tests.unit.scenario.definitions.own_files import STRATEGY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "one_bucket.py"
    file.write_text(STRATEGY)
    permit(file, COMMAND_LINE)
    return file


def test_a_file_has_its_strategies_by_name(path: Path) -> None:
    assert isinstance(strategy_in(path), Strategy)
    assert strategy_in(path, "one-bucket") is strategy_in(path)


def test_a_file_is_run_anew_when_its_text_changes_and_leaves_nothing_beside_it(path: Path) -> None:
    first = strategy_in(path)
    path.write_text(STRATEGY.replace("all at once", "changed"))
    assert (first.summary, strategy_in(path).summary) == ("all at once", "changed")
    assert list(path.parent.iterdir()) == [path]


def test_a_file_is_run_as_it_is_without_anybody_elses_future_imports(path: Path) -> None:
    path.write_text(STRATEGY + "class Own:\n    share: int\nassert Own.__annotations__ == {'share': int}\n")
    assert strategy_in(path).name == "one-bucket"


def test_options_may_have_annotations_that_are_texts(path: Path) -> None:
    options = "class Own(AllreduceOptions):\n    share: Literal['all', 'half'] = 'all'\n\n\ndef compile_one"
    head = "from __future__ import annotations\nfrom typing import Literal\n"
    path.write_text(
        head + STRATEGY.replace("def compile_one", options).replace("options=AllreduceOptions", "options=Own")
    )
    assert strategy_in(path).options.model_validate({"share": "half"}).model_dump()["share"] == "half"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("import no_such_module\n", "cannot be run: ModuleNotFoundError: No module named 'no_such_module'"),
        ("STRATEGIES = (\n", "cannot be run: SyntaxError"),
        ("raise RuntimeError('no luck')\n", "cannot be run: RuntimeError: no luck"),
        ("STRATEGY = None\n", "has no STRATEGIES: end it with a line like"),
        ("STRATEGIES = ()\n", "has no STRATEGIES"),
        ("STRATEGIES = ('ring',)\n", "STRATEGIES has a str: it must be a Strategy"),
        (STRATEGY + "STRATEGIES = (STRATEGY, STRATEGY)\n", "two of its strategies are called 'one-bucket'"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(path: Path, text: str, complaint: str) -> None:
    path.write_text(text)
    with pytest.raises(InputFault, match=complaint) as fault:
        strategies_in(path)
    assert str(fault.value).startswith(f"{path}: ")
