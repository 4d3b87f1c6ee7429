"""A test that is skipped for another reason than those of tests/unmet.py fails, and a run says at its end what was skipped and why."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared.snippets import ROOT
from tests.unmet import NEEDS, is_met

UNLISTED = {
    "in the test": "import pytest\ndef test_it(): pytest.skip('no such program')",
    "by a mark": "import pytest\n@pytest.mark.skipif(True, reason='no such program')\ndef test_it(): pass",
    "of the whole module": "import pytest\npytest.importorskip('no_such_module')\ndef test_it(): pass",
    "in a fixture": "import pytest\n@pytest.fixture\ndef it(): pytest.skip('no kernel')\ndef test_it(it): pass",
}


def by_pytest(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """A run of a file of tests with this repository's settings and its conftest."""
    (folder / "test_one.py").write_text(text)
    settings = ("-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder), "-p", "tests.conftest")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *settings, "test_one.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("text", UNLISTED.values(), ids=UNLISTED)
def test_a_skip_that_is_not_in_the_table_fails(tmp_path: Path, text: str) -> None:
    assert by_pytest(tmp_path, text).returncode in (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)


def test_one_that_is_in_the_table_is_skipped_with_its_reason(tmp_path: Path) -> None:
    unmet = "root" if is_met("ordinary_user") else "ordinary_user"
    done = by_pytest(tmp_path, f"import pytest\n@pytest.mark.{unmet}\ndef test_it(): assert False")
    assert done.returncode == pytest.ExitCode.OK, done.stdout
    assert f"1 tests: {NEEDS[unmet].reason}" in done.stdout
