"""How hosts find each other by name, and scripts this package."""

from __future__ import annotations

from gradwire import PACKAGE
from gradwire.datatypes.fabric import Fabric
from gradwire.programs.inside.hosts.namespaces import BIND, mount
from gradwire.programs.protocol import FOLDER, PYTHON_FOLDER


def name_hosts(fabric: Fabric) -> None:
    """Lets all hosts find each other by name; the machine's own file stays as it is. Raises MachineFault.

    And lets scripts find this package, for gradwire.devices.
    """
    FOLDER.mkdir(exist_ok=True)
    PYTHON_FOLDER.mkdir(exist_ok=True)
    (PYTHON_FOLDER / PACKAGE.name).symlink_to(PACKAGE)
    lines = ["127.0.0.1 localhost", *(f"{fabric.host_ip(i)} {name}" for i, name in enumerate(fabric.host_names()))]
    names = FOLDER / "etc-hosts"
    names.write_text("\n".join([*lines, ""]))
    mount(str(names), "/etc/hosts", "", BIND)
