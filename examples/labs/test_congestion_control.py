"""Cubic and BBR share one line of 20 Mbit/s whose round trip is 100 ms: who gets how much depends on the buffer.

pytest examples/labs/test_congestion_control.py
"""

import sys
from pathlib import Path

BULK = str(Path(__file__).with_name("bulk.py"))
LINE_BPS = 20e6
ROUND_TRIP_S = 0.1
FILLING_BYTES = int(LINE_BPS * ROUND_TRIP_S / 8)  # what is under way when the line is full: 250 kB
SECONDS = 20


def shares(net, buffer_bytes):
    """The rates at which cubic and BBR deliver side by side, in bit/s of payload."""
    cubic, bbr, server = net.hosts("cubic", "bbr", "server")
    near, far = net.switch("near"), net.switch("far")
    for host, switch in ((cubic, near), (bbr, near), (server, far)):
        net.link(host, switch, rate="1gbit")
    net.link(near, far, rate=LINE_BPS, delay=ROUND_TRIP_S / 2, buffer=buffer_bytes)
    receivers = [server.start([sys.executable, BULK, "receive", port]) for port in ("5001", "5002")]
    net.sleep("100ms")
    for host, port in ((cubic, "5001"), (bbr, "5002")):
        host.start([sys.executable, BULK, "send", "server", port, host.name, str(SECONDS)])
    cubic_bps, bbr_bps = (float(result.check().stdout) for result in net.wait(*receivers))
    print(f"buffer of {buffer_bytes // 1000} kB: cubic {cubic_bps / 1e6:.1f} Mbit/s, BBR {bbr_bps / 1e6:.1f}")
    return cubic_bps, bbr_bps


def test_in_a_shallow_buffer_bbr_takes_the_line(gradwire_lab):
    cubic_bps, bbr_bps = shares(gradwire_lab(), FILLING_BYTES // 5)
    assert cubic_bps + bbr_bps > 0.7 * LINE_BPS
    assert bbr_bps > 1.5 * cubic_bps


def test_in_a_deep_buffer_cubic_takes_it(gradwire_lab):
    cubic_bps, bbr_bps = shares(gradwire_lab(), 8 * FILLING_BYTES)
    assert cubic_bps + bbr_bps > 0.7 * LINE_BPS
    assert cubic_bps > bbr_bps
