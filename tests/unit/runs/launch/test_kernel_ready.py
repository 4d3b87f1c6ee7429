"""Before any point starts: the compiled agent of the kernel's file, and the header that it is compiled with, are what Python expects."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gradwire.agents.compiled import border
from gradwire.faults import InternalFault, MachineFault
from gradwire.runs.launch import kernel as module
from gradwire.runs.launch.kernel import make_kernel_ready, refuse_other_border
from gradwire.runs.screen import Silent
from gradwire.vm.kernel_source import AGENT_FLAGS, agent_sources, attach_agent
from tests.shared.parts import in_order


def kernel_with_agent(folder: Path, digest: str) -> Path:
    """A kernel's file whose agent is compiled from the sources, with this digest in its header."""
    for path in agent_sources():
        (folder / path.name).write_text(path.read_text().replace(f"{border.border_digest():#018x}", digest))
    agent = folder / "agent.so"
    subprocess.run(["gcc", *AGENT_FLAGS, "-o", agent, *sorted(folder.glob("*.c"))], check=True)
    kernel = folder / "kernel-6.12-0-0"
    kernel.write_bytes(b"kernel")
    attach_agent(kernel, agent, "0" * 8)
    return kernel


def test_an_agent_of_this_border_is_taken(tmp_path: Path) -> None:
    refuse_other_border(kernel_with_agent(tmp_path, f"{border.border_digest():#018x}"))


def test_an_agent_of_another_border_is_the_machines_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_with_agent(tmp_path, "0x0123456789abcdef")
    monkeypatch.setattr(module, "cached_kernel", lambda: kernel)
    with pytest.raises(MachineFault, match=in_order("border.h", "`gradwire kernel --force`")) as refused:
        make_kernel_ready(Silent())
    assert refused.value.exit_status == 3


def test_a_header_that_python_does_not_say_is_a_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a change to a constant that both sides share: neither the kernel that is there nor a new one could be used."""
    header = tmp_path / "border.h"
    header.write_text(border.header().replace("INLINE_BYTES", "INLINED_BYTES"))
    monkeypatch.setattr(border, "HEADER", header)
    monkeypatch.setattr(module, "cached_kernel", lambda: pytest.fail("the header is looked at first"))
    with pytest.raises(
        InternalFault, match=in_order("border.h:", f"`{border.REMEDY}`", "`gradwire kernel`")
    ) as refused:
        make_kernel_ready(Silent())
    assert refused.value.exit_status == 4


def test_a_kernel_without_an_agent_is_taken(tmp_path: Path) -> None:
    """Such as one that a user built; plans are replayed in Python then."""
    kernel = tmp_path / "kernel"
    kernel.write_bytes(b"kernel" * 100)
    refuse_other_border(kernel)
