"""gradwire from Python, on a real network in the virtual-time kernel: a tiny run with a capture, and the notebooks in examples/."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pytest
from matplotlib.patches import StepPatch
from nbclient import NotebookClient

import gradwire
from gradwire import PACKAGE
from gradwire.faults import InputFault

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

NOTEBOOKS = sorted((PACKAGE.parent / "examples").glob("*.ipynb"))
SCENARIO = {
    "title": "tiny",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "model": {"name": "alexnet", "device": "k40"},
    "strategy": {"name": "kvstore"},
    "run": {"iterations": 1, "capture": ["h1"]},
}


PROGRAMS = {
    "title": "echo",
    "cluster": {"workers": 2},
    "fabric": {"rate": "10gbit"},
    "program": {"echo": {"command": "echo '{\"answer\": 42}' >>$GRADWIRE_FIGURES", "hosts": "h1"}},
}


def test_programs_run_from_python_and_again_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not copied like points of strategies: what programs read besides is in no key."""
    monkeypatch.chdir(tmp_path)
    run = gradwire.run(PROGRAMS)
    assert isinstance(run, gradwire.ProgramRun)
    assert run.valid
    assert run.figures["answer"].tolist() == [42]
    assert run.points["verdict"].tolist() == ["valid"]
    assert run.verdicts["passed"].all()
    with pytest.raises(InputFault, match="runs of programs"):
        run.ops()
    assert "already there" not in capsys.readouterr().out
    assert gradwire.run(PROGRAMS).figures.equals(run.figures)
    assert "already there" in capsys.readouterr().out
    other = gradwire.run(PROGRAMS, out="runs/other")
    assert "already there" not in capsys.readouterr().out
    assert other.figures.equals(run.figures)
    assert gradwire.open("runs/other").figures.equals(run.figures)


def test_a_run_from_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    run = gradwire.run(SCENARIO)
    assert run.valid
    assert "s per iteration" in capsys.readouterr().out
    ops, ports = run.ops(), run.ports()
    sent_bytes = ops.loc[ops["crosses_network"], "size_bytes"].sum()
    from_hosts = ports[ports["port"].str.startswith("h")]
    assert sent_bytes < from_hosts["bytes_sent"].sum() < 1.1 * sent_bytes
    assert from_hosts["drops"].sum() == 0
    assert 0 < from_hosts["utilisation"].max() < 1
    lasted_s = ops["end_s"].max() - ops["start_s"].min()
    assert lasted_s == pytest.approx(run.iterations["iteration_time_s"].sum(), rel=0.05)
    axes = run.utilisation(port="h1-eth0")
    steps = next(patch for patch in axes.patches if isinstance(patch, StepPatch))
    carried_gbps, *_ = steps.get_data()
    assert 0.5 < np.max(carried_gbps) <= 10.1


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_saved_outputs_are_those_of_today(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinds of outputs, not their numbers, which another kernel or a faster machine may change."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]))
    saved, ran = (nbformat.reads(path.read_text(), as_version=4) for _ in range(2))  # type: ignore[no-untyped-call]
    NotebookClient(ran, timeout=240, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert outputs(saved) == outputs(ran)
    printed = "".join(output.get("text", "") for cell in ran.cells for output in cell.get("outputs", ()))
    assert printed.count("✓") > 4, "each point says that it is valid"
    assert "✗" not in printed


def outputs(notebook: Any) -> list[list[str]]:
    """The kinds of what each cell shows."""
    return [sorted({kind for output in results(cell) for kind in output["data"]}) for cell in notebook.cells]


def results(cell: Any) -> list[Any]:
    """What a cell shows, without what it prints."""
    return [output for output in cell.get("outputs", ()) if "data" in output]


def test_there_are_notebooks() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"does-p3-help", "own-strategy"}
