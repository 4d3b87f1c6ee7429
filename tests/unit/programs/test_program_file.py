"""Programs that this machine cannot execute are refused before anything boots."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

import pytest

from gradwire.faults import InputFault
from gradwire.programs.program_file import check_folder, check_program


def made(path: Path, content: bytes, mode: int = 0o755) -> str:
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def elf(machine: int, *, is_little: bool = True) -> bytes:
    order: Literal["little", "big"] = "little" if is_little else "big"
    return b"\x7fELF\x02" + (b"\x01" if is_little else b"\x02") + bytes(12) + machine.to_bytes(2, order) + bytes(44)


def test_programs_of_this_machine_and_scripts_are_taken(tmp_path: Path) -> None:
    check_program([sys.executable, "-c", ""], "")
    check_program(["sh"], "/bin:/usr/bin")
    check_program([made(tmp_path / "script", b"#!/bin/sh\n")], "")


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (elf(0xB7), 0o755, "is built for AArch64, and this machine is"),
        (elf(0x15, is_little=False), 0o755, "is built for PowerPC"),
        (elf(0x1234), 0o755, "ELF machine 4660"),
        (b"#!/bin/sh\n", 0o644, "`chmod \\+x` allows it"),
    ],
)
def test_what_cannot_be_executed_is_refused_with_the_reason(
    tmp_path: Path, content: bytes, mode: int, said: str
) -> None:
    with pytest.raises(InputFault, match=said):
        check_program([made(tmp_path / "program", content, mode)], "")


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=r"no-such: no such program on the PATH"):
        check_program(["no-such"], "/bin")
    with pytest.raises(InputFault, match="no such file"):
        check_program([str(tmp_path / "none")], "")
    with pytest.raises(InputFault, match="is a folder"):
        check_program([str(tmp_path)], "")


def test_folders_that_the_kernel_has_of_its_own_are_refused(tmp_path: Path) -> None:
    check_folder(tmp_path)
    check_folder(Path("/running"))
    with pytest.raises(InputFault, match="/dev is not seen in the kernel"):
        check_folder(Path("/dev/shm"))
