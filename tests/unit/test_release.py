"""The steps of a release: what has to agree, and what an SBOM adds to the Python packages."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest

from tests.shared.parts import tells

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ("pyproject.toml", "CHANGELOG.md", "CITATION.cff")


def tool(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "release")
    sys.modules.pop(name, None)
    return __import__(name)


@pytest.fixture
def agreement(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return tool("agreement", monkeypatch)


@pytest.fixture
def sbom(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return tool("sbom", monkeypatch)


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A repository whose version 0.1.0 is released, with this repository's settings."""
    for name in NAMES:
        shutil.copy(ROOT / name, tmp_path)
    changelog = (ROOT / "CHANGELOG.md").read_text()
    (tmp_path / "CHANGELOG.md").write_text(
        re.sub(r"^(## \[0\.1\.0\] - ).*$", r"\g<1>2026-12-01", changelog, count=1, flags=re.M)
    )
    (tmp_path / "changelog.d").mkdir()
    for name in ("README.md", "template.md"):
        shutil.copy(ROOT / "changelog.d" / name, tmp_path / "changelog.d")
    return tmp_path


def test_a_release_agrees_with_itself(agreement: ModuleType, released: Path) -> None:
    assert agreement.disagreements(released, "v0.1.0") == []
    assert agreement.disagreements(released) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        (
            "pyproject.toml",
            'version = "0.1.0"',
            'version = "0.2.0"',
            "tag: v0.1.0, and pyproject.toml has version 0.2.0",
        ),
        ("CHANGELOG.md", "2026-12-01", "Unreleased", "0.1.0 has no date but 'Unreleased'"),
        ("CHANGELOG.md", "## [0.1.0]", "## [0.0.9]", "its first section is not 0.1.0"),
        ("CITATION.cff", "version: 0.1.0", "version: 0.0.9", "CITATION.cff: its version is not 0.1.0"),
    ],
)
def test_what_disagrees_is_named(
    agreement: ModuleType, released: Path, name: str, old: str, new: str, said: str
) -> None:
    text = (released / name).read_text()
    assert old in text
    (released / name).write_text(text.replace(old, new, 1))
    assert said in "\n".join(agreement.disagreements(released, "v0.1.0"))


def test_a_fragment_that_is_left_is_named(agreement: ModuleType, released: Path) -> None:
    (released / "changelog.d" / "late.fixed.md").write_text("Late.\n")
    (said,) = agreement.disagreements(released, "v0.1.0")
    assert tells(said, "changelog.d:", "1 fragments", "late.fixed.md")


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """A wheel with something in the kernel's place, and its source next to it."""
    source = tmp_path / "linux-source-6.12.tar.xz"
    source.write_bytes(b"the source")
    digest = hashlib.sha256(b"the source").hexdigest()
    with ZipFile(tmp_path / "gradwire-0.1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("gradwire/vm/prebuilt/kernel-6.12-a-b", b"the kernel")
        archive.writestr("gradwire/vm/prebuilt/kernel-6.12-a-b.sha256", b"a note")
        said = f"# The virtual-time kernel: Linux 6.12.9\n\n| `{digest}` |\n| changes | `../patches/6.12/one.patch` |\n"
        archive.writestr("gradwire/vm/prebuilt/KERNEL.md", said)
    return tmp_path / "gradwire-0.1.0-py3-none-any.whl"


def test_the_kernel_is_a_component_with_its_source_and_patches(sbom: ModuleType, wheel: Path) -> None:
    kernel = sbom.kernel_of(wheel, wheel.parent / "linux-source-6.12.tar.xz")
    assert (kernel["name"], kernel["version"]) == ("linux", "6.12.9")
    assert kernel["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(b"the kernel").hexdigest()}]
    assert kernel["pedigree"]["patches"] == [
        {"type": "unofficial", "diff": {"url": "gradwire/vm/patches/6.12/one.patch"}}
    ]


def test_another_source_than_the_kernels_is_refused(sbom: ModuleType, wheel: Path) -> None:
    other = wheel.parent / "linux-source-6.12.tar.xz"
    other.write_bytes(b"another source")
    with pytest.raises(SystemExit, match="name the digest"):
        sbom.kernel_of(wheel, other)


def bom() -> dict[str, Any]:
    """What cyclonedx-py says of an environment with gradwire and what it needs."""
    return {
        "specVersion": "1.6",
        "metadata": {"component": {"bom-ref": "root-component", "name": "gradwire"}},
        "components": [
            {"bom-ref": "gradwire==0.1.0", "name": "gradwire", "version": "0.1.0", "purl": "pkg:pypi/gradwire@0.1.0"},
            {"bom-ref": "tomli_w==1.2.0", "name": "tomli_w", "version": "1.2.0", "purl": "pkg:pypi/tomli-w@1.2.0"},
        ],
        "dependencies": [
            {"ref": "root-component", "dependsOn": ["gradwire==0.1.0"]},
            {"ref": "gradwire==0.1.0", "dependsOn": ["tomli_w==1.2.0"]},
            {"ref": "tomli_w==1.2.0"},
        ],
    }


def test_the_subject_needs_its_packages_and_the_kernel_and_is_named_once(sbom: ModuleType) -> None:
    whole = sbom.with_kernel(bom(), {"bom-ref": "virtual-time-kernel", "name": "linux"})
    assert [each["name"] for each in whole["components"]] == ["tomli_w", "linux"]
    needs = {part["ref"]: part.get("dependsOn") for part in whole["dependencies"]}
    assert needs == {
        "root-component": ["tomli_w==1.2.0", "virtual-time-kernel"],
        "tomli_w==1.2.0": None,
        "virtual-time-kernel": None,
    }


def test_debian_packages_are_named_by_their_url(sbom: ModuleType) -> None:
    (package,) = sbom.debian_packages(["libstdc++6\t14.2.0-19\tamd64\n"])
    assert package["purl"] == "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64"
    whole = sbom.with_debian(bom(), [package])
    assert whole["components"][-1] == package
    assert {"ref": package["purl"]} in whole["dependencies"]


CHANGELOG = """\
# Changelog

<!-- towncrier release notes start -->

## [0.2.0] - Unreleased

What it is.

### Added

- One thing, told
  on two lines.

## [0.1.0] - 2026-12-01

### Added

- The first.
"""


def test_news_join_the_section_of_their_version_once(monkeypatch: pytest.MonkeyPatch) -> None:
    changelog = tool("changelog", monkeypatch)
    news = changelog.by_kind("## [0.2.0] - x\n\n### Added\n\n- Another `a-b`.\n\n### Fixed\n\n- A fault.\n")
    assert news == {"Added": ["Another `a-b`."], "Fixed": ["A fault."]}
    whole = changelog.with_news(CHANGELOG, "0.2.0", "2027-01-02", news, ["Added", "Changed", "Fixed"])
    assert whole == CHANGELOG.replace("Unreleased", "2027-01-02").replace(
        "- One thing, told\n  on two lines.\n",
        "- One thing, told on two lines.\n- Another `a-b`.\n\n### Fixed\n\n- A fault.\n",
    )
    assert changelog.with_news(whole, "0.2.0", "2027-01-02", news, ["Added", "Changed", "Fixed"]) == whole


def test_a_version_without_a_section_gets_one_above_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    changelog = tool("changelog", monkeypatch)
    whole = changelog.with_news(CHANGELOG, "0.3.0", "2027-01-02", {"Fixed": ["A fault."]}, ["Added", "Fixed"])
    made = "## [0.3.0] - 2027-01-02\n\n### Fixed\n\n- A fault.\n\n## [0.2.0]"
    assert whole == CHANGELOG.replace("## [0.2.0]", made)


def test_a_step_that_does_not_exist_says_which_do() -> None:
    done = subprocess.run([ROOT / "release" / "run", "ship"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert tells(done.stderr, "release/run verify", "build")


@pytest.mark.parametrize("word", ["--help", "0.2", "next", "0.2.0 "])
def test_a_section_is_made_for_versions_alone(word: str) -> None:
    before = (ROOT / "CHANGELOG.md").read_bytes()
    ended = subprocess.run(
        [sys.executable, str(ROOT / "release" / "changelog.py"), word], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "python release/changelog.py VERSION" in ended.stderr
    assert (ROOT / "CHANGELOG.md").read_bytes() == before
