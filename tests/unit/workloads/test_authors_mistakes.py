"""What an author of a strategy is told of a mistake: the file of docs/adding-a-strategy.md with one thing in it
wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.resolution.compilation import compile_point
from gradwire.workloads.called_strategy import plans_of_strategy
from gradwire.workloads.checker import PlanError
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.strategies.allreduce import STRATEGIES
from gradwire.workloads.strategy import Strategy
from tests.shared.small_jobs import job_of, profile_of
from tests.shared.snippets import PLUGIN_FOLDER, shown_file

FILE, SCENARIO = (shown_file(f"{PLUGIN_FOLDER}/{name}").text for name in ("two_tree.py", "two-tree.toml"))
BEGIN = '    workers = Workers("two-tree", job)\n'
END = '    return {"two-tree": workers.build()}\n'
LAST = "STRATEGIES = (STRATEGY,)"
FIELD = "    needs_servers=False,\n"


def compile_with(folder: Path, old: str, new: str) -> None:
    """Compiles the guide's scenario with a changed strategy's file."""
    assert FILE.count(old) == 1
    (folder / "two_tree.py").write_text(FILE.replace(old, new))
    (folder / "two-tree.toml").write_text(SCENARIO)
    for point in load_scenario(folder / "two-tree.toml").points:
        compile_point(point.section)


def test_the_file_as_it_is(tmp_path: Path) -> None:
    compile_with(tmp_path, LAST, LAST)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (LAST, "STRATEGIES = 5", "STRATEGIES = 5: must be a tuple of Strategy"),
        (LAST, "", "has no STRATEGIES: end it with"),
        (FIELD, f"{FIELD}    "
        "classes=2,\n", "Strategy(classes=2): must be a function of the options, like classes=lambda options: 2"),
        (FIELD, f"{FIELD}    classes=lambda options: 'x',\n", "its `classes` returned 'x': it must be a whole number"),
        (FIELD, f"{FIELD}    classes=lambda options: 1 // 0,\n", "two_tree.py:54, in <lambda>: ZeroDivisionError"),
        (FIELD, '    needs_servers="no",\n', "Strategy(needs_servers='no'): must be True or False"),
        ("    options=TreeOptions,\n", "    options=dict,\n", "must be a class derived from gradwire.plugin's Options"),
        ('    summary="two mirrored trees",\n', "    summary='',\n", "Strategy(summary=''): must be a line of text"),
        (END, "    return "
        "workers.build()\n", "`compile` returned a Plan: return plans by their labels, like {'two-tree': plan}"),
        (END, "    return {}\n", "`compile` returned an empty mapping"),
        (END, '    return {"two-tree": 5}\n', "returned a mapping of str to int"),
        (BEGIN, f'{BEGIN}    {{}}["x"]\n', "two_tree.py:20, in compile_trees: KeyError: 'x'"),
        ('"traffic_class": '
         '0', '"traffic_class": 1', "sends messages in class 1, and the network has class 0 alone: give"),
    ],
)  # fmt: skip
def test_a_mistake(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputFault) as caught:
        compile_with(tmp_path, old, new)
    assert said in str(caught.value)
    assert "two-tree" in str(caught.value) or "two_tree.py" in str(caught.value)


def test_a_reference_to_nothing_is_found_before_anything_follows_it(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="dependency does not"):
        compile_with(tmp_path, END, f"    builder.depend(0, 10**6)\n{END}")


def test_what_gradwires_own_strategies_raise_is_a_bug_of_gradwire(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = STRATEGIES[0]

    def broken(*_: object) -> None:
        raise KeyError("x")

    broken.__module__ = "gradwire.workloads.strategies.allreduce"
    changed = Strategy(name="x", summary="x", source="x", compile=broken)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        plans_of_strategy(
            changed, job_of(profile_of([(LayerKind.FC, [500])]), Cluster(2)), ring.options(), Fabric(2, 1e9)
        )
