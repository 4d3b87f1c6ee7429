"""What a worker keeps: the kernel and plans that it was sent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gradwire.datatypes.plan import Plan
from gradwire.faults import InternalFault, MachineFault
from gradwire.runs.executing.cluster.orders import plan_file, take_kernel, take_plan
from gradwire.vm.kernel import kernel_named
from gradwire.vm.kernel_source import has_noted_content
from tests.shared.parts import in_order
from tests.unit.runs.test_campaign import planned_runs


def test_a_kernel_is_kept_once_and_can_be_booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path / "cache"))
    assert kernel_named("kernel-x") is None
    take_kernel("kernel-x", b"as built")
    take_kernel("kernel-x", b"sent again")
    kept = kernel_named("kernel-x")
    assert kept == tmp_path / "cache" / "kernel-x"
    assert kept.read_bytes() == b"as built"
    assert os.access(kept, os.X_OK)
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["kernel-x", "kernel-x.sha256"]
    assert has_noted_content(kept)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRADWIRE_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(MachineFault, match=in_order("kernel-x:", "GRADWIRE_CACHE")):
        take_kernel("kernel-x", b"as built")


def test_a_plan_is_kept_if_it_has_the_digest_that_was_asked_for(tmp_path: Path) -> None:
    plan = next(iter(planned_runs(tmp_path)[0].plans.values()))
    plan.save(tmp_path / "sent.npz")
    content = (tmp_path / "sent.npz").read_bytes()
    take_plan(plan.digest(), content, tmp_path)
    assert Plan.load(plan_file(tmp_path, plan.digest())).digest() == plan.digest()
    with pytest.raises(InternalFault, match=plan.digest()):
        take_plan("another", content, tmp_path)
    assert [path.name for path in plan_file(tmp_path, "any").parent.iterdir()] == [f"{plan.digest()}.npz"]
