"""NCCL's topology files: the machine that they are, and what the model cannot use of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.runs.ccl_machines import set_up
from gradwire.runs.ccl_topology import MOST_DEPTH, MachineTopology, read_topology
from gradwire.workloads.engines.nccl.search import PCI_GB_PER_S, PCI_PAYLOAD_GB_PER_S
from gradwire.workloads.engines.nccl.tables import Gpu
from tests.shared.ccl_given import USUAL
from tests.shared.parts import in_order

LINK = '<nvlink target="fffffff:ffff:ff" count="9" tclass="0x068000"/>'
GPU = f'<gpu dev="0" sm="90" rank="0" gdr="1">{LINK}{LINK}</gpu>'
NET = '<net name="mlx5_0" dev="0" speed="400000" port="1" gdr="1"/>'
SLOT = 'link_speed="32.0 GT/s PCIe" link_width="16"'
SWITCH = f"""<pci busid="0000:17:00.0" class="0x060400" {SLOT}>
<pci busid="0000:1a:00.0" class="0x030200" {SLOT}>
{GPU}
</pci>
<pci busid="0000:18:00.0" class="0x020700" {SLOT}><nic>
{NET}
</nic></pci>
</pci>
"""
FILE = f"""<system version="1">
<cpu numaid="0" arch="x86_64" vendor="GenuineIntel">
{SWITCH * 4}</cpu>
<cpu numaid="1" arch="x86_64" vendor="GenuineIntel">
{SWITCH * 4}</cpu>
</system>
"""
"""What NCCL_TOPO_DUMP_FILE writes of eight H100, each with a NIC behind the same switch."""


def topology_of(tmp_path: Path, text: str) -> MachineTopology:
    file = tmp_path / "topo.xml"
    file.write_text(text)
    return read_topology(file)


def test_a_dump_is_the_machine(tmp_path: Path) -> None:
    found = topology_of(tmp_path, FILE)
    assert (found.gpus, found.gpu, found.links, found.nvswitch) == (8, "h100", 18, True)
    assert (found.nics, found.nic, found.amd, found.slot_gb_per_s) == (8, "400gbit", False, 48.0)
    assert found.notes == ()
    given = found.options(replace(USUAL, gpus=2, nics=1, gpu="a100"), frozenset({"nics"}))
    assert (given.gpus, given.nics, given.gpu) == (8, 1, "h100")


def test_a_slot_of_other_lanes_is_that_of_the_machine(tmp_path: Path) -> None:
    given = topology_of(tmp_path, FILE.replace("32.0 GT/s", "16.0 GT/s").replace('width="16"', 'width="8"')).options(
        USUAL, frozenset()
    )
    machine = set_up(given)[0].machine
    assert machine.pci_gb_per_s == 8 * 120 / 80
    # As payload, eight lanes of generation 4 are sixteen of generation 3.
    assert machine.pci_payload_gb_per_s == pytest.approx(PCI_PAYLOAD_GB_PER_S[Gpu.VOLTA])
    assert set_up(USUAL)[0].machine.pci_gb_per_s == PCI_GB_PER_S[Gpu.HOPPER]


NOTES = [
    (FILE.replace('vendor="GenuineIntel"', 'vendor="Elbrus"', 1), ("line 2: <cpu>", "counted as Intel's")),
    (FILE.replace(NET, NET.replace("400000", "100000"), 1), ("line 8: <net>", "400000 Mbit/s", "left out")),
    (FILE.replace(NET, NET.replace("400000", "-1")), ("line 8, 16, 24 and 5 more: <net>", "10000 Mbit/s")),
    (FILE.replace('gdr="1">', 'gdr="0">', 1), ("line 5: <gpu>", "--transport")),
    (FILE.replace("</cpu>", f"<nic>\n{NET}</nic></cpu>", 1), ("line 36: <net>", "behind no switch")),
    (FILE.replace("</system>", "<coll/>\n<coll/></system>"), ("<coll>", "not used")),
    (FILE.replace('tclass="0x068000"', 'tclass="0x030200"'), ("line 5", "<nvlink>", "not to NVSwitch")),
    (FILE.replace(GPU, "").replace(NET, ""), ("line 7", "without <net>", "line 4", "without <gpu>")),
    (FILE.replace("32.0 GT/s", "64.0 GT/s"), ("line 4, 12, 20 and 5 more: <pci>", "PCI Express 6", "48 GB/s")),
    (FILE.replace(SLOT, 'link_speed="8.0 GT/s PCIe" link_width="16"', 2), ("<pci>", "12 GB/s", "counted as that")),
]


@pytest.mark.parametrize(("text", "parts"), NOTES, ids=[parts[-1] for _, parts in NOTES])
def test_what_the_model_cannot_use_is_said(tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    notes = "\n".join(topology_of(tmp_path, text).notes)
    places = [notes.index(part) for part in parts]
    assert places == sorted(places), notes


def test_a_file_without_gpus_of_its_own_leaves_them_to_the_options(tmp_path: Path) -> None:
    found = topology_of(tmp_path, FILE.replace(GPU, "").replace(NET, ""))
    assert (found.gpus, found.gpu, found.links, found.nics, found.nic) == (8, None, None, 8, None)


@pytest.mark.parametrize("kind", ['sm="120"', 'gcn="gfx942"'])
def test_gpus_that_are_not_known_are_asked_for(tmp_path: Path, kind: str) -> None:
    found = topology_of(tmp_path, FILE.replace('sm="90"', kind))
    with pytest.raises(InputFault, match=in_order(kind.replace('"', ""), "--gpu")):
        found.options(USUAL, frozenset())
    assert found.options(USUAL, frozenset({"gpu"})).gpu == "h100"


WRONG = [
    ("", ("XML",)),
    ("<graphs/>", ("<graphs>", "system version")),
    (FILE.replace('version="1"', 'version="2"'), ("system version",)),
    (f"<!DOCTYPE system [<!ENTITY a 'aaaa'>]>{FILE}", ("DOCTYPE",)),
    ('<system version="1"/>', ("0 GPUs",)),
    (f'<system version="1">{SWITCH * 73}</system>', ("73 GPUs", "72")),
    (FILE.replace('sm="90"', 'sm="80"', 1), ("sm=80 (line 5)", "sm=90 (line 13)")),
    (FILE.replace('count="9"', 'count="3"', 1), ("12 (line 5)", "18 (line 13)")),
    (FILE.replace('count="9"', 'count="99"'), ("line 5", "198 links")),
    (FILE.replace("400000", "fast", 1), ("line 8: <net> speed='fast'", "whole number")),
    (FILE.replace('sm="90"', f'sm="{"9" * 20}"', 1), ("line 5: <gpu> sm=", "whole number")),
    (FILE.replace("mlx5_0", "m" * 300, 1), ("line 8", "255")),
    (f'<system version="1">{"<pci>" * MOST_DEPTH}{"</pci>" * MOST_DEPTH}</system>', ("line 1", "in each other")),
    (f'<system version="1">{"<pci/>" * 60_000}</system>', ("line 1", "50000 elements")),
    (f"{FILE}{' ' * (5 << 20)}", ("topo.xml",)),
]


@pytest.mark.parametrize(("text", "parts"), WRONG, ids=[parts[-1] for _, parts in WRONG])
def test_what_is_no_machine_is_refused(tmp_path: Path, text: str, parts: tuple[str, ...]) -> None:
    with pytest.raises(InputFault, match=in_order("topo.xml", *(part for part in parts if part != "topo.xml"))):
        topology_of(tmp_path, text)


def test_a_file_that_ends_anywhere_is_refused_with_a_message(tmp_path: Path) -> None:
    for end in range(0, len(FILE) - len("</system>\n"), 37):
        with pytest.raises(InputFault, match="XML"):
            topology_of(tmp_path, FILE[:end])


@pytest.mark.parametrize("content", [b"\x89\xff\x00" * 100, b"\xff\xfe<\x00", FILE.encode("utf-16")[:-4], b"\x00"])
def test_what_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "topo.xml"
    file.write_bytes(content)
    with pytest.raises(InputFault, match=in_order("topo.xml", "XML")):
        read_topology(file)


def test_the_command_takes_it(call: Any, tmp_path: Path) -> None:
    file = tmp_path / "topo.xml"
    file.write_text(FILE.replace("</system>", "<coll/></system>"))
    status, out, err = call("ccl", "all-to-all", "--topology", str(file), "--nics", "4", "--sizes", "1GiB")
    assert (status, err) == (0, "")
    assert "2 x 8 h100, 4 x 400gbit" in out
    assert "<coll> is not used" in out
    status, out, err = call("ccl", "--env", f"NCCL_TOPO_FILE={file}")
    assert (status, out) == (2, "")
    assert "--topology" in err
    status, out, err = call("ccl", "--topology", str(tmp_path / "none.xml"))
    assert (status, out) == (2, "")
    assert "No such file" in err
