"""A training job whose switch restarts: the steps that it hits are late, and no sum is wrong.

pytest examples/labs/test_switch_restarts.py
"""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
HOSTS = 4
STEPS = 20
ELEMENTS = 100_000


def train(net, restart_s=0.0):
    """How long each step took, on the host where it took longest."""
    s1 = net.switch()
    hosts = net.hosts(*(f"h{number}" for number in range(1, HOSTS + 1)))
    for host in hosts:
        net.link(host, s1, rate="1gbit", delay="100us")
    command = [sys.executable, str(HERE / "ring_allreduce.py"), str(STEPS), str(ELEMENTS)]
    ranks = [host.start(command) for host in hosts]
    if restart_s:
        net.at("500ms", lambda: s1.restart(restart_s))
    results = [result.check() for result in net.wait(*ranks, timeout="5min")]
    times_s = [[float(line.split()[2]) for line in result.stdout.splitlines()] for result in results]
    assert all(len(each) == STEPS for each in times_s)
    return [max(step) for step in zip(*times_s)]


def test_a_restart_delays_few_steps_and_the_job_continues(gradwire_lab):
    calm_s, restarted_s = train(gradwire_lab(capture=False)), train(gradwire_lab(), restart_s=1.0)
    print(f"steps take {max(calm_s):.3f} s at most, and {max(restarted_s):.3f} s with the restart")
    assert max(calm_s) < 0.05
    late_s = [step_s for step_s in restarted_s if step_s > 0.05]
    assert len(late_s) <= 3  # what was sent meanwhile is sent again when TCP's timer says so, which doubles each time
    assert max(late_s) > 0.9


def test_ddp_of_pytorch_survives_a_restart(gradwire_lab):
    pytest.importorskip("torch", reason="torch is not installed in this Python; the ring above shows the same")
    net = gradwire_lab(memory="4GiB")
    s1, hosts = net.switch(), net.hosts("h1", "h2")
    for host in hosts:
        net.link(host, s1, rate="1gbit", delay="100us")
    ranks = [
        host.start(
            [sys.executable, str(HERE.parent / "programs" / "allreduce.py"), "10000000", "20"],
            env={
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LOCAL_RANK": "0",
                "MASTER_ADDR": "h1",
                "MASTER_PORT": "29500",
                "GLOO_SOCKET_IFNAME": host.interface,
                "GRADWIRE_FIGURES": "/dev/null",
            },
        )
        for rank, host in enumerate(hosts)
    ]
    net.at("100ms", lambda: s1.restart("1s"))
    for result in net.wait(*ranks, timeout="10min"):
        result.check()
