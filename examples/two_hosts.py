"""A script of Mininet, as its users write them: two hosts with links of 100 Gbit/s. `gradwire mininet examples/two_hosts.py` runs it."""

from functools import partial

from mininet.link import TCLink
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

if __name__ == "__main__":
    net = Mininet(topo=SingleSwitchTopo(2), link=partial(TCLink, bw=100000, delay="10us"))
    net.start()
    net.pingAll()
    net["h2"].cmd("iperf3 -s -D")
    print(net["h1"].cmd("iperf3 -t 1 -c", net["h2"].IP()))
    net.stop()
