"""Traffic classes of programs that know of none: a cgroup for each, which a program joins before it becomes itself."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from gradwire.faults import MachineFault
from gradwire.inside.namespaces import MOUNTS, mount
from gradwire.inside.program_protocol import FOLDER
from gradwire.network.fabric import Port, band_of_class
from gradwire.network_namespace import namespace_of, network_namespace
from gradwire.topo.command import run
from gradwire.topo.tc import batch_text, marking_commands, priority_line

CGROUPS = FOLDER / "classes"


def make_classes(names: Sequence[str], pids: Sequence[int], classes: Collection[int]) -> None:
    """Makes a cgroup per traffic class, and has every host's port mark what these send. Nothing is made for no class.

    names, pids: of the hosts, and of a thread in the network namespace of each. Raises MachineFault for a kernel that
    was built without what this needs.
    """
    if not classes:
        return
    CGROUPS.mkdir(exist_ok=True)
    try:
        mount("none", str(CGROUPS), "cgroup", MOUNTS, "net_prio")
    except MachineFault as fault:
        raise MachineFault(
            f"{fault}: traffic classes of programs need a kernel that this gradwire has built or brought; `gradwire "
            "kernel` builds it"
        ) from fault
    for traffic_class in classes:
        _cgroup(traffic_class).mkdir()
    for name, pid in zip(names, pids, strict=True):
        interface = Port(name, 0).interface
        with network_namespace(namespace_of(pid)):
            run(["tc", "-batch", "-"], batch_text(marking_commands(interface, map(band_of_class, sorted(classes)))))
            for traffic_class in classes:
                line = priority_line(interface, band_of_class(traffic_class))
                (_cgroup(traffic_class) / "net_prio.ifpriomap").write_text(line)


def join_class(traffic_class: int | None) -> None:
    """Puts the calling process into a class, with all that it will start. For one that is about to become a program."""
    if traffic_class is not None:
        members_file(traffic_class).write_text(str(os.getpid()))


def members_file(traffic_class: int) -> Path:
    """Whose process's number is written there is in the class."""
    return _cgroup(traffic_class) / "cgroup.procs"


def class_of(pid: int) -> int | None:
    """The class of a process, whose id is that of the caller's own namespace; None for one that is in none."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, _, name = line.rpartition("/class-")
        if name.isdigit():
            return int(name)
    return None


def _cgroup(traffic_class: int) -> Path:
    return CGROUPS / f"class-{traffic_class}"
