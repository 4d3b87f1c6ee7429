"""The tables of `gradwire why`: nothing is lost in them, however short they are."""

from __future__ import annotations

import pytest

from gradwire.analysis.timeline.critical_path import CriticalPath, critical_path
from gradwire.analysis.timeline.path_tables import MOST_LINES, contributions_table, parts_table, path_table
from gradwire.network.fabric import Fabric
from gradwire.workloads.job import Cluster
from gradwire.workloads.models.profile import LayerKind
from tests.shared.parts import tells
from tests.shared.simulation import replay
from tests.shared.small_jobs import compiled, job_of, profile_of


@pytest.fixture(scope="module")
def path() -> CriticalPath:
    """Of a model with many layers, so that its path has many segments."""
    profile = profile_of([(LayerKind.CONV, [40 * (number + 1)]) for number in range(30)])
    (plan,) = compiled(job_of(profile, Cluster(3, 2)), "vanilla", {}).values()
    return critical_path(plan, replay(plan, 2), 1, Fabric(hosts=3, rate_bps=1e9))


def summed(column: int, rows: tuple[tuple[str, ...], ...]) -> float:
    return sum(float(row[column]) for row in rows)


def test_parts_sum_to_the_iteration(path: CriticalPath) -> None:
    *parts, whole = parts_table(path).rows
    assert whole[:3] == ("iteration", f"{path.duration_ns / 1e6:.3f}", "100.0%")
    assert summed(1, tuple(parts)) == pytest.approx(float(whole[1]), abs=1e-2)
    assert [row[0].split()[-1] for row in parts][:4] == ["compute", "line", "port", "queue"]


def test_all_segments_or_the_longest_and_sums_of_the_others(path: CriticalPath) -> None:
    every, short = path_table(path, None), path_table(path)
    assert len(every.rows) == len(path.merged()) > MOST_LINES >= len(short.rows) > MOST_LINES - 3
    for table in (every, short):
        assert summed(2, table.rows) == pytest.approx(path.duration_ns / 1e6, abs=0.1)
        begins = [float(row[1]) for row in table.rows]
        assert begins == sorted(begins)
    assert tells(short.foot, f"{len(every.rows)} segments", "--all")
    assert "--all" not in every.foot
    assert any("shorter segment" in row[0] for row in short.rows)
    longest = max(every.rows, key=lambda row: float(row[2]))
    assert longest in short.rows


def test_contributions_come_largest_first(path: CriticalPath) -> None:
    times = [float(row[2]) for row in contributions_table(path).rows]
    assert times == sorted(times, reverse=True)
    assert len(times) == 10
    assert any("h1 out" in row[4] and "busy" in row[4] for row in contributions_table(path, 100).rows)
