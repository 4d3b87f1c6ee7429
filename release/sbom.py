"""What is in a release, as CycloneDX: adds what cyclonedx-py cannot see in a Python environment to its SBOM.

    python release/sbom.py PACKAGES.cdx.json DIST             the kernel: DIST/gradwire-VERSION.cdx.json
    python release/sbom.py PACKAGES.cdx.json DIST DEBIAN      the kernel and Debian's packages, of an image:
                                                              DIST/gradwire-VERSION-image.cdx.json

PACKAGES is what cyclonedx-py says of the environment, and DEBIAN what dpkg says inside the image. What is written is
validated against the schema of CycloneDX. Runs in the environment of release/requirements.txt.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from zipfile import ZipFile


def kernel_of(wheel: Path, tarball: Path) -> dict[str, Any]:
    """The component for the kernel in `wheel`, built from `tarball`, whose digest KERNEL.md has to name."""
    with ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if re.search(r"/prebuilt/kernel-[^/]*(?<!\.sha256)$", each))
        said = archive.read(f"{name.rpartition('/')[0]}/KERNEL.md").decode()
        kernel = archive.read(name)
    with tarball.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 not in said:
        raise SystemExit(f"error: KERNEL.md in {wheel.name} does not name the digest of {tarball.name}")
    version = re.search(r"^# The virtual-time kernel: Linux (\S+)$", said, re.MULTILINE)
    assert version is not None
    changes = re.findall(r"`\.\./(patches/[^`]+\.patch)`", said)
    return {
        "type": "operating-system",
        "bom-ref": "virtual-time-kernel",
        "name": "linux",
        "version": version[1],
        "description": "The virtual-time kernel (ARCH=um), linked statically with the GNU C Library",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(kernel).hexdigest()}],
        "licenses": [{"expression": "GPL-2.0-only WITH Linux-syscall-note"}],
        "externalReferences": [
            {
                "type": "source-distribution",
                "url": tarball.name,
                "hashes": [{"alg": "SHA-256", "content": sha256}],
            }
        ],
        "pedigree": {
            "patches": [{"type": "unofficial", "diff": {"url": f"gradwire/vm/{change}"}} for change in changes],
        },
    }


def debian_packages(lines: Iterable[str]) -> list[dict[str, Any]]:
    """Components for packages of Debian, from lines of name, version and architecture."""
    found = []
    for line in lines:
        name, version, architecture = line.rstrip("\n").split("\t")
        purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={architecture}"
        found.append({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def with_kernel(bom: dict[str, Any], kernel: dict[str, Any]) -> dict[str, Any]:
    """The SBOM with the kernel in it, as a part of its subject."""
    subject = bom["metadata"]["component"]["bom-ref"]
    parts = [part for part in bom["dependencies"] if part["ref"] != subject]
    own = next((part for part in bom["dependencies"] if part["ref"] == subject), {"ref": subject})
    needs = sorted({*own.get("dependsOn", []), kernel["bom-ref"]})
    dependencies = [*parts, {"ref": subject, "dependsOn": needs}, {"ref": kernel["bom-ref"]}]
    own_copy = _own_copy(bom)
    components = [each for each in bom["components"] if each["bom-ref"] != own_copy]
    if own_copy is not None:  # the subject is installed in the environment too: its needs are those of the subject
        copied: list[str] = next((part.get("dependsOn", []) for part in dependencies if part["ref"] == own_copy), [])
        dependencies = [part for part in dependencies if part["ref"] != own_copy]
        for part in dependencies:
            if part["ref"] == subject:
                part["dependsOn"] = sorted({*part["dependsOn"], *copied} - {own_copy})
    return {**bom, "components": [*components, kernel], "dependencies": dependencies}


def _own_copy(bom: dict[str, Any]) -> str | None:
    subject = bom["metadata"]["component"]
    for each in bom["components"]:
        if _normal(each["name"]) == _normal(subject["name"]) and each["bom-ref"] != subject["bom-ref"]:
            return str(each["bom-ref"])
    return None


def with_debian(bom: dict[str, Any], packages: list[dict[str, Any]]) -> dict[str, Any]:
    """The SBOM of an image: the wheel's, and Debian's packages."""
    dependencies = [*bom["dependencies"], *({"ref": each["bom-ref"]} for each in packages)]
    return {**bom, "components": [*bom["components"], *packages], "dependencies": dependencies}


def write(bom: dict[str, Any], path: Path) -> None:
    """Writes the SBOM. Raises SystemExit where it is not what the schema of CycloneDX asks for."""
    from cyclonedx.schema import SchemaVersion  # noqa: PLC0415  only here, and not in the tests' environment
    from cyclonedx.validation.json import JsonStrictValidator  # noqa: PLC0415

    text = json.dumps(bom, indent=2, sort_keys=True) + "\n"
    wrong = JsonStrictValidator(SchemaVersion.from_version(bom["specVersion"])).validate_str(text)
    if wrong is not None:
        raise SystemExit(f"error: {path.name}: {wrong}")
    path.write_text(text)
    print(f"SBOM: {path} ({len(bom['components'])} components)")


def one(dist: Path, pattern: str) -> Path:
    """The only file of this name in `dist`."""
    found = list(dist.glob(pattern))
    if len(found) != 1:
        raise SystemExit(f"error: {dist} has {len(found)} files {pattern}, not one")
    return found[0]


def main(packages: str, dist: str, debian: str | None = None) -> None:
    """Writes the SBOM of the wheel in `dist`, or of an image with the packages of `debian`."""
    wheel, source = one(Path(dist), "gradwire-*.whl"), one(Path(dist), "linux-*.tar.*")
    bom = with_kernel(json.loads(Path(packages).read_text()), kernel_of(wheel, source))
    name = f"gradwire-{wheel.name.split('-')[1]}"
    if debian is not None:
        bom = with_debian(bom, debian_packages(Path(debian).read_text().splitlines()))
        name += "-image"
    write(bom, Path(dist) / f"{name}.cdx.json")


if __name__ == "__main__":
    if len(sys.argv) not in {3, 4}:
        sys.exit(__doc__)
    main(*sys.argv[1:])
