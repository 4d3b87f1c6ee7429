"""What axe-core finds in the site's main pages, on light and on dark ground: minutes, and npm brings axe-core."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.accessibility import main


@pytest.mark.long
@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm, which brings axe-core: `apt-get install npm`")
def test_pages_can_be_read_and_used_by_all() -> None:
    assert main([]) == 0
