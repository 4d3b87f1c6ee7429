"""Programs that need more memory than the kernel has are told so by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute, left_behind
from tests.programs.test_ddp import SCRIPT
from tests.shared.parts import tells

pytestmark = [pytest.mark.programs, pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]


def test_eight_pythons_with_torch_do_not_fit_into_a_gibibyte(tmp_path: Path, torch_python: str) -> None:
    size = ("--workers", "8", "--rate", "25gbit", "--memory", "1G", "--launch", "torch")
    done = execute(tmp_path, *size, "--", torch_python, str(SCRIPT), wall_limit_s=1800.0)
    assert done.status not in (0, 1)
    assert tells(done.err, "1024 MiB", "full", "--memory")
    assert left_behind(tmp_path) == []
