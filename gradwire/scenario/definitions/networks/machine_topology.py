"""XML of the inside of one machine, which is no network: NCCL's topology, and that of hwloc (lstopo).

InfraGraph (Keysight/infragraph, src/infragraph/translators) makes devices of both, and no networks. What they have of use here
is how many GPUs and NICs a machine has, which the refusal says with the keys for it.
"""

from __future__ import annotations

import re
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.network_form import Content

BEGINNING_CHARACTERS = 4000
NCCL, HWLOC = re.compile(r"<system[\s>]"), re.compile(r"<topology[\s>]|hwloc2?\\.dtd")
PARTS = {
    "NCCL_TOPO_FILE has it": (re.compile(r"<gpu\s"), re.compile(r"<net\s")),
    "hwloc's lstopo writes it": (re.compile(r'pci_type="(?:0302|0380|1200)'), re.compile(r'pci_type="02(?:00|07)')),
}
"""Elements of GPUs and of NICs. PCI's classes are 3D controllers, other displays and accelerators, and Ethernet and InfiniBand."""


def machine_topology(path: Path, text: str) -> Content:
    """Raises InputFault: such a file has the inside of one machine. Of its XML, GPUs and NICs are counted, and nothing else is read."""
    beginning = text[:BEGINNING_CHARACTERS]
    writers = [how for how, begins in zip(PARTS, (NCCL, HWLOC), strict=True) if begins.search(beginning)]
    if not writers:
        raise InputFault(f"{path}: XML of no known form; give a network as GraphML (.graphml)")
    element = "system" if writers[0].startswith("NCCL") else "topology"
    gpus, nics = (len(part.findall(text)) for part in PARTS[writers[0]])
    raise InputFault(
        f"{path}: <{element}>: is the inside of one machine, as {writers[0]}, and no network: give its GPUs ({gpus}) as "
        f"cluster.workers_per_host, its NICs ({nics}) as cluster.nics_per_host, and NVLink as costs.local_rate"
    )
