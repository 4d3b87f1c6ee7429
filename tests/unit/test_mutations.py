"""Faults put in on purpose that need no kernel: each is found as outcomes.md says, and docs/mutations.md has their counts."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gradwire.analysis.bounds import transfers
from gradwire.datatypes.network_counts import BandCount, NetworkCounts
from gradwire.datatypes.records import AgentSummary, PointRecord
from gradwire.datatypes.wire.framing import Framing
from gradwire.network.fabric import band_of_class
from tests.mutations.bases import compiled, plan_of
from tests.mutations.fault import FAMILIES, FOLDER, STAR, faults_of, refuse_broken, refuse_unused, replace_in
from tests.mutations.page import GUIDE, HARMLESS, NOT_CAUGHT, PAGE, SCORE, kind_of, rows_of, score, verdict_on
from tests.mutations.trial import Ran, is_among, judged, of_a_plan, of_a_record
from tests.mutations.unseen import REASONS
from tests.shared.simulation import replay

ITERATIONS = 4
SAID = rows_of(PAGE.read_text())


def left_without_a_network() -> Ran:
    """What `star` would leave, by the simulated network and a count of its plan's frames."""
    plan, fabric = plan_of(STAR), compiled(STAR).fabric
    moved, counts = transfers(plan), dict[tuple[str, int], int]()
    for op, src, dst, size_bytes in zip(moved.op, moved.src, moved.dst, moved.size_bytes, strict=True):
        band = 0 if plan.ops.traffic_class[op] < 0 else band_of_class(int(plan.ops.traffic_class[op]))
        for port in (f"h{src + 1}-eth0", f"s1-eth{dst + 1}"):
            counts[port, band] = counts.get((port, band), 0) + round(size_bytes * 1514 / 1448) * ITERATIONS
    bands = tuple(BandCount(port, band, size, size // 1514, 0) for (port, band), size in counts.items())
    messages = len(moved.op) * ITERATIONS
    size_bytes = int(moved.size_bytes.sum()) * ITERATIONS + messages * Framing(len(plan.workers)).header_bytes
    agent = AgentSummary(tuple(range(fabric.hosts)), messages, messages, size_bytes, size_bytes, 500, 500)
    network = NetworkCounts(bands, 0, 0, 0, 0)
    record = PointRecord("virtual", ITERATIONS, 1, (agent,), network, 1.0, 0.0, "prio, fq")
    return judged(STAR, plan, replay(plan, ITERATIONS, late_ns=400), record)


@pytest.fixture(scope="module")
def left() -> Ran:
    return left_without_a_network()


def test_at_least_six_times_twenty_faults_are_on_the_page() -> None:
    faults = {(family, name) for family in FAMILIES for name in faults_of(family)}
    assert set(SAID) == faults
    assert min(len(faults_of(family)) for family in FAMILIES) == 20
    for page in (PAGE, GUIDE):
        (found,) = SCORE.findall(page.read_text())
        assert found == score(SAID.values())


def test_the_guide_has_the_counts_of_each_family_and_says_what_is_not_caught() -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in GUIDE.read_text().splitlines() if "|" in line]
    counts = [
        [int(cell or 0) for cell in (caught, *others)] for _, _, caught, _, *others in rows[2 : 2 + len(FAMILIES)]
    ]
    kinds = {family: [kind_of(said) for (of, _), said in SAID.items() if of == family] for family in FAMILIES}
    assert counts == [[kinds[family].count(kind) for kind in ("caught", HARMLESS, NOT_CAUGHT)] for family in FAMILIES]
    assert sum(len(row[0].split("; ")) for row in rows if len(row) == 3) - 2 == len(REASONS)


def test_what_is_not_caught_has_a_reason() -> None:
    missed = {key for key, said in SAID.items() if kind_of(said) == NOT_CAUGHT}
    assert missed == set(REASONS)
    assert all(REASONS[key] in SAID[key] for key in missed)


@pytest.mark.parametrize("name", faults_of("plans"))
def test_a_fault_in_a_plan_is_found_as_the_page_says(name: str) -> None:
    assert kind_of(verdict_on(of_a_plan(faults_of("plans")[name]))) == kind_of(SAID["plans", name])


def test_without_a_fault_nothing_is_found(left: Ran) -> None:
    assert left.verdict.summary == "valid"
    assert left.log is not None
    assert np.unique(left.log.iteration).tolist() == list(range(ITERATIONS))


@pytest.mark.parametrize("name", faults_of("logs"))
def test_a_fault_in_a_log_is_found_as_the_page_says(name: str, left: Ran) -> None:
    found = of_a_record(faults_of("logs")[name], left, compiled(STAR).fabric)
    assert kind_of(verdict_on(found)) == kind_of(SAID["logs", name])


def test_a_time_that_the_sound_run_takes_as_well_is_the_same() -> None:
    sound_s = np.array([1.0, 1.003])
    assert is_among(1.0035, sound_s)
    assert is_among(0.9991, sound_s)
    assert not is_among(1.005, sound_s)
    assert not is_among(0.998, sound_s)


def test_a_fault_whose_own_code_fails_has_not_been_caught() -> None:
    told = 'Traceback:\n  File "/gradwire/topo/tc.py", line 1, in port\n  File "/tests/mutations/queues.py", line 2, in queue\nTypeError: 5'
    with pytest.raises(AssertionError, match="TypeError: 5"):
        refuse_broken(told)
    refuse_broken(f'{told}\n  File "/gradwire/topo/command.py", line 3, in run\nMachineFault: tc failed')


def test_a_fault_that_nothing_meets_is_not_harmless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("some")
    setattr(module, "size", lambda: 1)  # noqa: B010
    monkeypatch.setenv(FOLDER, str(tmp_path))
    replace_in(module, "size", lambda original: lambda: original() + 1)
    with pytest.raises(AssertionError, match="nothing meets it"):
        refuse_unused(tmp_path, "larger")
    assert module.size() == 2
    refuse_unused(tmp_path, "larger")
