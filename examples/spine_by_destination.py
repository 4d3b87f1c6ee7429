"""A user's controller, for `fabric.controller`: shortest ways through leaves and spines, the spine by the destination.

It learns nothing: each switch gets its flows when it connects. What the network is like is in the file that GRADWIRE_NETWORK
names. Ports choose queues by the DSCP of packets, so flows need not.
"""

import json
import os

from os_ken.base import app_manager
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, set_ev_cls
from os_ken.ofproto import ofproto_v1_3


class SpineByDestination(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]  # noqa: RUF012 (the framework reads this attribute of the class)

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        with open(os.environ["GRADWIRE_NETWORK"]) as file:
            network = json.load(file)
        self.hosts = network["hosts"]
        self.ports = {}  # of each switch: towards each neighbour
        for link in network["links"]:
            self.ports.setdefault(link["dpid"], {})[link["peer_dpid"]] = link["port"]
            self.ports.setdefault(link["peer_dpid"], {})[link["dpid"]] = link["peer_port"]

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def connected(self, event):
        switch = event.msg.datapath
        parser, neighbours = switch.ofproto_parser, self.ports[switch.id]
        for number, host in enumerate(self.hosts):
            if host["dpid"] == switch.id:
                port = host["port"]
            elif host["dpid"] in neighbours:  # a spine's way down
                port = neighbours[host["dpid"]]
            else:  # a leaf's way up
                port = list(neighbours.values())[number % len(neighbours)]
            match = parser.OFPMatch(eth_type=0x0800, ipv4_dst=host["ip"])
            actions = [parser.OFPActionOutput(port)]
            apply = parser.OFPInstructionActions(switch.ofproto.OFPIT_APPLY_ACTIONS, actions)
            switch.send_msg(parser.OFPFlowMod(switch, priority=10, match=match, instructions=[apply]))
