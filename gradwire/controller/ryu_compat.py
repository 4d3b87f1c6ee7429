"""The one place that names the controller framework: os-ken, or Ryu, which it continues and whose API it kept."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from importlib.util import find_spec
from types import ModuleType

from gradwire.faults import MachineFault

# The framework's 300 modules load a quarter faster without it, and a process that sends a few thousand messages does
# not need it.
gc.disable()


def framework_name() -> str:
    """Top-level package of the framework: "os_ken" if installed, else "ryu". Raises MachineFault if neither is."""
    for name in ("os_ken", "ryu"):
        if find_spec(name):
            return name
    raise MachineFault("neither os-ken nor ryu is installed; install one with `pip install os-ken`")


FRAMEWORK = framework_name()

ALL_VERSIONS_VARIABLE = "GRADWIRE_ALL_OPENFLOW_VERSIONS"
"""Set for a controller of switches that are not ours, which begin with the latest version that they speak."""
OTHER_VERSIONS = {"ofproto_v1_2": 3, "ofproto_v1_4": 5, "ofproto_v1_5": 6}
"""Modules of protocol versions that no switch of ours speaks, and the number that each version has on the wire."""


def leave_out(framework: str) -> None:
    """Puts empty modules in the place of modules that the framework imports and that are not needed here: they take
    half of its time to import.

    These are other versions of OpenFlow, packets of all protocols (no switch sends the controller one), and URIs in
    configuration files. Any use of them raises AttributeError.
    """
    for version, number in OTHER_VERSIONS.items():
        _empty_module(f"{framework}.ofproto.{version}").__dict__["OFP_VERSION"] = number
        _empty_module(f"{framework}.ofproto.{version}_parser")
    # The package's own code imports every protocol; its lists of numbers are wanted and are found by the path.
    library = find_spec(f"{framework}.lib")
    assert library is not None
    packets = _empty_module(f"{framework}.lib.packet")
    packets.__path__ = [f"{folder}/packet" for folder in library.submodule_search_locations or ()]
    _empty_module(f"{framework}.lib.packet.packet")
    _empty_module("rfc3986")


def _empty_module(name: str) -> ModuleType:
    return sys.modules.setdefault(name, ModuleType(name))


if ALL_VERSIONS_VARIABLE not in os.environ:
    leave_out(FRAMEWORK)

# The order matters: the framework's modules import each other in a circle that can only be entered here.
app_manager = importlib.import_module(f"{FRAMEWORK}.base.app_manager")
cfg = importlib.import_module(f"{FRAMEWORK}.cfg")
ofp_event = importlib.import_module(f"{FRAMEWORK}.controller.ofp_event")
_handler = importlib.import_module(f"{FRAMEWORK}.controller.handler")
ofproto_v1_3 = importlib.import_module(f"{FRAMEWORK}.ofproto.ofproto_v1_3")

OFP_HANDLER = f"{FRAMEWORK}.controller.ofp_handler"
AppManager = app_manager.AppManager
# Ryu's class is RyuApp, os-ken's OSKenApp.
BaseApp = app_manager.OSKenApp if FRAMEWORK == "os_ken" else app_manager.RyuApp
set_ev_cls = _handler.set_ev_cls
CONFIG_DISPATCHER = _handler.CONFIG_DISPATCHER
HANDSHAKE_DISPATCHER = _handler.HANDSHAKE_DISPATCHER
MAIN_DISPATCHER = _handler.MAIN_DISPATCHER
