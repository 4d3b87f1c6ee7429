"""Unmodified Mininet scripts and command lines of `mn`, as a user runs them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import Executed, left_behind
from tests.shared.commands import gradwire_command
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

EXAMPLES = Path(__file__).parents[3] / "examples"
LAB = """
import json, sys
from functools import partial
from mininet.link import TCLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

setLogLevel("info")
bw = float(sys.argv[1])
net = Mininet(topo=SingleSwitchTopo(2), link=partial(TCLink, bw=bw, delay="50us"))
net.start()
assert net.pingAll() == 0
h1, h2 = net["h1"], net["h2"]
h2.cmd("iperf3 -s -D")
said = json.loads(h1.cmd("iperf3 -J -i 0.5 -t 1 -w 8M -c", h2.IP()))
# A fast link's first half second has the slow start in it, and a slow link's second half is a few writes of 128 KiB.
counted = said["intervals"][1]["sum"] if bw > 1000 else said["end"]["sum_received"]
print("share", counted["bits_per_second"] / (bw * 1e6 * 1448 / 1514))
print(h1.cmd("ping -c 3 -q", h2.IP()).splitlines()[-1])
net.stop()
sys.exit(7)
"""
TWO_HOSTS = """
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo
net = Mininet(topo=SingleSwitchTopo(2))
net.start()
"""


def run(folder: Path, *words: str, typed: str = "") -> Executed:
    """`gradwire WORDS` in a folder, with its run in folder/run if it is `mininet`."""
    done = gradwire_command(*words, cwd=folder, typed=typed)
    return Executed(done.returncode, done.stdout, done.stderr, folder / "run")


def run_script(folder: Path, text: str, *options: str, arguments: tuple[str, ...] = ()) -> Executed:
    (folder / "lab.py").write_text(text)
    return run(folder, "mininet", "--out", "run", *options, "lab.py", *arguments)


def told(executed: Executed) -> list[str]:
    """What gradwire itself said at the end."""
    return [line for line in executed.err.splitlines() if re.match(r"error|failed|lab\.py:", line)]


@pytest.mark.parametrize("bw", ["100", "100000"])
def test_a_link_has_its_rate_and_a_script_its_status(tmp_path: Path, bw: str) -> None:
    done = run_script(tmp_path, LAB, arguments=(bw,))
    assert done.status == 7, done.err
    share = float(re.findall(r"share ([\d.]+)", done.out)[0])
    assert share == pytest.approx(1.0, abs=0.01)
    round_trip_ms = float(re.findall(r"= [\d.]+/([\d.]+)/", done.out)[0])
    assert 0.199 <= round_trip_ms < 0.26  # tc counts delays in ticks of 64 ns, and ping cuts digits off
    assert "0% dropped (2/2 received)" in done.err
    assert (done.folder / "output" / "script.out").read_text() == done.out
    assert left_behind(tmp_path) == []


def test_a_run_repeats(tmp_path: Path) -> None:
    text = TWO_HOSTS + "import time\nprint(net['h1'].cmd('ping -c 2 10.0.0.2'), repr(time.monotonic()))\nnet.stop()\n"
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    outputs = [run_script(folder, text) for folder in folders]
    assert outputs[0].status == 0, outputs[0].err
    assert re.findall(r"time=[\d.]+ ms", outputs[0].out) == re.findall(r"time=[\d.]+ ms", outputs[1].out)


def test_mn_reads_commands_and_its_clock_stands_still_meanwhile(tmp_path: Path) -> None:
    typed = "nodes\nh1 ping -c 1 h2\npy 6 * 7\nlink s1 h1 down\npingpair\n"
    done = run(tmp_path, "mn", "--topo", "linear,2", typed=typed)
    assert done.status == 0, done.err
    said = done.out + done.err
    assert tells(said, "c0", "h1", "h2", "s1", "s2")
    assert tells(said, "1 packets transmitted", "1 received")
    assert "42" in said
    assert "100% dropped (0/2 received)" in said
    assert (tmp_path / "runs" / "mininet-mn" / "summary.json").exists()


@pytest.mark.long
def test_a_custom_topology_has_its_delays_and_its_slowest_line(tmp_path: Path) -> None:
    typed = "h1 ping -c 4 -q h8\nh1 ping -c 4 -q h2\niperf h1 h8\n"
    words = ("--custom", str(EXAMPLES / "custom_topology.py"), "--topo", "datacenter,2", "--link", "tc")
    done = run(tmp_path, "mn", *words, typed=typed)
    assert done.status == 0, done.err
    said = done.out + done.err
    least_ms = [float(least) for least in re.findall(r"= ([\d.]+)/", said)]
    assert least_ms == [pytest.approx(32.0, abs=0.01), pytest.approx(4.0, abs=0.01)]
    rates_mbps = [float(rate) for rate in re.findall(r"([\d.]+) Mbits/sec", said)]
    assert len(rates_mbps) == 2
    assert all(0.9 * 95.6 < rate <= 95.6 for rate in rates_mbps)  # what TCP gets of 100, after a slow start over 32 ms


def test_a_script_that_does_not_end_is_stopped_with_one_message(tmp_path: Path) -> None:
    text = TWO_HOSTS + "import time\nwhile True:\n    time.sleep(1)\n"
    done = run_script(tmp_path, text, "--time-limit", "50s")
    assert done.status == 3
    assert len(told(done)) == 1
    assert tells(told(done)[0], "50 s", "virtual", "lab.py", "stopped")
    assert left_behind(tmp_path) == []


def test_a_script_that_computes_for_ever_is_stopped_with_one_message(tmp_path: Path) -> None:
    done = run_script(tmp_path, "while True:\n    pass\n", "--stall-limit", "5s")
    assert done.status == 2
    assert len(told(done)) == 1
    assert tells(told(done)[0], "no virtual time", "5 s")
    assert left_behind(tmp_path) == []


def test_a_script_that_forks_without_end_is_stopped_with_one_message(tmp_path: Path) -> None:
    done = run_script(
        tmp_path, "import os, time\nwhile True:\n    os.fork()\n    time.sleep(1e-3)\n", "--memory", "512M"
    )
    assert done.status == 2
    assert len(told(done)) == 1
    assert re.search(r"\d+ processes .*256 .*--memory", told(done)[0])
    assert left_behind(tmp_path) == []


def test_who_wants_the_internet_is_told_that_there_is_none(tmp_path: Path) -> None:
    text = "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/')\n"
    done = run_script(tmp_path, text)
    assert done.status == 1
    assert "the internet" in told(done)[0]


def test_the_temporary_folder_is_the_scripts_own_and_is_kept(tmp_path: Path) -> None:
    text = "import os\nassert os.path.exists('lab.py')\nopen('/tmp/result', 'w').write(str(os.listdir('/tmp')))\n"
    done = run_script(tmp_path, text)
    assert done.status == 0, done.err
    assert "result" in (done.folder / "tmp" / "result").read_text()
    assert not Path("/tmp/result").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("nowhere.py",), "no such file"),
        (("--python", "python-that-is-not-there", "lab.py"), "no such program"),
        (("--rate", "400gbit", "lab.py"), "up to 100 Gbit/s"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_boots(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    (tmp_path / "lab.py").write_text("print('ran')\n")
    done = run(tmp_path, "mininet", "--out", "run", *words)
    assert done.status == 2
    assert len(done.err.splitlines()) == 1, done.err
    assert why in done.err
    assert not done.folder.exists()


def test_the_python_of_the_user_can_be_another(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    python = tmp_path_factory.mktemp("venv") / "bin" / "python"  # below /tmp, of which a script has its own
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    done = run_script(tmp_path, "import sys; print(sys.executable)\n", "--python", str(python))
    assert (done.status, done.out.strip()) == (0, str(python))
