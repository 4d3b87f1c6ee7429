"""NCCL's topology XML, which is no network."""

from __future__ import annotations

from pathlib import Path

from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.network_form import Content


def nccl_topology(path: Path, text: str) -> Content:
    """Raises InputFault: such a file has the inside of one machine. Nothing of its XML is read but the first 4,000 characters."""
    if "<system" in text[:4000]:
        raise InputFault(
            f"{path}: <system>: is the inside of one machine, as NCCL_TOPO_FILE has it, and no network; give its GPUs and NICs as "
            "cluster.workers_per_host and cluster.nics_per_host, and NVLink as costs.local_rate"
        )
    raise InputFault(f"{path}: XML of no known form; give a network as GraphML (.graphml)")
