"""In the kernel, every module of a run finds its byte code in the folder that was filled for it, whatever lies beside the sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradwire.vm.code_digest import machine_modules
from gradwire.vm.kernel import cache_folder
from gradwire.vm.machines import Clock, run_job

pytestmark = pytest.mark.kernel


@pytest.mark.usefixtures("virtual_kernel")
def test_no_module_of_a_run_has_to_be_compiled(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(json.dumps(machine_modules()))
    lines: list[str] = []
    status = run_job("tests.shared.imported_in_a_job", tmp_path, Clock(), time_limit_s=60, on_line=lines.append)
    assert status == 0, lines
    seen = json.loads(lines[-1])
    assert seen["prefix"].startswith(str(cache_folder()))
    assert set(seen["lacking"]) == {
        "__main__",
        "tests",
        "tests.shared",
    }  # of the job itself
