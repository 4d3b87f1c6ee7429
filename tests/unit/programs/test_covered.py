"""Which folders of the machine programs find empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.programs.program_file import covered_folders, process_folders

MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
23 27 0:22 / /srv/a\040root/proc rw,relatime shared:5 master:1 - proc proc rw
24 27 0:22 / /run/other/proc rw,relatime - proc proc rw
25 27 0:23 / /srv/root/sys rw - sysfs sysfs rw
""".strip()


def test_every_proc_that_the_kernel_would_show_is_covered() -> None:
    assert process_folders(MOUNTS) == ["/srv/a root/proc"]


def test_the_folder_of_the_results_is_covered_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to("run")
    assert covered_folders(tmp_path / "link", tmp_path)[0] == str(tmp_path / "run")
    for start in (tmp_path / "run", tmp_path / "run" / "inner"):
        with pytest.raises(InputFault, match="start elsewhere"):
            covered_folders(tmp_path / "link", start)
