"""A Raft cluster whose leader's link flaps: another leads, and no committed entry is lost or changed.

The Raft is the small one of raft.py, in plain Python.

    pytest examples/labs/test_raft_leader_flaps.py
"""

import sys
from pathlib import Path

RAFT = Path(__file__).with_name("raft.py")
NODES = ("n1", "n2", "n3")
SECONDS = 6


def events(process, word):
    """The words behind one of them in the lines that a node has printed."""
    lines = (line.split() for line in process.stdout.splitlines())
    return [line[2:] for line in lines if line[1] == word]


def cluster(net):
    """The nodes and their links, and a leader after a second."""
    s1 = net.switch()
    hosts = net.hosts(*NODES)
    links = {host.name: net.link(host, s1, rate="1gbit", delay="2ms") for host in hosts}
    nodes = {
        host.name: host.start([sys.executable, str(RAFT), str(SECONDS)], env={"SEED": str(net.settings.seed)})
        for host in hosts
    }
    net.sleep("1s")
    (leader,) = [name for name, node in nodes.items() if events(node, "leader")]
    return nodes, links, leader


def test_another_leads_while_the_leaders_link_flaps(gradwire_lab):
    net = gradwire_lab()
    nodes, links, first = cluster(net)
    links[first].flap(every="1s", duration="3s")  # down for 500 ms, three times
    for result in net.wait(*nodes.values()):
        result.check()

    leaders = [(int(term), name) for name, node in nodes.items() for (term,) in events(node, "leader")]
    assert len({term for term, _ in leaders}) == len(leaders), "two leaders in one term"
    assert {name for _, name in leaders} > {first}, "nobody else ever led"

    logs = [[tuple(entry) for entry in events(node, "committed")] for node in nodes.values()]
    shortest = min(map(len, logs))
    assert all(log[:shortest] == logs[0][:shortest] for log in logs), "nodes committed different entries"
    assert shortest > 0.5 * SECONDS / 0.05, "hardly anything was committed"


def test_the_same_seed_elects_the_same_leaders_at_the_same_nanosecond(gradwire_lab):
    outputs = []
    for _ in range(2):
        net = gradwire_lab(seed=7, capture=False)
        nodes, links, first = cluster(net)
        links[first].down(duration="500ms")
        net.sleep("1s")
        outputs.append([node.stdout for node in nodes.values()])
    assert outputs[0] == outputs[1]
