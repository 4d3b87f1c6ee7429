"""What a wheel has in it, with a file that stands in for the kernel, and what is said of a real one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from types import ModuleType
from zipfile import ZipFile

import pytest

from gradwire.faults import InternalFault
from gradwire.vm.kernel_source import CONFIG, PATCHES, KernelSource, config_digest

ROOT = Path(__file__).resolve().parent.parent.parent
BANNER = b"\0Linux version 6.12.9 (gradwire@gradwire) (gcc (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1 2000-01-01\n"


@pytest.fixture
def wheel_tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "release")
    sys.modules.pop("build_wheel", None)
    return __import__("build_wheel")


@pytest.fixture
def source(tmp_path: Path) -> KernelSource:
    """A source package in which, but for the licenses, there is nothing."""
    tree = tmp_path / "linux-source-6.12"
    for name in ("GPL-2.0", "LGPL-2.1"):
        (tree / "LICENSES/preferred").mkdir(parents=True, exist_ok=True)
        (tree / "LICENSES/preferred" / name).write_text(f"the text of {name}")
    with tarfile.open(tmp_path / "linux-source-6.12.tar.xz", "w:xz") as archive:
        archive.add(tree, tree.name)
    return KernelSource(tmp_path / "linux-source-6.12.tar.xz", (6, 12))


def test_what_the_kernel_was_built_from_stands_beside_it(
    wheel_tool: ModuleType, source: KernelSource, tmp_path: Path
) -> None:
    kernel = tmp_path / "kernel-6.12-a-b"
    kernel.write_bytes(BANNER)
    folder = tmp_path / "prebuilt"
    wheel_tool.add_kernel(kernel, source, folder)
    assert {path.name for path in folder.iterdir()} == {
        kernel.name,
        f"{kernel.name}.sha256",
        "KERNEL.md",
        *wheel_tool.LICENSES,
    }
    assert (folder / "COPYING.GPL-2.0").read_text().endswith("GPL-2.0")
    said = (folder / "KERNEL.md").read_text()
    sha256 = subprocess.run(["sha256sum", source.tarball], capture_output=True, text=True, check=True).stdout.split()[0]
    for fact in ("Linux 6.12.9\n", "gcc (Debian 12.2.0-14) 12.2.0, GNU ld 2.40 |", source.tarball.name, sha256):
        assert fact in said
    for patch in (*PATCHES.glob("*.patch"), *PATCHES.glob("6.12/*.patch")):
        assert f"--input=$PWD/../patches/{patch.relative_to(PATCHES)}" in said
    assert "{" not in said


def test_a_file_that_is_no_kernel_is_refused(wheel_tool: ModuleType, source: KernelSource, tmp_path: Path) -> None:
    (tmp_path / "kernel-6.12-a-b").write_bytes(b"\x7fELF")
    with pytest.raises(InternalFault, match="its version"):
        wheel_tool.add_kernel(tmp_path / "kernel-6.12-a-b", source, tmp_path / "prebuilt")


def test_a_wheel_has_all_that_runs_and_its_own_kernel_once_installed(wheel_tool: ModuleType, tmp_path: Path) -> None:
    tree, site = tmp_path / "gradwire", tmp_path / "site"
    wheel_tool.copy_tracked(tree)
    prebuilt, name = tree / "gradwire" / "vm" / "prebuilt", f"kernel-6.12-{config_digest(CONFIG.read_text())}-01234567"
    prebuilt.mkdir()
    (prebuilt / name).write_text("no kernel, but a program")
    (prebuilt / name).chmod(0o755)
    (prebuilt / "KERNEL.md").write_text("where it is from")
    wheel = wheel_tool.build_wheel(tree, tmp_path / "dist", wheel_tool.PLATFORM)
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    assert wheel_tool.runs_as_it_lies(wheel)
    with ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if ".dist-info/" not in name}
        assert {Path(name).name for name in archive.namelist() if "/licenses/" in name} == {"LICENSE", "NOTICE"}
    assert inside ^ wanted_files() == {"gradwire/vm/prebuilt/KERNEL.md", f"gradwire/vm/prebuilt/{name}"}

    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel]
    subprocess.run(pip, check=True)
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "GRADWIRE_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "gradwire", "kernel", "--check"]
    said = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said == f"kernel: {site}/gradwire/vm/prebuilt/{name}\n"
    assert os.access(said.removeprefix("kernel: ").strip(), os.X_OK)
    assert os.access(tmp_path / "cache" / name, os.X_OK)  # for clones

    command = [sys.executable, "-m", "gradwire", "reproduce", "geryon"]
    ended = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "`reproduction`" in ended.stderr


def wanted_files() -> set[str]:
    """All that git tracks in the package's folders, by the names that an installation gives it."""
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True).stdout.split()
    package = [name for name in listed if name.startswith("gradwire/")]
    folders = {Path(name).name for name in package if (ROOT / name).is_symlink()}
    return {
        *(name for name in package if Path(name).name not in folders),
        *(f"gradwire/{name}" for name in listed if name.split("/")[0] in folders),
    }


def test_the_package_and_its_citation_say_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.findall(r"^(?:version|license): (.*)$", citation, re.MULTILINE) == [
        project["version"],
        project["license"].split(" AND ")[0],  # gradwire's own, without that of the kernel in the wheel
    ]
    assert re.findall(r'^  - name: "(.*)"$', citation, re.MULTILINE) == [
        author["name"] for author in project["authors"]
    ]
    assert re.findall(r"^  - ([a-z ]+)$", citation, re.MULTILINE) == project["keywords"]


def test_type_checkers_of_users_read_the_types_of_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "Typing :: Typed" in settings["project"]["classifiers"]
    assert "py.typed" in settings["tool"]["setuptools"]["package-data"]["gradwire"]
    assert (ROOT / "gradwire" / "py.typed").exists()
