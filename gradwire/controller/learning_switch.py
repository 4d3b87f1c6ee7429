"""A controller whose switches learn addresses, for Mininet scripts that want the default one: `python -m
gradwire.controller.learning_switch PORT`.

It behaves like the controller of OpenFlow's reference implementation: it notes behind which port an address is, floods
packets to an unknown address, and for packets to a known one installs a rule that expires when it is no longer used.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import Any

from gradwire.controller import ryu_compat as ryu

IDLE_S = 60
"""Seconds for which a rule outlives its last packet (the reference controller's max_idle)."""
ADDRESS_BYTES = 6
LLDP = b"\x88\xcc"


class LearningSwitches(ryu.BaseApp):  # type: ignore[misc]
    """All switches that connect; each learns for itself."""

    OFP_VERSIONS = [ryu.ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 (the framework reads this attribute of the class)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        #: The port behind which an address is, by switch and address.
        self._ports: dict[tuple[int, bytes], int] = {}

    @ryu.set_ev_cls(ryu.ofp_event.EventOFPSwitchFeatures, ryu.CONFIG_DISPATCHER)  # type: ignore[untyped-decorator]
    def connected(self, event: Any) -> None:
        """Makes a switch send packets that match no rule to the controller."""
        switch = event.msg.datapath
        protocol, messages = switch.ofproto, switch.ofproto_parser
        to_here = [messages.OFPActionOutput(protocol.OFPP_CONTROLLER, protocol.OFPCML_NO_BUFFER)]
        self._install(switch, messages.OFPMatch(), to_here, priority=0, idle_s=0)

    @ryu.set_ev_cls(ryu.ofp_event.EventOFPPacketIn, ryu.MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def arrived(self, event: Any) -> None:
        """Learns from a packet, and sends it on."""
        message = event.msg
        switch, port, data = message.datapath, message.match["in_port"], bytes(message.data)
        to, sender = data[:ADDRESS_BYTES], data[ADDRESS_BYTES : 2 * ADDRESS_BYTES]
        if data[2 * ADDRESS_BYTES : 2 * ADDRESS_BYTES + 2] == LLDP:
            return
        protocol, messages = switch.ofproto, switch.ofproto_parser
        self._ports[switch.id, sender] = port
        known = self._ports.get((switch.id, to))
        actions = [messages.OFPActionOutput(protocol.OFPP_FLOOD if known is None else known)]
        if known is not None:
            match = messages.OFPMatch(in_port=port, eth_dst=_text(to), eth_src=_text(sender))
            self._install(switch, match, actions, priority=1, idle_s=IDLE_S)
        switch.send_msg(
            messages.OFPPacketOut(
                datapath=switch, buffer_id=protocol.OFP_NO_BUFFER, in_port=port, actions=actions, data=data
            )
        )

    @staticmethod
    def _install(switch: Any, match: Any, actions: list[Any], *, priority: int, idle_s: int) -> None:
        protocol, messages = switch.ofproto, switch.ofproto_parser
        applied = [messages.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)]
        switch.send_msg(
            messages.OFPFlowMod(
                datapath=switch, priority=priority, idle_timeout=idle_s, match=match, instructions=applied
            )
        )


def _text(address: bytes) -> str:
    return address.hex(":")


def main() -> None:
    """Serves until it is ended."""
    logging.basicConfig(level=logging.WARNING)
    ryu.cfg.CONF(args=["--ofp-tcp-listen-port", sys.argv[1]], project="gradwire", default_config_files=[])
    ryu.AppManager.run_apps([ryu.OFP_HANDLER, __name__])


if __name__ == "__main__":
    # The framework looks for the application in the module of its name, which this one is not.
    importlib.import_module("gradwire.controller.learning_switch").main()
