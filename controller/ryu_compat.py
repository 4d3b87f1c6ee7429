"""The one place that names the controller framework: os-ken, or Ryu, which it continues and whose API it kept."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from gradwire.faults import MachineFault


def framework_name() -> str:
    """Top-level package of the framework: "os_ken" if installed, else "ryu". Raises MachineFault if neither is."""
    for name in ("os_ken", "ryu"):
        if find_spec(name):
            return name
    raise MachineFault("neither os-ken nor ryu is installed; install one with `pip install os-ken`")


FRAMEWORK = framework_name()

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
