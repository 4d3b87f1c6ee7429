"""Makes the Mininet that a script finds: the copy of the user's that it imports, and texts of the programs that
Mininet calls and few machines have. Each is used where the machine has none of its name."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

_MNEXEC = r"""#!/bin/bash
# Mininet's mnexec: starts a command in namespaces. The options and what they do are those of mininet's mnexec.c.
close= detach= new= print= attach= priority=
while getopts "+cdnpa:g:r:vh" option; do
    case $option in
        c) close=1 ;;
        d) detach=1 ;;
        n) new=1 ;;
        p) print=1 ;;
        a) attach=$OPTARG ;;
        r) priority=$OPTARG ;;
        g) ;; # control groups limit the CPU time of nodes, and computing takes no virtual time
        v) echo "gradwire"; exit 0 ;;
        *) echo "usage: mnexec [-cdnp] [-a pid] [-g group] [-r rtprio] cmd args..." >&2; exit 1 ;;
    esac
done
shift $((OPTIND - 1))
[ "$1" = -- ] && shift
if [ "$close" ]; then
    for file in /proc/$$/fd/*; do
        number=${file##*/}
        [ "$number" -gt 2 ] && [ "$number" -lt 255 ] && eval "exec $number>&-"
    done
fi
[ "$print" ] && printf '\001%d\n' $$
command=("$@")
[ "$priority" ] && command=(chrt --rr "$priority" "${command[@]}")
[ "$new" ] && command=(unshare --net --mount sh -c 'mount -t sysfs sysfs /sys && exec "$0" "$@"' "${command[@]}")
[ "$attach" ] && command=(nsenter --target "$attach" --net --mount --wd "${command[@]}")
[ "$detach" ] && command=(setsid "${command[@]}")
exec "${command[@]}"
"""
_TELNET = r"""#!/bin/bash
# Says whether something listens at a port, in telnet's words, which is all that Mininet asks of telnet.
while getopts "e:" _; do :; done
shift $((OPTIND - 1))
echo "Trying $1..."
if trouble=$( { exec 3<>"/dev/tcp/$1/${2:-23}"; } 2>&1 ); then
    echo "Connected to $1."
    echo "Connection closed by foreign host."
else
    case $trouble in
        *"No route"*) echo "telnet: Unable to connect to remote host: No route to host" ;;
        *unreachable*) echo "telnet: Unable to connect to remote host: Network is unreachable" ;;
        *) echo "telnet: Unable to connect to remote host: Connection refused" ;;
    esac
    exit 1
fi
"""
_CONTROLLER = r"""#!/bin/bash
# A controller whose switches learn addresses, as that of OpenFlow's reference implementation: Open vSwitch's if it is there.
# Its port is 6633 where none is named. That of Open vSwitch's is another.
for word; do
    [[ $word == ptcp: ]] && word=ptcp:6633
    set -- "${@:2}" "$word"
done
for name in ovs-testcontroller test-controller ovs-controller; do
    # By itself it speaks OpenFlow 1.5, in which Open vSwitch refuses what it sends (OFPBMC_BAD_MASK, seen with 3.1).
    type -P "$name" >/dev/null && exec "$name" -O OpenFlow10,OpenFlow13 "$@"
done
for word; do port=${word##*:}; done
exec env GRADWIRE_ALL_OPENFLOW_VERSIONS=1 PYTHONPATH=@PATH@ @PYTHON@ -m gradwire.controller.learning_switch "${port:-6653}"
"""
_VCONFIG = r"""#!/bin/bash
# Makes and removes VLAN interfaces, as vconfig did before ip(8).
case $1 in
    add) exec ip link add link "$2" name "$2.$3" type vlan id "$3" ;;
    rem) exec ip link delete "$2" ;;
    *) echo "vconfig: only add INTERFACE VLAN and rem INTERFACE" >&2; exit 1 ;;
esac
"""
CHANGES = Path(__file__).with_name("changes.py")
CHANGES_MODULE = "gradwire_mininet_changes"


def programs(own_python: str, own_path: str) -> Mapping[str, str]:
    """By name: the text of each program.

    own_python, own_path: gradwire's Python, and the folder that its package lies in.
    """
    controller = _CONTROLLER.replace("@PATH@", shlex.quote(own_path)).replace("@PYTHON@", shlex.quote(own_python))
    return {"mnexec": _MNEXEC, "telnet": _TELNET, "vconfig": _VCONFIG, "controller": controller}


def copy_changed(mininet: Path, folder: Path) -> None:
    """Copies the package into a folder, for the head of a Python path. Each module of the copy hands itself to `change`
    (changes.py) at its end; otherwise it has the text of its original."""
    copy = folder / "mininet"
    shutil.copytree(mininet, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for module in copy.glob("*.py"):
        with module.open("a") as file:
            file.write(f"\n\n__import__({CHANGES_MODULE!r}).change(globals())\n")
    shutil.copy(CHANGES, folder / f"{CHANGES_MODULE}.py")
