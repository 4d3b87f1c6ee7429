"""What is told of a kernel before it boots. Real boots are in tests/end_to_end/machine/test_trial.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import MachineFault
from gradwire.vm import trial
from gradwire.vm.batch_job import TIME_LIMIT
from gradwire.vm.kernel_death import DeathCause, KernelFault, Surroundings
from gradwire.vm.kernel_source import attach_agent, note_content
from gradwire.vm.trial import ELF_HEADER, ELF_SEGMENT, HEADLINE, X86_64, kernel_file_damage, try_kernel
from tests.shared.parts import in_order, tells

BODY_BYTES = 1000


def elf(machine: int = X86_64) -> bytes:
    """A program of one segment."""
    at = ELF_HEADER.size
    header = ELF_HEADER.pack(b"\x7fELF", 2, 1, 2, machine, 1, 0, at, 0, 0, at, ELF_SEGMENT.size, 1, 64, 0, 0)
    return header + ELF_SEGMENT.pack(1, 5, at + ELF_SEGMENT.size, 0, 0, BODY_BYTES, BODY_BYTES, 0) + bytes(BODY_BYTES)


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel"
    path.write_bytes(elf())
    path.chmod(0o755)
    agent = tmp_path / "agent.so"
    agent.write_bytes(b"an agent")
    attach_agent(path, agent, "01234567")
    return path


def test_a_whole_program_is_no_damage_with_an_agent_or_without(kernel: Path) -> None:
    assert kernel_file_damage(kernel) is None
    kernel.write_bytes(elf())
    assert kernel_file_damage(kernel) is None


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"", ["not a kernel", "0 bytes"]),
        (b"#!/bin/sh\n" * 20, ["not a kernel", "200 bytes", "b'#!/bin/s'"]),
        (elf()[:40], ["not a kernel", "40 bytes"]),
        (elf()[:-1], ["cut short", f"{len(elf()) - 1} of {len(elf())} bytes"]),
        (elf()[: ELF_HEADER.size + 10], ["cut short"]),
        (elf() + b"an ag", ["cut short", "agent"]),
        (elf(machine=183), ["x86-64", "183"]),
    ],
)
def test_a_damaged_file_is_told_before_anything_boots(kernel: Path, content: bytes, seen: list[str]) -> None:
    kernel.write_bytes(content)
    with pytest.raises(KernelFault) as raised:
        try_kernel(kernel)
    assert raised.value.cause.name == "kernel file"
    assert tells(raised.value.cause.what, *seen)
    assert "`gradwire kernel --force`" in raised.value.cause.remedy


def test_a_file_without_the_right_to_be_run_or_read(kernel: Path) -> None:
    kernel.chmod(0o644)
    assert "not executable" in str(kernel_file_damage(kernel))
    kernel.unlink()
    assert "No such file" in str(kernel_file_damage(kernel))


def test_a_flipped_bit_is_told_where_the_content_is_noted(kernel: Path) -> None:
    note_content(kernel)
    assert kernel_file_damage(kernel) is None
    content = bytearray(kernel.read_bytes())
    content[len(content) // 2] ^= 1
    kernel.write_bytes(content)
    assert "another content" in str(kernel_file_damage(kernel))


def test_a_kernel_that_hangs_is_told_to_be_built_anew(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, KernelFault("ended", DeathCause(TIME_LIMIT, "what", "give it more")))
    with pytest.raises(KernelFault, match=in_order("60 s", "gradwire kernel --force")):
        try_kernel(kernel)


def machine(monkeypatch: pytest.MonkeyPatch, result: int | Exception) -> None:
    def run_virtual(*_: Any, **__: Any) -> int:
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(trial, "run_virtual", run_virtual)


def test_what_the_kernel_died_of_is_told_as_what_hits_every_point(
    kernel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, KernelFault("it died in a point", DeathCause("name", "what", "remedy")))
    with pytest.raises(KernelFault, match=f"^{HEADLINE}: what\nremedy: remedy$"):
        try_kernel(kernel)


@pytest.mark.parametrize("nested", [True, False])
def test_too_little_room_is_told_unless_this_is_a_kernel_of_gradwires(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, nested: bool
) -> None:
    machine(monkeypatch, MachineFault("no room"))
    monkeypatch.setattr(Surroundings, "here", lambda: Surroundings(nested=nested))
    with pytest.raises(MachineFault, match="machine itself" if nested else "^no room$"):
        try_kernel(kernel)


@pytest.mark.parametrize(
    ("result", "seen"),
    [
        (FileNotFoundError(2, "No such file or directory", "setpriv"), "setpriv is missing: run `.*util-linux`"),
        (PermissionError(13, "Permission denied", "/tmp/x"), "set TMPDIR"),
        (127, "ended with status 127"),
    ],
)
def test_whatever_else_goes_wrong_is_a_fault_of_the_machine(
    kernel: Path, monkeypatch: pytest.MonkeyPatch, result: int | Exception, seen: str
) -> None:
    machine(monkeypatch, result)
    with pytest.raises(MachineFault, match=seen):
        try_kernel(kernel)


def test_the_wall_time_of_the_boot_comes_back(kernel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 0)
    assert 0 <= try_kernel(kernel) < trial.TRIAL_LIMIT_S
