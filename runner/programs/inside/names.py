"""How hosts find each other by name, and how a program on one starts programs on another."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire import PACKAGE
from gradwire.runner.programs.inside.host import BIND, Host, mount
from gradwire.runner.programs.protocol import ENTER_HOST, FOLDER, PYTHON_FOLDER
from gradwire.topo.fabric import Fabric

REMOTE_SHELL = f"""#!/bin/sh
# Runs a command on a host, as `ssh HOST COMMAND` would.
host=$1
shift
while read -r name pid; do
    if [ "$name" = "$host" ]; then
        export GRADWIRE_HOST="$host" TMPDIR="/run/tmp/$host"
        exec nsenter --target "$pid" --net --uts --mount -- sh -c 'cd "$1" && shift && exec sh -c "$*"' sh "$PWD" "$@"
    fi
done <{FOLDER}/hosts
echo "enter-host: no host is called $host" >&2
exit 255
"""


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


def write_remote_shell(hosts: Sequence[Host]) -> None:
    """Writes what launchers such as mpirun reach hosts with, in the place of ssh."""
    (FOLDER / "hosts").write_text("".join(f"{host.name} {host.pid}\n" for host in hosts))
    ENTER_HOST.write_text(REMOTE_SHELL)
    ENTER_HOST.chmod(0o755)
