"""Runs a user's controller: `python -m gradwire.controller.own --app FILE --network FILE --port PORT`.

The application is one of os-ken or of Ryu, whose API os-ken kept: where only os-ken is installed, `import ryu` and
`RyuApp` are its modules and its class. The application finds the network in the JSON file that the environment variable
GRADWIRE_NETWORK names (`described`). It runs in a separate process, inside the machine of a point, and only there:
commands that read a run folder run none of its code.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.abc
import importlib.machinery
import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from gradwire.network.fabric import Fabric

NETWORK_VARIABLE = "GRADWIRE_NETWORK"
MODULE = "controller_app"
"""Name of the module made of the application's file in the point's folder."""
FAILED = 3
"""Exit status after an application that cannot be run; what is wrong is the last line of standard error."""


def main() -> None:
    """Reads the arguments and serves until the process is ended."""
    parser = argparse.ArgumentParser(prog="controller.own", description="Runs a user's controller.")
    parser.add_argument("--app", type=Path, required=True, help="the application's file")
    parser.add_argument("--network", type=Path, required=True, help="what the application finds in GRADWIRE_NETWORK")
    parser.add_argument("--port", type=int, required=True, help="TCP port on 127.0.0.1 to listen on")
    parser.add_argument("--restarted", action="store_true", help="taken and not used: applications do not know it")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    os.environ[NETWORK_VARIABLE] = str(arguments.network.resolve())
    sys.path.insert(0, str(arguments.app.resolve().parent))
    framework = "os_ken" if find_spec("os_ken") else "ryu"
    if framework == "os_ken":
        answer_for_ryu()
    serve(framework, arguments.app.stem, arguments.port)


def described(fabric: Fabric) -> dict[str, object]:
    """Describes the network to an application: hosts with their addresses and the switch and port that each is at,
    switches with their datapath identifiers, and the links between switches, by dpid and port."""
    names = fabric.switch_names()
    dpids = {name: number + 1 for number, name in enumerate(names)}
    return {
        "hosts": [
            {
                "name": name,
                "ip": fabric.host_ip(host),
                "mac": fabric.host_mac(host),
                "dpid": fabric.switch_of(host) + 1,
                "port": fabric.leaf_port(host),
            }
            for host, name in enumerate(fabric.host_names())
        ],
        "switches": [{"name": name, "dpid": dpid} for name, dpid in dpids.items()],
        "links": [
            {
                "dpid": dpids[link.a.device],
                "port": link.a.number,
                "peer_dpid": dpids[link.b.device],
                "peer_port": link.b.number,
                "rate_bps": link.rate_bps,
            }
            for link in fabric.trunk_links()
        ],
    }


def serve(framework: str, module: str, port: int) -> None:
    """Runs the application of a module that can be imported, on 127.0.0.1:`port`, until the process is ended."""
    # In this order: the framework's modules import each other in a circle that can only be entered here.
    app_manager = importlib.import_module(f"{framework}.base.app_manager")
    settings = importlib.import_module(f"{framework}.cfg")
    importlib.import_module(f"{framework}.controller.controller")  # whose options are the next line's
    arguments = ["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", str(port)]
    settings.CONF(args=arguments, project="gradwire", default_config_files=[])
    base = app_manager.OSKenApp if framework == "os_ken" else app_manager.RyuApp
    loaded = importlib.import_module(module)
    if not any(
        isinstance(each, type) and issubclass(each, base) and each is not base for each in vars(loaded).values()
    ):
        sys.stderr.write("has no class of OSKenApp or RyuApp\n")
        sys.exit(FAILED)
    app_manager.AppManager.run_apps([f"{framework}.controller.ofp_handler", module])


def answer_for_ryu() -> None:
    """Lets `import ryu.X` find os_ken.X, and `RyuApp` be its class, unless Ryu itself is installed."""
    if find_spec("ryu"):
        return
    sys.meta_path.insert(0, _Renamed())  # before what finds files by the path of os_ken
    manager = importlib.import_module("os_ken.base.app_manager")
    manager.__dict__["RyuApp"] = manager.OSKenApp


class _Renamed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module of os-ken by its name in Ryu. It is the same module, and not a second one of the same file."""

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module, if os-ken has it."""
        parts = fullname.split(".")
        if parts[0] != "ryu" or not find_spec(".".join(["os_ken", *parts[1:]])):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """The module of os-ken."""
        name = ".".join(["os_ken", *spec.name.split(".")[1:]])
        found = importlib.import_module(name)
        self._own = found.__spec__, found.__loader__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """Executes nothing, because the module has been executed already; it keeps its own origin."""
        module.__spec__, module.__loader__ = self._own


if __name__ == "__main__":
    main()
