"""What is imported when: `import gradwire` and the help are fast, and what runs in the machine knows nothing of pandas."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import gradwire
from gradwire.vm.code_digest import imported_sources, machine_modules

SLOW = {"pandas", "numpy", "matplotlib", "pydantic", "scipy", "rich", "numba"}


def loaded_after(statement: str) -> set[str]:
    """Top-level packages that are loaded in a new process after a statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(name.partition('.')[0] for name in sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_package_alone_loads_nothing_slow() -> None:
    assert loaded_after("import gradwire\ndir(gradwire)") & SLOW == set()


def test_the_command_lines_help_loads_no_tables() -> None:
    assert loaded_after("import gradwire.cli.command_line") & (SLOW - {"rich"}) == set()


def test_a_scenario_is_read_before_what_runs_it_is_loaded() -> None:
    """A mistake in it is answered at once."""
    read = "from pathlib import Path\nfrom gradwire.scenario.scenario_files import read_scenario as read\n"
    loaded = loaded_after(f"{read}read(Path('geryon-table2'), ['run.iterations=1'])")
    assert "pydantic" in loaded
    assert loaded & {"pandas", "matplotlib", "scipy", "numba", "scapy", "mininet"} == set()


def test_a_plan_needs_no_charts() -> None:
    loaded = loaded_after("import gradwire.cli.previews")
    assert loaded & {"pandas", "matplotlib", "scapy", "mininet", "numba", "scipy"} == set()


def test_programs_run_without_tables_and_engines() -> None:
    loaded = loaded_after("import gradwire.cli.user_programs")
    assert "numpy" in loaded
    assert loaded & {"pandas", "pyarrow", "matplotlib", "numba", "scipy"} == set()


def test_what_runs_in_the_machine_loads_no_pandas() -> None:
    """Their boot takes virtual and wall time for every point."""
    statement = "import importlib\nfor name in " + repr(machine_modules()) + ": importlib.import_module(name)"
    loaded = loaded_after(statement)
    assert "numpy" in loaded
    assert loaded & {"pandas", "pyarrow", "matplotlib", "numba"} == set()
    assert not any(
        name.startswith(("gradwire.api", "gradwire.analysis.frames")) for name in imported_sources(machine_modules())
    )


def test_figures_leave_pyplot_alone() -> None:
    assert (
        "matplotlib.pyplot"
        not in subprocess.run(
            [sys.executable, "-c", "import gradwire, sys; gradwire.run; gradwire.Run; print(*sys.modules)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
    )


def test_every_name_is_there_and_no_other() -> None:
    for name in gradwire.__all__:
        assert getattr(gradwire, name).__name__.rpartition(".")[2] == name
    assert set(gradwire.__all__) <= set(dir(gradwire))
    with pytest.raises(AttributeError, match="no attribute 'rnu'"):
        _ = gradwire.rnu
