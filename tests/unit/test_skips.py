"""A test that is skipped for another reason than those of tests/unmet.py fails, and a run says at its end what was skipped and why."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.shared.snippets import ROOT
from tests.unmet import NEEDS, is_met

UNLISTED = {
    "test_in_the_test.py": "import pytest\ndef test_it(): pytest.skip('no such program')",
    "test_by_a_mark.py": "import pytest\n@pytest.mark.skipif(True, reason='no such program')\ndef test_it(): pass",
    "test_of_the_whole_module.py": "import pytest\npytest.importorskip('no_such_module')\ndef test_it(): pass",
    "test_in_a_fixture.py": "import pytest\n@pytest.fixture\ndef it(): pytest.skip('no kernel')\ndef test_it(it): pass",
}


def by_pytest(folder: Path, texts: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """A run of files of tests with this repository's settings and its conftest."""
    for name, text in texts.items():
        (folder / name).write_text(text)
    settings = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "tests.conftest")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--continue-on-collection-errors"),
            "-p",
            "no:cacheprovider",
            *settings,
            *texts,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_skip_that_is_not_in_the_table_fails(tmp_path: Path) -> None:
    """In the test, by a mark, of the whole module, in a fixture."""
    done = by_pytest(tmp_path, UNLISTED)
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert set(re.findall(r"^(?:FAILED|ERROR) (\w+\.py)", done.stdout, re.MULTILINE)) == UNLISTED.keys(), done.stdout


def test_one_that_is_in_the_table_is_skipped_with_its_reason(tmp_path: Path) -> None:
    unmet = "root" if is_met("ordinary_user") else "ordinary_user"
    done = by_pytest(tmp_path, {"test_one.py": f"import pytest\n@pytest.mark.{unmet}\ndef test_it(): assert False"})
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert f"1 tests: {NEEDS[unmet].reason}" in done.stdout
