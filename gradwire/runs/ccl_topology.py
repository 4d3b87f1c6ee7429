"""A machine as NCCL's topology file has it: what NCCL_TOPO_DUMP_FILE writes, and NCCL_TOPO_FILE reads.

    <system version="1">
      <cpu numaid="0" arch="x86_64" vendor="GenuineIntel">
        <pci busid="0000:17:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
          <pci busid="0000:1a:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
            <gpu dev="0" sm="90" gdr="1">
              <nvlink target="0000:ab:00.0" count="18" tclass="0x068000"/>
          <pci busid="0000:18:00.0" class="0x020700">
            <nic>
              <net name="mlx5_0" dev="0" speed="400000" gdr="1"/>

`src/graph/xml.cc` and `src/graph/topo.cc` of NCCL 2.30 read it. The model has machines whose GPUs and NICs are alike, spread
evenly, and near each other. What a file has beside that is said, by element and line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from xml.parsers import expat

from gradwire.faults import InputFault
from gradwire.reading_budget import reading_budget
from gradwire.regular_files import read_bytes
from gradwire.runs.ccl_machines import CclOptions
from gradwire.workloads.engines.nccl.devices import GpuName
from gradwire.workloads.engines.nccl.search import MAX_GPUS, MAX_NICS, PCI_GB_PER_S

MOST_BYTES = 4 << 20
"""The file of a machine of eight GPUs has 10 KB, that of an NVL72 less than 200 KB."""
MOST_ELEMENTS, MOST_DEPTH = 50_000, 64
LONGEST = 255
"""`MAX_STR_LEN`, src/graph/xml.h: bytes of a name or a value."""
SHOWN = 3
"""Lines that a note names."""
GPU_OF = {
    **{60: GpuName.P100, 70: GpuName.V100, 75: GpuName.T4, 80: GpuName.A100, 86: GpuName.A40, 89: GpuName.L40S},
    **{90: GpuName.H100, 100: GpuName.B200, 103: GpuName.B300},
}
"""GPUs by `sm`, their compute capability, whose generation decides. Links are the file's."""
NVSWITCH = "0x068000"
SLOWEST_NET_MBPS = 10_000
"""Speed that NCCL counts for a NIC without one (`ncclTopoAddNet`)."""
LANE_RATES = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""`kvDictPciGen`: what NCCL counts for a lane, in 100 Mbit/s; others count as 8 GT/s."""
KNOWN = ("system", "cpu", "pci", "gpu", "nvlink", "nic", "net")


@dataclass
class TopologyElement:
    """An element of a file, with its place."""

    tag: str
    attributes: dict[str, str]
    line: int
    parent: TopologyElement | None
    children: list[TopologyElement] = field(default_factory=list)

    def number(self, name: str, default: int) -> int:
        """The whole number of an attribute. Raises InputFault for another text."""
        text = self.attributes.get(name)
        if text is None:
            return default
        if not text.removeprefix("-").isdecimal() or len(text) > 9:
            raise InputFault(f"line {self.line}: <{self.tag}> {name}={text[:40]!r}: must be a whole number")
        return int(text)

    def above(self) -> Iterator[TopologyElement]:
        """Yields the elements that it is in, the nearest first."""
        at = self.parent
        while at is not None:
            yield at
            at = at.parent

    def all(self, tag: str) -> Iterator[TopologyElement]:
        """Yields the elements of a kind in it, in their order."""
        waiting = [self]
        while waiting:
            one = waiting.pop()
            if one.tag == tag:
                yield one
            waiting += reversed(one.children)


@dataclass(frozen=True)
class MachineTopology:
    """The facts that a file has of a machine; None for those that it lacks."""

    gpus: int
    #: A name, or the capability or architecture of a GPU that has none here.
    gpu: str | None
    links: int | None
    nvswitch: bool | None
    amd: bool | None
    slot_gb_per_s: float | None
    nics: int | None
    nic: str | None
    #: What the model cannot use of the file, and what it takes in its place.
    notes: tuple[str, ...]

    def options(self, given: CclOptions, written: frozenset[str]) -> CclOptions:
        """The options with what the file says, but for those that are `written` on the command line. Raises InputFault for
        GPUs that the model does not know."""
        if "gpu" in self.said() - written and self.gpu not in list(GpuName):
            raise InputFault(f"--topology: its GPUs have {self.gpu}, which the model does not know: give --gpu")
        said: dict[str, Any] = {name: getattr(self, name) for name in self.said() - written}
        return replace(given, **said)

    def said(self) -> frozenset[str]:
        """The options that the file says."""
        names = ("gpus", "gpu", "links", "nvswitch", "amd", "slot_gb_per_s", "nics", "nic")
        return frozenset(name for name in names if getattr(self, name) is not None)


def read_topology(path: Path) -> MachineTopology:
    """Reads a file. Raises InputFault, with the element and its line, for what is not one or cannot be a machine of the
    model."""
    try:
        with reading_budget(path):
            return _Machine(_tree(read_bytes(path, MOST_BYTES, follow=True))).topology()
    except OSError as error:
        raise InputFault(f"--topology {path}: {error.strerror}") from None
    except InputFault as fault:
        raise fault if str(path) in str(fault) else InputFault(f"--topology {path}: {fault}") from None


def _tree(text: bytes) -> TopologyElement:
    """The elements of a file. Raises InputFault."""
    parser = expat.ParserCreate()
    scan = _TopologyScan(parser)
    parser.StartDoctypeDeclHandler = scan.doctype
    parser.StartElementHandler = scan.begin
    parser.EndElementHandler = scan.end
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, ValueError) as error:
        raise InputFault(f"cannot be read as XML: {error}") from error
    assert scan.root is not None  # XML has an element
    if scan.root.tag != "system" or scan.root.attributes.get("version") != "1":
        raise InputFault(
            f'begins with <{scan.root.tag[:40]}>: must be <system version="1">, as NCCL_TOPO_DUMP_FILE writes it'
        )
    return scan.root


class _TopologyScan:
    """Takes elements as they come."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        self._at: TopologyElement | None = None
        self._depth = self._elements = 0
        self.root: TopologyElement | None = None

    def doctype(self, *_: object) -> None:
        """Raises InputFault."""
        raise InputFault("has a DOCTYPE, with which XML declares entities and names other files; remove it")

    def begin(self, tag: str, attributes: dict[str, str]) -> None:
        """Takes an element. Raises InputFault for too many, too deep, or too long ones."""
        line = self._parser.CurrentLineNumber
        self._depth, self._elements = self._depth + 1, self._elements + 1
        if self._elements > MOST_ELEMENTS or self._depth > MOST_DEPTH:
            raise InputFault(
                f"line {line}: more than {MOST_ELEMENTS} elements, or more than {MOST_DEPTH} in each other"
            )
        if max(map(len, (tag, *attributes, *attributes.values()))) > LONGEST:
            raise InputFault(f"line {line}: a name or a value of more than {LONGEST} characters, NCCL's limit")
        element = TopologyElement(tag, attributes, line, self._at)
        if self._at is None:
            self.root = element
        else:
            self._at.children.append(element)
        self._at = element

    def end(self, _: str) -> None:
        """Leaves an element."""
        assert self._at is not None  # expat ends what has begun
        self._at, self._depth = self._at.parent, self._depth - 1


class _Machine:
    """Makes a machine of a file's elements."""

    def __init__(self, system: TopologyElement) -> None:
        self._system = system
        self._notes: list[str] = []
        #: NICs that the model takes.
        self._nets: list[TopologyElement] = []

    def topology(self) -> MachineTopology:
        """Returns what the file says. Raises InputFault."""
        slots = [pci for pci in self._system.all("pci") if _class_of(pci).startswith("0x03")]
        gpus = list(self._system.all("gpu"))
        bare = [slot for slot in slots if not any(child.tag == "gpu" for child in slot.children)]
        count = len(gpus) + len(bare)
        if not 1 <= count <= MAX_GPUS:
            raise InputFault(f'has {count} GPUs (<gpu>, or <pci class="0x03..">): must have 1 to {MAX_GPUS}')
        links, nvswitch = self._links(gpus)
        nics, nic = self._nics()
        self._note_places()
        self._note_others(gpus)
        return MachineTopology(
            gpus=count,
            gpu=self._gpu(gpus, bare),
            links=links,
            nvswitch=nvswitch,
            amd=self._is_amd(),
            slot_gb_per_s=self._slot(slots),
            nics=nics,
            nic=nic,
            notes=tuple(self._notes),
        )

    def _say(self, elements: list[TopologyElement], what: str) -> None:
        """Notes something of elements, if there are any."""
        if not elements:
            return
        lines = ", ".join(str(one.line) for one in elements[:SHOWN])
        more = f" and {len(elements) - SHOWN} more" if len(elements) > SHOWN else ""
        self._notes.append(f"topology, line {lines}{more}: <{elements[0].tag}> {what}")

    def _gpu(self, gpus: list[TopologyElement], bare: list[TopologyElement]) -> str | None:
        self._say(bare, "is a GPU without <gpu>: taken as the others, or as --gpu and --nvlink say")
        kinds: dict[str, TopologyElement] = {}
        for gpu in gpus:
            kinds.setdefault(_kind_of(gpu), gpu)
        self._say([gpu for gpu in gpus if not _kind_of(gpu)], "has no sm: taken as --gpu says")
        kinds.pop("", None)
        if len(kinds) > 1:
            said = " and ".join(f"{kind} (line {gpu.line})" for kind, gpu in kinds.items())
            raise InputFault(f"<gpu> {said}: the model has machines of one kind of GPU")
        return next((GPU_OF.get(gpu.number("sm", 0), kind) for kind, gpu in kinds.items()), None)

    def _links(self, gpus: list[TopologyElement]) -> tuple[int | None, bool | None]:
        """Links of a GPU, and whether they go to NVSwitch. A dump has all; a file without `sm` leaves them to NCCL."""
        told = [gpu for gpu in gpus if gpu.number("sm", 0)]
        if not told:
            return None, None
        counts: dict[int, TopologyElement] = {}
        for gpu in told:
            counts.setdefault(sum(link.number("count", 1) for link in gpu.children if link.tag == "nvlink"), gpu)
        if len(counts) > 1:
            said = " and ".join(f"{count} (line {gpu.line})" for count, gpu in counts.items())
            raise InputFault(f"<gpu> with links of NVLink in number {said}: the model has GPUs with equally many")
        links = next(iter(counts))
        if not 0 <= links <= 64:
            raise InputFault(f"line {told[0].line}: <gpu> with {links} links of NVLink: must be 0 to 64")
        direct = [link for gpu in told for link in gpu.children if link.tag == "nvlink" and not _is_to_switch(link)]
        self._say(direct, "goes to a GPU, and not to NVSwitch: the model counts all links to all GPUs")
        return links, bool(links) and not direct

    def _nics(self) -> tuple[int | None, str | None]:
        """NICs, and their rate: the fastest, of which NCCL takes as many as it needs."""
        nets = list(self._system.all("net"))
        cards = [pci for pci in self._system.all("pci") if _class_of(pci).startswith("0x02")]
        if not nets:
            self._say(cards, "is a NIC without <net>: taken with the rate of --nic")
            return (len(cards), None) if 1 <= len(cards) <= MAX_NICS else (None, None)
        rates = {id(net): net.number("speed", 0) for net in nets}
        self._say(
            [net for net in nets if rates[id(net)] <= 0], f"has no speed: {SLOWEST_NET_MBPS} Mbit/s, as NCCL counts"
        )
        rates = {key: mbps if mbps > 0 else SLOWEST_NET_MBPS for key, mbps in rates.items()}
        fastest = max(rates.values())
        slower = [net for net in nets if rates[id(net)] < fastest]
        self._nets = [net for net in nets if rates[id(net)] == fastest]
        self._say(slower, f"has less than the others' {fastest} Mbit/s: left out")
        count = len(self._nets)
        if count > MAX_NICS:
            raise InputFault(f"has {count} <net> with {fastest} Mbit/s: must have {MAX_NICS} at most")
        return count, f"{fastest // 1000}gbit" if fastest % 1000 == 0 else f"{fastest}mbit"

    def _is_amd(self) -> bool | None:
        vendors = {cpu.attributes.get("vendor", "") for cpu in self._system.all("cpu")} - {""}
        others = [
            cpu
            for cpu in self._system.all("cpu")
            if cpu.attributes.get("vendor", "GenuineIntel") not in ("GenuineIntel", "AuthenticAMD")
            or cpu.attributes.get("arch", "x86_64") != "x86_64"
        ]
        self._say(others, "is neither Intel's nor AMD's: counted as Intel's")
        return "AuthenticAMD" in vendors if vendors else None

    def _slot(self, slots: list[TopologyElement]) -> float | None:
        """Rate that NCCL counts for the slot of a GPU: the slowest one's."""
        told = [slot for slot in slots if slot.attributes.get("link_speed") and slot.number("link_width", 0)]
        if not told:
            return None
        rates = [_gb_per_s(slot) for slot in told]
        most, slowest = max(PCI_GB_PER_S.values()), min(rates)
        if slowest > most:
            self._say(told, f"has PCI Express 6: counted as the {most:g} GB/s of 5, with which the model's tables end")
            return most
        faster = [slot for slot, rate in zip(told, rates, strict=True) if rate > slowest]
        self._say(faster, f"has more than the {slowest:g} GB/s of another GPU's slot: counted as that")
        return slowest

    def _note_places(self) -> None:
        """Notes NICs that are far from all GPUs, which the model has near."""
        near = {id(pci) for gpu in self._system.all("gpu") for pci in gpu.above() if pci.tag == "pci"}
        near |= {
            id(one)
            for slot in self._system.all("pci")
            if _class_of(slot).startswith("0x03")
            for one in slot.above()
            if one.tag == "pci"
        }
        far = [net for net in self._nets if not any(id(one) in near for one in net.above())]
        self._say(far, "is behind no switch of PCI Express that has a GPU too: counted as near to one")

    def _note_others(self, gpus: list[TopologyElement]) -> None:
        without = [one for one in (*gpus, *self._nets) if one.attributes.get("gdr") == "0"]
        for tag in ("gpu", "net"):
            self._say([one for one in without if one.tag == tag], "has gdr=0, no GPUDirect: --transport decides that")
        waiting, unknown = [self._system], dict[str, list[TopologyElement]]()
        while waiting:
            one = waiting.pop()
            if one.tag not in KNOWN:
                unknown.setdefault(one.tag, []).append(one)
            waiting += one.children
        for tag in sorted(unknown):
            self._say(sorted(unknown[tag], key=lambda one: one.line), "is not used")


def _kind_of(gpu: TopologyElement) -> str:
    """A GPU's capability, or AMD's architecture as RCCL writes it; "" where the file does not say it."""
    if sm := gpu.number("sm", 0):
        return f"sm={sm}"
    return f"gcn={gpu.attributes['gcn'][:40]}" if "gcn" in gpu.attributes else ""


def _class_of(pci: TopologyElement) -> str:
    return pci.attributes.get("class", "")


def _gb_per_s(pci: TopologyElement) -> float:
    """Rate that NCCL counts for a link of PCI Express (`ncclTopoAddPci`)."""
    transfers = pci.attributes["link_speed"].split(" ")[0].removesuffix(".0")
    return max(0.1, pci.number("link_width", 16) * LANE_RATES.get(transfers, LANE_RATES["8"]) / 80)


def _is_to_switch(link: TopologyElement) -> bool:
    return link.attributes.get("tclass", NVSWITCH) == NVSWITCH
