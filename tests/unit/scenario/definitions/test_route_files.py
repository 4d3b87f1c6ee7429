"""Tables of routes in files: TOML and CSV say the same, the copy of a scenario needs no file, and mistakes are named with row and key."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli_w

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.network.routing import Route, Routing
from gradwire.scenario.loading import load_scenario, scenario_of
from gradwire.scenario.resolution.compilation import compile_point
from tests.shared.parts import in_order

TEXT = """
title = "A ring of switches whose packets go one way around"
cluster.workers = 3
fabric = {{ rate = "10gbit", topology = "ring", switches = 3, {fabric} }}
model = {{ name = "alexnet", device = "k40" }}
strategy.name = "ring"
"""
STATIC = 'routing = "static", routes = "{file}"'
TOML = """
[[route]]
switch = "s1"
destination = "*"
next = "s2"
[[route]]
switch = "s2"
destination = "*"
next = ["s3"]
[[route]]
switch = "s3"
destination = "*"
next = "s3-eth2 s1"
"""
CSV = "switch, destination, next\n\ns1,*,s2\ns2,*,s3\ns3,*,s3-eth2 s1\n"
ROWS = (Route("s1", "*", ("s2",)), Route("s2", "*", ("s3",)), Route("s3", "*", ("s3-eth2", "s1")))


def fabric_of(folder: Path, name: str, content: str | None) -> Fabric:
    if content is not None:
        (folder / name).write_text(content)
    (folder / "static.toml").write_text(TEXT.format(fabric=STATIC.format(file=name)))
    return compiled(folder)


def compiled(folder: Path) -> Fabric:
    (point,) = load_scenario(folder / "static.toml").points
    return compile_point(point.section).fabric


@pytest.mark.parametrize(("name", "content"), [("routes.toml", TOML), ("routes.csv", CSV.replace(", ", ","))])
def test_a_fabric_has_the_rows_of_a_file(name: str, content: str, tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=in_order("row 3 (switch = 's3'", "*'): next = 's2-eth3'")):
        fabric_of(tmp_path, name, content.replace("s3-eth2", "s2-eth3"))
    fabric = fabric_of(tmp_path, name, content.replace("s3-eth2 ", ""))
    assert fabric.routing is Routing.STATIC
    assert fabric.routes == (*ROWS[:2], Route("s3", "*", ("s1",)))


def test_the_copy_in_a_run_folder_needs_no_file(tmp_path: Path) -> None:
    fabric = fabric_of(tmp_path, "routes.csv", "switch,destination,next\ns1,*,s2\ns2,*,s3\ns3,*,s1\n")
    document = load_scenario(tmp_path / "static.toml").document
    (tmp_path / "routes.csv").unlink()
    (point,) = scenario_of(document).points
    assert compile_point(point.section).fabric == fabric
    assert "routes.csv" not in tomli_w.dumps(document)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.csv", None, "no such routes file"),
        ("routes.toml", "", "is empty; a table of routes has rows like"),
        ("routes.toml", "[[route]]\nswitch = 1\n", r"row 1: switch"),
        ("routes.toml", TOML + "[[route]]\nswitch = 's1'\ndestination = 'h1'\nnext = []\n", r"row 4: next"),
        ("routes.toml", TOML + "[[route]]\nswitch = 's1'\ndestination = 'h1'\nnext = 's2'\nmetric = 1\n", r"row 4: metric"),
        ("routes.csv", "s1,*,s2\n", "the first line must be switch,destination,next"),
        ("routes.csv", "switch,destination,next\ns1,*\n", r"row 1: has 2 columns instead of 3"),
        ("routes.csv", "switch,destination,next\n" + "s1,*,s2\n" * 10_001, "has 10,001 rows; must be at most 10,000"),
        ("routes.csv", 'switch,destination,next\n"s1,*,s2\n', "not valid CSV"),
        ("routes.csv", "switch,destination,next\ns1,*,\n", "row 1: next"),
        ("routes.csv", f"switch,destination,next\n{'s' * 65},*,s2\n", "row 1: switch"),
        ("routes.csv", "switch,destination,next\ns1,*,s2\n", "are dropped at s2: no row says how s2 sends to h1"),
        ("routes.csv", "switch,destination,next\ns[12],*,s3\ns3,*,s1\n", "go in a circle, s1 -> s3 -> s1, by rows 1 and 2"),
        ("routes.csv", "switch,destination,next\nsw1,*,s3\n", r"row 1 \(switch = 'sw1', destination = '\*'\): switch: no switch"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_row_and_key(name: str, content: str | None, said: str, tmp_path: Path) -> None:
    with pytest.raises(InputFault, match=said):
        fabric_of(tmp_path, name, content)


@pytest.mark.parametrize(
    ("fabric", "said"),
    [
        ('routing = "static"', "fabric.routes: missing"),
        ('routes = "routes.csv"', "needs fabric.routing = 'static'"),
        ('routing = "static", routes = "somewhere"', "no such table; give a .toml or .csv file"),
    ],
)
def test_a_table_and_its_use_belong_together(fabric: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "routes.csv").write_text("switch,destination,next\ns1,*,s2\ns2,*,s3\ns3,*,s1\n")
    (tmp_path / "static.toml").write_text(TEXT.format(fabric=fabric))
    with pytest.raises(InputFault, match=said):
        compiled(tmp_path)
