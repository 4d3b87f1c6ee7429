"""A data centre's tree as courses ask for it, for Mininet's own `mn --custom`: one core switch, aggregation switches, edge switches, hosts.

The line from each layer to the one above is faster, and its delay longer. `--topo datacenter,N` has N of each below the next.
"""

from mininet.topo import Topo

HOST_LINE = {"bw": 100, "delay": "1ms"}
EDGE_LINE = {"bw": 400, "delay": "2ms"}
CORE_LINE = {"bw": 1000, "delay": "5ms"}


class DataCenterTopo(Topo):
    """fanout: aggregation switches of the core, edge switches of each of them, and hosts of each of those."""

    def build(self, fanout=2):
        core = self.addSwitch("c1", dpid="0000000000000001")
        for a in range(1, fanout + 1):
            aggregation = self.addSwitch(f"a{a}", dpid=f"{0x100 + a:016x}")
            self.addLink(aggregation, core, **CORE_LINE)
            for e in range(1, fanout + 1):
                number = (a - 1) * fanout + e
                edge = self.addSwitch(f"e{number}", dpid=f"{0x200 + number:016x}")
                self.addLink(edge, aggregation, **EDGE_LINE)
                for h in range(1, fanout + 1):
                    host = self.addHost(f"h{(number - 1) * fanout + h}")
                    self.addLink(host, edge, **HOST_LINE)


topos = {"datacenter": DataCenterTopo}
