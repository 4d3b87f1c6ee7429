"""Findings from what a machine shows."""

import os
from pathlib import Path

import pytest

from gradwire.datatypes.machine_size import DEFAULT_MEMORY_MB
from gradwire.faults import MachineFault
from gradwire.vm import doctor
from gradwire.vm.doctor import (
    PROGRAMS,
    TEST_PROGRAMS,
    addresses_finding,
    free_mb,
    kernel_finding,
    kernel_findings,
    machine_finding,
    memory_finding,
    openvswitch_finding,
    packages_findings,
    program_findings,
    wall_findings,
)
from gradwire.vm.kernel_death import DeathCause
from gradwire.vm.kernel_source import KernelSource, note_content, note_source
from gradwire.vm.packages import install_command


def test_another_architecture_is_a_fault_of_the_machine() -> None:
    assert machine_finding("x86_64", 2).ok
    assert not machine_finding("aarch64", 2).ok


def test_missing_packages_are_named_one_by_one() -> None:
    assert [finding.ok for finding in packages_findings(lambda _: True)] == [True]
    (finding,) = packages_findings(lambda name: name != "os_ken")
    assert (finding.name, finding.ok, finding.mend) == ("Python package os_ken", False, "make setup")


def test_missing_programs_are_mended_by_their_package() -> None:
    findings = {
        finding.name: finding
        for finding in program_findings(lambda name: None if name == "setpriv" else f"/bin/{name}", PROGRAMS)
    }
    assert not findings["setpriv"].ok
    assert findings["setpriv"].mend.endswith(" util-linux")
    assert findings["tc"].ok
    assert findings["tc"].mend == ""
    assert findings["tc"].required


def test_what_only_tests_call_is_not_required() -> None:
    (finding,) = program_findings(lambda _: None, TEST_PROGRAMS, only_for="tests")
    assert (finding.name, finding.ok, finding.required) == ("tshark", False, False)
    assert "only for tests" in finding.detail


def test_open_vswitch_needs_its_schema_too(tmp_path: Path) -> None:
    schema = tmp_path / "vswitch.ovsschema"
    finding = openvswitch_finding(lambda name: f"/bin/{name}", schema)
    assert not finding.ok
    assert str(schema) in finding.detail
    schema.touch()
    assert openvswitch_finding(lambda name: f"/bin/{name}", schema).ok
    assert "ovs-ofctl" in openvswitch_finding(lambda name: None if name == "ovs-ofctl" else name, schema).detail


def test_source_and_tools_are_required_only_while_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_source() -> None:
        raise MachineFault("no kernel source: run `apt-get install ...`")

    monkeypatch.setattr(doctor, "find_source", no_source)
    monkeypatch.setattr(doctor, "missing_tools", lambda: ["flex", "xz"])
    monkeypatch.setattr(doctor, "kernel_file_damage", lambda _: None)
    for kernel, required in ((None, True), (Path("/cache/kernel-6.12"), False)):
        monkeypatch.setattr(doctor, "cached_kernel", lambda kernel=kernel: kernel)
        findings = {finding.name: finding for finding in kernel_findings()}
        assert not findings["kernel source"].ok
        assert findings["kernel source"].required is required
        assert findings["build tools"].mend == install_command("flex", "xz")
        assert findings["virtual-time kernel"].ok is not required


def test_a_damaged_kernel_is_no_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    damage = DeathCause("kernel file", "it has another content", "build it again")
    monkeypatch.setattr(doctor, "kernel_file_damage", lambda _: damage)
    finding = kernel_finding(tmp_path / "kernel")
    assert (finding.ok, finding.required, finding.detail, finding.mend) == (False, True, damage.what, damage.remedy)


@pytest.mark.parametrize(("noted", "said"), [(True, "with the content that"), (False, "no content is noted")])
def test_whether_a_kernels_content_is_noted_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, noted: bool, said: str
) -> None:
    monkeypatch.setattr(doctor, "kernel_file_damage", lambda _: None)
    (tmp_path / "kernel").write_text("a kernel")
    if noted:
        note_content(tmp_path / "kernel")
    assert said in kernel_finding(tmp_path / "kernel").detail


def test_a_damaged_source_is_told_before_it_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = KernelSource(tmp_path / "linux-source-6.12.tar.xz", (6, 12))
    source.tarball.write_text("as it came")
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "find_source", lambda: source)
    monkeypatch.setattr(doctor, "cached_kernel", lambda: None)
    assert next(finding for finding in kernel_findings() if finding.name == "kernel source").ok
    note_source(source, tmp_path)
    status = source.tarball.stat()
    source.tarball.write_text("as it CAME")
    os.utime(source.tarball, ns=(status.st_atime_ns, status.st_mtime_ns))
    finding = next(finding for finding in kernel_findings() if finding.name == "kernel source")
    assert not finding.ok
    assert "is damaged" in finding.detail


def test_memory_needs_room_for_one_kernel_and_tells_for_how_many_there_is() -> None:
    assert "2 kernels" in memory_finding({Path("/dev/shm"): 2 * DEFAULT_MEMORY_MB + 1}).detail
    assert memory_finding({Path("/dev/shm"): 64, Path("/tmp"): DEFAULT_MEMORY_MB}).detail.startswith("/tmp")
    finding = memory_finding({Path("/dev/shm"): 64})
    assert not finding.ok
    assert "remount" in finding.mend


def test_addresses_at_random_are_told_and_forbid_nothing() -> None:
    finding = addresses_finding(are_fixed=False)
    assert (finding.ok, finding.required) == (False, False)
    assert "personality" in finding.mend
    assert addresses_finding(are_fixed=True).ok


def test_room_is_looked_for_where_a_folder_will_be(tmp_path: Path) -> None:
    assert free_mb(tmp_path / "not" / "yet") > 0


def test_the_wall_clock_is_never_required(monkeypatch: pytest.MonkeyPatch) -> None:
    (finding,) = wall_findings(root=False)
    assert not finding.ok
    assert not finding.required
    monkeypatch.setattr(doctor, "_works", lambda command: "prio" not in command)
    findings = {finding.name: finding for finding in wall_findings(root=True)}
    assert findings["wall clock: sch_htb"].ok
    assert findings["wall clock: sch_prio"].mend == "modprobe sch_prio"
    assert not any(finding.required for finding in findings.values())
