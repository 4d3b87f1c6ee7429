import json
from typing import Any

import pytest

from gradwire.faults import MachineFault
from gradwire.network.fabric import Port
from gradwire.topo.counters import (
    BandCounters,
    DatapathCounters,
    PortCounters,
    TcpCounters,
    parse_dropped_reports,
    parse_input_drops,
    parse_lookups,
    parse_qdiscs,
    parse_table_misses,
    parse_tcp,
    read_port_queues,
)

PORT = Port("s1", 1)
# As `tc -s -j qdisc show` of iproute2 6.1 prints a switch port with two bands, after three pings in band 1.
QDISCS = """[{"kind":"noqueue","handle":"0:","dev":"lo","root":true,"refcnt":2,"options":{},"bytes":0,"packets":0,"drops":0,
"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"htb","handle":"5:","dev":"s1-eth1","root":true,"refcnt":2,
"options":{"r2q":10,"default":"0x1","direct_packets_stat":0,"direct_qlen":1000},"bytes":294,"packets":3,"drops":0,
"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"pfifo","handle":"8003:","dev":"s1-eth1","parent":"1:1",
"options":{"limit":100000},"bytes":0,"packets":0,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"prio",
"handle":"1:","dev":"s1-eth1","parent":"5:1","options":{"bands":2,"priomap":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],
"multiqueue":false},"bytes":294,"packets":3,"drops":0,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},{"kind":"pfifo",
"handle":"8004:","dev":"s1-eth1","parent":"1:2","options":{"limit":100000},"bytes":294,"packets":3,"drops":0,"overlimits":0,
"requeues":0,"backlog":0,"qlen":0}]"""
# As `ovs-appctl dpctl/show` of Open vSwitch 3.1 prints it.
SHOW = """system@ovs-system:
  lookups: hit:4 missed:2 lost:0
  flows: 2
  masks: hit:5 total:1 hit/pkt:0.83
  cache: hit:3 hit-rate:50.00%
  port 0: ovs-system (internal)
  port 1: s1-eth2
"""
# As `ovs-ofctl -O OpenFlow13 dump-flows` of Open vSwitch 3.1 prints it, with some misses.
FLOWS = """OFPST_FLOW reply (OF1.3) (xid=0x2):
 cookie=0x0, duration=3.053s, table=0, n_packets=3, n_bytes=294, priority=100,ip,nw_dst=10.0.0.1,nw_tos=180 actions=set_queue:1,output:1
 cookie=0x0, duration=3.053s, table=0, n_packets=8, n_bytes=8, priority=100,ip,nw_dst=10.0.0.2,nw_tos=0 actions=set_queue:0,output:2
 cookie=0x0, duration=3.053s, table=0, n_packets=17, n_bytes=0, priority=0 actions=drop
"""
# The beginning of Linux 6.12's tables, each a line of names and a line of values.
SNMP = """Ip: Forwarding DefaultTTL InReceives
Ip: 2 64 3
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs
Tcp: 1 200 120000 -1 0 0 0 0 0 11 12 5 0
Udp: InDatagrams NoPorts
Udp: 0 0
"""
NETSTAT = """TcpExt: SyncookiesSent TCPTimeouts TCPLossProbes
TcpExt: 0 2 1
IpExt: InNoRoutes InTruncatedPkts InCEPkts
IpExt: 0 0 4
"""


def qdiscs(**changes: Any) -> list[dict[str, Any]]:
    """QDISCS with the leaf of band 1 changed."""
    entries: list[dict[str, Any]] = json.loads(QDISCS)
    next(entry for entry in entries if entry.get("parent") == "1:2").update(changes)
    return entries


def test_bands_are_the_leaves_below_major_number_1() -> None:
    (port,) = parse_qdiscs(json.loads(QDISCS), {"s1-eth1": PORT}, bands=2)
    assert port == PortCounters(
        PORT,
        (
            BandCounters(bytes_sent=0, packets_sent=0, drops=0),
            BandCounters(bytes_sent=294, packets_sent=3, drops=0),
        ),
    )


def test_interfaces_on_the_machine_are_given_back_as_the_fabrics_ports() -> None:
    (port,) = parse_qdiscs(json.loads(QDISCS.replace("s1-eth1", "gws1-eth1")), {"gws1-eth1": PORT}, bands=2)
    assert port.port == PORT


@pytest.mark.parametrize("changes", [{"parent": "1:3"}, {"dev": "s1-eth2"}])
def test_a_port_that_lost_a_band_is_rejected(changes: dict[str, str]) -> None:
    with pytest.raises(MachineFault, match="for band 1"):
        parse_qdiscs(qdiscs(**changes), {"s1-eth1": PORT}, bands=2)


def test_marks_are_those_of_the_queue_also_below_a_fault() -> None:
    marking = {"kind": "red", "marked": 7, "overlimits": 9, "options": {"limit": 100_000, "min": 30_000, "max": 40_000}}
    (port,) = parse_qdiscs(qdiscs(**marking), {"s1-eth1": PORT}, bands=2)
    assert (port.bands[1].marks, port.bands[1].above_threshold) == (7, 9)
    (earlier,) = parse_qdiscs(qdiscs(**{**marking, "marked": 3}), {"s1-eth1": PORT}, bands=2)
    assert port.since(earlier).bands[1].marks == 4
    entries = [*qdiscs(kind="netem"), {"dev": "s1-eth1", "parent": "101:1", **marking}]
    (impaired,) = parse_qdiscs(entries, {"s1-eth1": PORT}, bands=2)
    assert (impaired.bands[1].bytes_sent, impaired.bands[1].marks) == (294, 7)
    assert [*vars(impaired.bands[1]).values()][-3:] == [100_000, 30_000, 40_000]
    assert [*vars(port.bands[0]).values()][-3:] == [0, 0, 0]
    (fifo,) = parse_qdiscs(qdiscs(kind="bfifo", options={"limit": 50_000}), {"s1-eth1": PORT}, bands=2)
    assert [*vars(fifo.bands[1]).values()][-3:] == [50_000, 0, 0]


def test_since_subtracts() -> None:
    (before,) = parse_qdiscs(qdiscs(), {"s1-eth1": PORT}, bands=2)
    (after,) = parse_qdiscs(qdiscs(bytes=1294, packets=5, drops=4), {"s1-eth1": PORT}, bands=2)
    difference = after.since(before)
    assert difference.bands[1] == BandCounters(bytes_sent=1000, packets_sent=2, drops=4)
    assert (difference.sent_bytes, difference.drops) == (1000, 4)


def test_lookups_are_summed_over_datapaths() -> None:
    assert parse_lookups(SHOW) == (4, 2, 0)
    assert parse_lookups(SHOW + SHOW.replace("lost:0", "lost:9")) == (8, 4, 9)


def test_no_datapath_is_rejected() -> None:
    with pytest.raises(MachineFault, match="no datapath"):
        parse_lookups("")


def test_table_misses_are_the_packets_of_priority_0_alone() -> None:
    assert parse_table_misses(FLOWS) == 17


def test_a_switch_without_table_miss_rule_is_rejected() -> None:
    with pytest.raises(MachineFault, match="table-miss"):
        parse_table_misses("\n".join(FLOWS.splitlines()[:-1]))


def test_datapath_counters_since() -> None:
    assert DatapathCounters(10, 5, 3, 2).since(DatapathCounters(4, 3, 2, 1)) == DatapathCounters(6, 2, 1, 1)


def test_the_kernels_drops_are_summed_over_its_processors() -> None:
    assert parse_input_drops("0000000a 000000f5 00000000\n00000001 00000001 00000000\n") == 246
    with pytest.raises(MachineFault, match="softnet_stat"):
        parse_input_drops("0000000a\n")


def test_reports_of_groups_are_told_from_other_packets_that_rules_drop() -> None:
    flows = """ cookie=0x0, duration=1.2s, table=0, n_packets=3, n_bytes=270, priority=20,ipv6,ipv6_dst=ff02::16 actions=drop
 cookie=0x0, duration=1.2s, table=0, n_packets=2, n_bytes=108, priority=20,ip,nw_dst=224.0.0.22 actions=drop
 cookie=0x0, duration=1.2s, table=0, n_packets=4, n_bytes=240, priority=300,dl_dst=01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0 actions=drop
 cookie=0x0, duration=1.2s, table=0, n_packets=9, n_bytes=270, priority=65000,udp actions=drop
 cookie=0x0, duration=1.2s, table=0, n_packets=7, n_bytes=270, priority=0 actions=drop
"""
    assert parse_dropped_reports(flows) == 9


def test_tcp_counters_are_found_by_name() -> None:
    counters = parse_tcp(SNMP, NETSTAT)
    assert counters == TcpCounters(segments_sent=12, segments_retransmitted=5, timeouts=2, marked_packets=4)
    assert counters.since(TcpCounters(10, 4, 2, 1)) == TcpCounters(2, 1, 0, 3)


def test_missing_tcp_counters_are_rejected() -> None:
    with pytest.raises(MachineFault, match="TCPTimeouts"):
        parse_tcp(SNMP, NETSTAT.replace("TCPTimeouts", "Other"))
    with pytest.raises(MachineFault, match="TcpExt"):
        parse_tcp(SNMP, "")


def test_queues_that_a_program_replaced_are_read_with_what_the_root_counts() -> None:
    root = {"kind": "htb", "dev": "s1-eth1", "root": True, "bytes": 900, "packets": 4, "drops": 2}
    (before,) = read_port_queues([root, *qdiscs()], {"s1-eth1": PORT}, bands=2)
    assert before.bands == parse_qdiscs(qdiscs(), {"s1-eth1": PORT}, bands=2)[0]
    assert before.put_in_place_of(before) == ()
    netem = {**root, "kind": "netem"}
    (after,) = read_port_queues([netem], {"s1-eth1": PORT}, bands=2)
    assert (after.layout, after.sent_bytes, after.bands) == (("root netem",), 900, None)
    assert after.put_in_place_of(before) == ("root netem",)
    (bare,) = read_port_queues([], {"s1-eth1": PORT}, bands=2)
    assert (bare.put_in_place_of(before), bare.sent_bytes) == (("nothing",), 0)


def test_a_queue_below_a_band_is_named_by_its_place() -> None:
    root = {"kind": "htb", "dev": "s1-eth1", "root": True, "bytes": 900, "packets": 4, "drops": 2}
    (before,) = read_port_queues([root, *qdiscs()], {"s1-eth1": PORT}, bands=2)
    changed = [{**entry, "kind": "netem"} if entry.get("parent") == "1:1" else entry for entry in qdiscs()]
    (after,) = read_port_queues([root, *changed], {"s1-eth1": PORT}, bands=2)
    assert after.put_in_place_of(before) == ("1:1 netem",)


def test_what_holds_filters_alone_replaces_no_queue() -> None:
    root = {"kind": "htb", "dev": "s1-eth1", "root": True, "bytes": 900, "packets": 4, "drops": 2}
    hook = {"kind": "clsact", "dev": "s1-eth1", "parent": "ffff:fff1", "bytes": 0, "packets": 0, "drops": 0}
    (before,) = read_port_queues([root, *qdiscs()], {"s1-eth1": PORT}, bands=2)
    (after,) = read_port_queues([root, *qdiscs(), hook], {"s1-eth1": PORT}, bands=2)
    assert after.put_in_place_of(before) == ()
