"""Files that describe a network, of any form, as contents of a NetworkDefinition: GraphML, node-link JSON, InfraGraph and others, and
classes of Mininet's Topo.

A reader (gradwire/scenario/definitions/networks/) takes all that its form says of the network. What it cannot take it refuses in one
line; what has no effect here, or is left out, is in the definition's notes, which commands show.
"""

from __future__ import annotations

from pathlib import Path

from gradwire.documents import list_of
from gradwire.faults import InputFault
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import MESSAGE_BYTES, read_text
from gradwire.scenario.definitions.networks.containerlab import containerlab, is_containerlab
from gradwire.scenario.definitions.networks.gml import gml
from gradwire.scenario.definitions.networks.graphml import graphml
from gradwire.scenario.definitions.networks.htsim_topology import htsim_topology
from gradwire.scenario.definitions.networks.infragraph import infragraph, is_infragraph
from gradwire.scenario.definitions.networks.machine_topology import machine_topology
from gradwire.scenario.definitions.networks.mininet_topo import content_of_topo
from gradwire.scenario.definitions.networks.netlab import is_netlab, netlab
from gradwire.scenario.definitions.networks.network_form import Content, DocumentForm, TextForm, refuse_crowds
from gradwire.scenario.definitions.networks.node_link import is_node_link, node_link
from gradwire.scenario.definitions.networks.simulator_topology import simulator_topology
from gradwire.scenario.definitions.topo_process import topo_said
from gradwire.scenario.definitions.yaml_documents import yaml_document
from gradwire.scenario.file_references import python_reference
from gradwire.scenario.sections.network import MOST_NODES
from gradwire.strict_json import parse_json

YAML_ENDINGS = (".yaml", ".yml")
TEXT_FORMS = (
    TextForm("GraphML", ".graphml", graphml),
    TextForm("GML", ".gml", gml),
    TextForm("topology.txt of HPCC and SimAI", ".txt", simulator_topology),
    TextForm("htsim's topology", ".topo", htsim_topology),
    TextForm("NCCL's and hwloc's topology, which are refused", ".xml", machine_topology),
)
"""Forms by the endings of their files."""
DOCUMENT_FORMS = (
    DocumentForm("InfraGraph", is_infragraph, infragraph),
    DocumentForm("containerlab", is_containerlab, containerlab),
    DocumentForm("networkx's node-link form", is_node_link, node_link),
    DocumentForm("netlab", is_netlab, netlab),
)
"""Forms of JSON and YAML: the first that recognises a document reads it."""


def network_in(text: str, path: Path) -> Content:
    """Reads a network from a file. text: the path as the scenario has it, such as "lab.py:Campus".

    Raises InputFault with a line for each defect.
    """
    if (class_name := python_reference(text)) is not None:
        return content_of_topo(path, topo_said(path, class_name or None, MOST_NODES))
    with reading_budget(path):
        content = _of_file(path, _read(path))
    hosts, switches, links = (list_of(content[key]) for key in ("hosts", "switches", "links"))
    if not switches:
        raise InputFault(f"{path}: has no switches; a network has one at least, to which the links of hosts go")
    refuse_crowds(path, len(hosts), len(switches), len(links))
    return content


def _of_file(path: Path, written: str) -> Content:
    for text_form in TEXT_FORMS:
        if path.suffix == text_form.ending:
            return text_form.content(path, written)
    document = _document(path, written)
    for form in DOCUMENT_FORMS:
        if form.recognises(document):
            return form.content(path, document)
    return infragraph(path, document) if path.suffix in YAML_ENDINGS else node_link(path, document)


def _document(path: Path, text: str) -> object:
    """The content of JSON or YAML. Raises InputFault for YAML with anchors, with which a small file has a large content,
    and for files that cannot be read."""
    try:
        return yaml_document(path, text) if path.suffix in YAML_ENDINGS else parse_json(text, any_float=True)
    except ValueError as error:
        raise InputFault(f"{path}: cannot be read as JSON: {error}") from error


def _read(path: Path) -> str:
    try:
        return read_text(path, MESSAGE_BYTES, follow=True)
    except FileNotFoundError as error:
        raise InputFault(f"{path}: no such network file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputFault(f"{path}: cannot be read as a network file: {error}") from error
