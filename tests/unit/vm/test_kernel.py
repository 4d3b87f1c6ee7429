"""The build's steps and what they leave behind, with a source package whose Makefile only pretends."""

import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from gradwire.faults import InternalFault, MachineFault
from gradwire.vm import kernel, kernel_source
from gradwire.vm.kernel import PREBUILT, build_kernel, cached_kernel, ensure_kernel, renewal, unpack_command
from gradwire.vm.kernel_source import NOTE_SUFFIX, has_noted_content, note_of
from tests.shared.parts import in_order

PRETENDED = """
allnoconfig:
\tcp $(KCONFIG_ALLCONFIG) .config
linux:
\t@echo "  CC      init/main.o"
\t@echo "  CC      net/core/dev.o"
\tcp /bin/true linux
"""


MakeSource = Callable[..., None]


def before_patches(*patches: Path) -> dict[str, str]:
    """Files that the patches fit, by name: of each hunk the lines that it finds, in order. Those that a patch makes are not there."""
    files: dict[str, list[str]] = {}
    made = {
        line.removeprefix("+++ b/").split()[0]
        for patch in patches
        for before, line in pairwise(patch.read_text().splitlines())
        if before == "--- /dev/null"
    }
    for patch in patches:
        lines: list[str] = []
        for line in patch.read_text().splitlines(keepends=True):
            if line.startswith("--- a/"):
                lines = files.setdefault(line.removeprefix("--- a/").split()[0], [])
            elif line[0] in " -" and not line.startswith("--- "):
                lines.append(line[1:])
    return {name: "".join(lines) for name, lines in files.items() if name not in made}


PATCHED = before_patches(*kernel_source.patches_for((6, 12)))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("GRADWIRE_CACHE", str(folder))
    monkeypatch.setattr(kernel, "check_tools", lambda: None)
    # The agent, which every build compiles, is compiled in a third of the time.
    unoptimised = tuple("-O0" if flag.startswith("-O") else flag for flag in kernel_source.AGENT_FLAGS)
    monkeypatch.setattr(kernel_source, "AGENT_FLAGS", unoptimised)
    return folder


@pytest.fixture
def make_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeSource:
    def make(makefile: str, patched: Mapping[str, str] = PATCHED) -> None:
        tarball = tmp_path / "linux-source-6.12.tar.gz"
        with tarfile.open(tarball, "w:gz") as archive:
            for name, text in {"Makefile": makefile, **patched}.items():
                member = tarfile.TarInfo(f"linux-source-6.12/{name}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        monkeypatch.setenv("GRADWIRE_KERNEL_SOURCE", str(tarball))

    return make


def left_in(cache: Path) -> list[str]:
    """All files but the lock, and what is noted of the content of others."""
    return sorted(path.name for path in cache.iterdir() if path.name != "lock" and path.suffix != NOTE_SUFFIX)


def test_a_build_leaves_the_kernel_and_nothing_else(cache: Path, make_source: MakeSource) -> None:
    make_source(PRETENDED)
    assert cached_kernel() is None
    reports: list[tuple[int, int, str]] = []
    built = ensure_kernel(lambda done, total, text: reports.append((done, total, text)))
    assert built == cached_kernel()
    assert left_in(cache) == [built.name]
    assert has_noted_content(built)
    assert subprocess.run(["sha256sum", "--check", "--quiet", note_of(built)], cwd=cache, check=False).returncode == 0
    assert (1, kernel_source.COMPILED_OBJECTS, "init/main.o") in reports
    assert reports[-1][0] == reports[-1][1]


def test_a_built_kernel_is_not_built_again(cache: Path, make_source: MakeSource) -> None:
    make_source(PRETENDED)
    build_kernel(lambda *_: None)
    reports: list[str] = []
    ensure_kernel(lambda done, total, text: reports.append(text))
    assert reports == []


def test_a_damaged_kernel_is_built_anew_when_that_is_asked_for(cache: Path, make_source: MakeSource) -> None:
    make_source(PRETENDED)
    built = build_kernel(lambda *_: None)
    whole = built.read_bytes()
    built.write_bytes(whole[:-1])
    assert has_noted_content(built) is False
    assert build_kernel(lambda *_: None, anew=True) == built
    assert built.read_bytes() == whole
    assert has_noted_content(built)
    assert left_in(cache) == [built.name]


def test_a_kernel_is_renewed_where_it_came_from() -> None:
    assert "gradwire kernel --force" in renewal(Path("/cache/kernel"))
    assert "install gradwire again" in renewal(PREBUILT / "kernel")


def test_a_kernel_serves_on_when_its_source_is_removed(
    cache: Path, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_source(PRETENDED)
    built = build_kernel(lambda *_: None)
    monkeypatch.delenv("GRADWIRE_KERNEL_SOURCE")
    monkeypatch.setattr(kernel, "SOURCE_FOLDER", tmp_path / "empty")
    assert cached_kernel() == built


def test_a_failed_build_keeps_only_its_log(cache: Path, make_source: MakeSource) -> None:
    make_source(PRETENDED + "\t@echo 'dev.c:1: error: no such thing'; false\n")
    with pytest.raises(MachineFault, match=in_order("compiling", "dev.c:1: error:")):
        build_kernel(lambda *_: None)
    (log,) = left_in(cache)
    assert log.endswith(".log")
    assert "net/core/dev.o" in (cache / log).read_text()


def test_a_full_disk_in_the_middle_is_told_as_such(cache: Path, make_source: MakeSource) -> None:
    make_source(PRETENDED + "\t@echo 'as: cannot write: No space left on device'; false\n")
    with pytest.raises(MachineFault, match="no room left"):
        build_kernel(lambda *_: None)


def test_too_little_room_is_told_before_anything_is_unpacked(
    cache: Path, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_source(PRETENDED)
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    with pytest.raises(MachineFault, match="no room left"):
        build_kernel(lambda *_: None)
    assert left_in(cache) == []


def test_a_dropped_option_stops_the_build(cache: Path, make_source: MakeSource) -> None:
    make_source("allnoconfig:\n\tgrep -v OPENVSWITCH $(KCONFIG_ALLCONFIG) >.config\n")
    with pytest.raises(InternalFault, match="CONFIG_OPENVSWITCH=y became n"):
        build_kernel(lambda *_: None)


def test_the_kernel_is_built_from_the_patched_text(cache: Path, make_source: MakeSource) -> None:
    make_source(f"{PRETENDED}\t@cat arch/um/include/linux/time-internal.h arch/x86/um/user-offsets.c; false\n")
    with pytest.raises(MachineFault, match="compiling"):
        build_kernel(lambda *_: None)
    (log,) = left_in(cache)
    assert "#define TIMER_MULTIPLIER 16\n" in (cache / log).read_text()
    assert "DEFINE_LONGS(HOST_FP_SIZE, 12288);" in (cache / log).read_text()


@pytest.mark.parametrize("text", ["", "#define TIMER_MULTIPLIER 128\n"])
def test_a_source_that_a_patch_does_not_fit_stops_the_build(cache: Path, make_source: MakeSource, text: str) -> None:
    make_source(PRETENDED, {**PATCHED, "arch/um/include/linux/time-internal.h": text})
    with pytest.raises(InternalFault, match=in_order("clock-read.patch", "6.12")):
        build_kernel(lambda *_: None)


def test_a_patch_for_one_version_leaves_others_alone() -> None:
    names = {version: [path.name for path in kernel_source.patches_for(version)] for version in ((6, 12), (7, 2))}
    special = [
        "dcqcn.patch",
        "delays.patch",
        "exact-line.patch",
        "handed-namespaces.patch",
        "lines.patch",
        "one-timestamp.patch",
        "priority-flow-control.patch",
        "rdma-namespaces.patch",
        "register-state.patch",
        "turns.patch",
        "um-calls.patch",
        "um-free-reads.patch",
        "unchanging.patch",
        "virtual-cycle-counter.patch",
        "waits-in-memory.patch",
        "watching.patch",
        "work-takes-time.patch",
        "yields-and-polls.patch",
    ]
    assert names[6, 12] == [*names[7, 2], *special]
    general = ["clock-read.patch", "empty-poll.patch", "fault-around.patch", "net-prio.patch", "no-chance.patch"]
    assert names[7, 2] == general


def test_an_installations_own_kernel_is_taken_and_shared_through_the_cache(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRADWIRE_KERNEL_SOURCE", raising=False)
    monkeypatch.setattr(kernel, "SOURCE_FOLDER", tmp_path / "empty")
    installed = tmp_path / "prebuilt"
    installed.mkdir()
    digest = kernel_source.config_digest(kernel_source.CONFIG.read_text())
    own = installed / f"kernel-6.12-{digest}-01234567"
    own.write_text("a kernel")
    own.chmod(0o755)
    monkeypatch.setattr(kernel, "PREBUILT", installed)
    assert ensure_kernel(lambda *_: None) == own
    monkeypatch.setattr(kernel, "PREBUILT", tmp_path / "none")  # a clone
    shared = cached_kernel()
    assert shared == cache / own.name
    assert shared.read_text() == "a kernel"
    assert os.access(shared, os.X_OK)
    assert left_in(cache) == [own.name]
    assert has_noted_content(shared)


def test_where_only_the_agent_has_changed_it_alone_is_compiled(
    cache: Path, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_source(PRETENDED)
    first = build_kernel(lambda *_: None)
    agent = tmp_path / "agent"
    shutil.copytree(kernel_source.AGENT, agent, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    (agent / "more.c").write_text("int more(void);\nint more(void)\n{\n\treturn 1;\n}\n")
    monkeypatch.setattr(kernel_source, "AGENT", agent)
    steps: list[str] = []
    second = build_kernel(lambda _done, _total, step: steps.append(step))
    assert second != first
    assert not any(step.startswith("unpacking") for step in steps)
    bare = kernel_source.bare_digest(kernel_source.CONFIG.read_text())
    assert kernel_source.kernel_in(second, bare) == kernel_source.kernel_in(first, bare)
    assert kernel_source.agent_in(second) != kernel_source.agent_in(first)
    assert has_noted_content(second)
    assert os.access(second, os.X_OK)
    for damaged in (first, second):  # a kernel of which nobody knows that it is whole is built
        damaged.write_bytes(b"X" + damaged.read_bytes()[1:])
    (agent / "more.c").unlink()
    (agent / "less.c").write_text("")
    build_kernel(lambda _done, _total, step: steps.append(step))
    assert any(step.startswith("unpacking") for step in steps)


def test_a_source_with_other_content_than_its_package_or_at_first_is_not_built(
    cache: Path, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_source(PRETENDED)
    source = kernel_source.find_source()
    monkeypatch.setattr(kernel_source, "PACKAGES_KNOWN", tmp_path)
    listing = tmp_path / "linux-source-6.12.md5sums"
    for content, fits in ((source.tarball.read_bytes(), True), (b"other", False)):
        md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
        listing.write_text(f"{'0' * 32}  usr/share/doc/x\n{md5}  {str(source.tarball)[1:]}\n")
        assert (kernel_source.source_damage(source, cache) == "") is fits
    with pytest.raises(MachineFault, match=in_order("is damaged", "MD5", md5, "package")):
        build_kernel(lambda *_: None)
    listing.unlink()
    build_kernel(lambda *_: None)
    status = source.tarball.stat()
    flipped = bytearray(source.tarball.read_bytes())
    flipped[len(flipped) // 2] ^= 1
    source.tarball.write_bytes(flipped)
    os.utime(source.tarball, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(MachineFault, match=in_order("is damaged", "first built")):
        build_kernel(lambda *_: None, anew=True)


def test_an_installations_kernel_of_another_config_is_refused(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRADWIRE_KERNEL_SOURCE", raising=False)
    monkeypatch.setattr(kernel, "PREBUILT", tmp_path)
    (tmp_path / "kernel-6.12-00000000-01234567").touch()
    with pytest.raises(InternalFault, match="install gradwire again"):
        cached_kernel()


def test_a_kernel_outlives_an_update_of_its_source(
    cache: Path, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    make_source(PRETENDED)
    built = build_kernel(lambda *_: None)
    monkeypatch.delenv("GRADWIRE_KERNEL_SOURCE")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "linux-source-6.12.tar.xz").write_text("updated")
    monkeypatch.setattr(kernel, "SOURCE_FOLDER", tmp_path / "src")
    assert cached_kernel() == built


def test_an_interrupted_build_leaves_nothing(cache: Path, make_source: MakeSource) -> None:
    def interrupt(done: int, total: int, text: str) -> None:
        if done:
            raise KeyboardInterrupt

    make_source(PRETENDED)
    with pytest.raises(KeyboardInterrupt):
        build_kernel(interrupt)
    assert left_in(cache) == []


def test_what_a_killed_builder_left_is_removed(cache: Path, make_source: MakeSource) -> None:
    (cache / "build-of-yesterday" / "linux").mkdir(parents=True)
    make_source(PRETENDED)
    built = build_kernel(lambda *_: None)
    assert left_in(cache) == [built.name]


def test_the_second_of_two_builders_waits_and_takes_the_first_ones_kernel(cache: Path, make_source: MakeSource) -> None:
    make_source(PRETENDED)
    built = build_kernel(lambda *_: None)
    built.rename(cache / "hidden")
    reports: list[str] = []
    with (cache / "lock").open("w") as first_builder:
        fcntl.flock(first_builder, fcntl.LOCK_EX)

        def first_ends(done: int, total: int, text: str) -> None:
            reports.append(text)
            (cache / "hidden").rename(built)
            fcntl.flock(first_builder, fcntl.LOCK_UN)

        assert build_kernel(first_ends) == built
    (report,) = reports
    assert "waiting" in report


def test_a_cache_that_cannot_be_written_is_told(
    cache: Path, make_source: MakeSource, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    make_source(PRETENDED)
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path / "file"))
    with pytest.raises(MachineFault, match="set GRADWIRE_CACHE"):
        build_kernel(lambda *_: None)


def test_kconfig_files_and_user_mode_code_are_unpacked_and_other_machines_code_is_not(tmp_path: Path) -> None:
    kept = ["arch/um/kernel/um_arch.c", "arch/x86/um/fault.c", "arch/arm/Kconfig", "sound/Kconfig", "Documentation/Kconfig",
            "drivers/net/veth.c", "include/sound/core.h", "drivers/gpu/drm/Kconfig"]  # fmt: skip
    left = ["arch/arm/mm/fault.c", "sound/core/pcm.c", "Documentation/networking/ip.rst", "drivers/gpu/drm/a.c"]
    tarball = tmp_path / "linux-source-6.12.tar.gz"
    with tarfile.open(tarball, "w:gz") as archive:
        for name in kept + left:
            archive.addfile(tarfile.TarInfo(f"linux-source-6.12/{name}"))
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(unpack_command(tarball, tree), check=True)
    assert {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()} == set(kept)
