"""Which source a kernel is built from, what its cache name depends on, and what a build's output means."""

import re
from pathlib import Path

import pytest

from gradwire.faults import InputFault, MachineFault
from gradwire.vm import kernel_source
from gradwire.vm.kernel_source import (
    CONFIG,
    KernelSource,
    agent_in,
    agent_sources,
    attach_agent,
    bare_digest,
    build_fault,
    compiled_object,
    config_digest,
    find_source,
    kernel_in,
    kernel_name,
    lost_options,
    newest_source,
    wanted_options,
)
from gradwire.vm.packages import install_command, source_remedy
from tests.shared.parts import tells


def tarballs(*versions: str) -> list[Path]:
    return [Path(f"/usr/src/linux-source-{version}.tar.xz") for version in versions]


def test_the_newest_source_is_chosen_by_version_and_not_by_name() -> None:
    source = newest_source(tarballs("6.12", "6.9", "6.100", "6.2"))
    assert source is not None
    assert source.version == (6, 100)
    assert source.version_text == "6.100"


def test_sources_that_are_too_old_or_other_files_do_not_count() -> None:
    others = [Path("/usr/src/linux-config-6.12.tar.xz"), Path("/usr/src/linux-source-6.12"), *tarballs("6.1", "6.11")]
    assert newest_source(others) is None


def test_the_source_folder_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GRADWIRE_KERNEL_SOURCE", raising=False)
    monkeypatch.setattr(kernel_source, "SOURCE_FOLDER", tmp_path)
    with pytest.raises(MachineFault, match=re.escape(source_remedy("GRADWIRE_KERNEL_SOURCE"))):
        find_source()
    (tmp_path / "linux-source-6.12.tar.xz").touch()
    (tmp_path / "linux-source-6.16.tar.xz").touch()
    assert find_source().version == (6, 16)


def test_the_variable_overrides_the_source_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tarball = tmp_path / "linux-source-7.2.tar.xz"
    tarball.touch()
    monkeypatch.setenv("GRADWIRE_KERNEL_SOURCE", str(tarball))
    assert find_source() == KernelSource(tarball, (7, 2))


@pytest.mark.parametrize("name", ["absent/linux-source-6.12.tar.xz", "linux-6.12.tar.xz", "linux-source-6.1.tar.xz"])
def test_a_wrong_variable_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if "/" not in name:
        (tmp_path / name).touch()
    monkeypatch.setenv("GRADWIRE_KERNEL_SOURCE", str(tmp_path / name))
    with pytest.raises(InputFault, match="GRADWIRE_KERNEL_SOURCE="):
        find_source()


def test_the_config_digest_follows_options_and_not_comments() -> None:
    text = "# why\nCONFIG_A=y\n# CONFIG_B is not set\n"
    assert config_digest(text) == config_digest("CONFIG_A=y\n\n# other words\n# CONFIG_B is not set\n")
    assert config_digest(text) != config_digest("CONFIG_A=y\n")
    assert config_digest(text) != config_digest("CONFIG_A=17\n# CONFIG_B is not set\n")


def test_the_kernel_name_follows_the_tarball(tmp_path: Path) -> None:
    source = KernelSource(tmp_path / "linux-source-6.12.tar.xz", (6, 12))
    source.tarball.write_bytes(b"one")
    first = kernel_name(source, "CONFIG_A=y")
    assert first.startswith("kernel-6.12-")
    assert first == kernel_name(source, "CONFIG_A=y")
    source.tarball.write_bytes(b"another")
    assert first != kernel_name(source, "CONFIG_A=y")


def test_options_that_kconfig_dropped_are_named() -> None:
    wanted = wanted_options(
        'CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C="text"\n# CONFIG_GONE is not set\nCONFIG_D=17\n'
    )
    assert lost_options(wanted, {"CONFIG_A": "y", "CONFIG_C": '"text"', "CONFIG_D": "17", "CONFIG_E": "y"}) == []
    assert lost_options(wanted, {"CONFIG_B": "y", "CONFIG_C": '"text"', "CONFIG_D": "16"}) == [
        "CONFIG_A=y became n",
        "CONFIG_B=n became y",
        "CONFIG_D=17 became 16",
    ]


def test_the_config_states_virtual_time_and_open_vswitch() -> None:
    wanted = wanted_options(CONFIG.read_text())
    assert wanted["CONFIG_UML_TIME_TRAVEL_SUPPORT"] == "y"
    assert wanted["CONFIG_OPENVSWITCH"] == "y"
    assert wanted["CONFIG_SMP"] is None


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("  CC      net/ipv4/tcp.o", "net/ipv4/tcp.o"),
        ("  AR      net/ipv4/built-in.a", None),
        ("  HOSTCC  scripts/kallsyms", None),
        ("net/ipv4/tcp.c:1: error:   CC  x", None),
    ],
)
def test_compiled_objects_are_counted_from_the_output_of_make(line: str, name: str | None) -> None:
    assert compiled_object(line) == name


def test_a_full_disk_is_told_with_folder_and_need(tmp_path: Path) -> None:
    lines = ["x.c", "tar: linux/a.c: Cannot write: No space left on device", "tar: Exiting"]
    message = str(build_fault("unpacking", lines, tmp_path / "kernel.log"))
    assert tells(message, "no room left", tmp_path, f"{kernel_source.BUILD_ROOM_MB} MiB")


def test_a_failed_step_is_told_with_its_log_and_last_lines(tmp_path: Path) -> None:
    message = str(build_fault("compiling", ["first", *"abcd", "x.c:1: error: no"], tmp_path / "kernel.log"))
    assert tells(message, "compiling", tmp_path / "kernel.log", "x.c:1: error: no")
    assert "first" not in message


def test_missing_tools_are_told_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr("shutil.which", lambda name: None if name in {"flex", "xz"} else f"/usr/bin/{name}")
    with pytest.raises(MachineFault, match=f"flex, xz.*{install_command('flex', 'xz')}"):
        kernel_source.check_tools()


def test_other_architectures_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(MachineFault, match="aarch64"):
        kernel_source.check_tools()


def test_the_agent_at_the_end_of_a_kernels_file(tmp_path: Path) -> None:
    kernel, agent = tmp_path / "kernel", tmp_path / "agent.so"
    kernel.write_bytes(b"a program")
    assert agent_in(kernel) is None
    agent.write_bytes(b"an agent" * 1000)
    attach_agent(kernel, agent, "01234567")
    assert agent_in(kernel) == agent.read_bytes()
    assert kernel_in(kernel, "01234567") == b"a program"
    assert kernel_in(kernel, "76543210") is None
    whole = kernel.read_bytes()
    assert whole.startswith(b"a program")
    for damaged in (b"", whole[:-1], whole[-20:], whole[-2000:]):
        kernel.write_bytes(damaged)
        assert agent_in(kernel) is None
        assert kernel_in(kernel, "01234567") is None


def test_a_change_of_the_agent_is_a_change_of_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = config_digest("CONFIG_A=y")
    for path in agent_sources():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(kernel_source, "AGENT", tmp_path)
    assert config_digest("CONFIG_A=y") == before
    bare = bare_digest("CONFIG_A=y")
    (tmp_path / "loop.c").write_text("int nothing;\n")
    assert config_digest("CONFIG_A=y") != before
    assert bare_digest("CONFIG_A=y") == bare != bare_digest("CONFIG_A=17")
