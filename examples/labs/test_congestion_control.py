"""Cubic and BBR share one line of 20 Mbit/s whose round trip is 100 ms: who gets how much depends on the buffer.

    pytest examples/labs/test_congestion_control.py
"""

import shutil

import pytest

LINE_BPS = 20e6
ROUND_TRIP_S = 0.1
FILLING_BYTES = int(LINE_BPS * ROUND_TRIP_S / 8)  # what is under way when the line is full: 250 kB
SECONDS = 20

pytestmark = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")


def shares(net, buffer_bytes):
    """The rates that cubic and BBR reach side by side, in bit/s of payload."""
    cubic, bbr, server = net.hosts("cubic", "bbr", "server")
    near, far = net.switch("near"), net.switch("far")
    net.link(cubic, near, rate="1gbit")
    net.link(bbr, near, rate="1gbit")
    net.link(server, far, rate="1gbit")
    net.link(near, far, rate=LINE_BPS, delay=ROUND_TRIP_S / 2, buffer=buffer_bytes)
    for port in (5201, 5202):
        server.start(f"iperf3 -s -p {port}")
    net.sleep("100ms")
    first = cubic.start(f"iperf3 -c server -p 5201 -C cubic -t {SECONDS} -J")
    second = bbr.start(f"iperf3 -c server -p 5202 -C bbr -t {SECONDS} -J")
    ends = [result.check().json()["end"] for result in net.wait(first, second)]
    return [end["sum_received"]["bits_per_second"] for end in ends]


def test_in_a_shallow_buffer_bbr_takes_the_line(gradwire_lab):
    cubic_bps, bbr_bps = shares(gradwire_lab(capture=False), FILLING_BYTES // 2)
    print(f"cubic {cubic_bps / 1e6:.1f} Mbit/s, BBR {bbr_bps / 1e6:.1f}")
    assert cubic_bps + bbr_bps > 0.8 * LINE_BPS
    assert bbr_bps > 2 * cubic_bps


def test_in_a_deep_buffer_cubic_holds_its_own(gradwire_lab):
    cubic_bps, bbr_bps = shares(gradwire_lab(capture=False), 8 * FILLING_BYTES)
    print(f"cubic {cubic_bps / 1e6:.1f} Mbit/s, BBR {bbr_bps / 1e6:.1f}")
    assert cubic_bps + bbr_bps > 0.8 * LINE_BPS
    assert cubic_bps > bbr_bps
