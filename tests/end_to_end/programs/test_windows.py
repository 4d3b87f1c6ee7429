"""`xterm` at the prompts: windows of a real tmux, in which shells of hosts run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import ENVIRONMENT, INTERRUPTIBLE, left_behind

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.usefixtures("virtual_kernel"),
]

LIMIT_S = 120.0
PERIOD_S = 0.1
THINKING_S = 1.5
CLOCK = "date +clock=%s.%N="
CLOCK_READ = re.compile(r"clock=([\d.]+)=")


class Tmux:
    """A tmux without anybody's settings, in whose first window a command runs."""

    def __init__(self, folder: Path, words: tuple[str, ...]) -> None:
        self.folder = folder
        environment = {**ENVIRONMENT, "TMPDIR": str(folder), "TMUX_TMPDIR": str(folder), "XDG_STATE_HOME": str(folder)}
        self._environment = {name: value for name, value in environment.items() if name not in ("TMUX", "DISPLAY")}
        line = shlex.join([sys.executable, *INTERRUPTIBLE[1:], *words])
        self.do("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "30", "-s", "lab", "-n", "prompt", line)

    def do(self, *words: str) -> str:
        """What a command of tmux's says."""
        command = ["tmux", "-S", str(self.folder / "tmux"), *words]
        return subprocess.run(
            command, env=self._environment, cwd=self.folder, capture_output=True, text=True, check=False
        ).stdout

    def is_there(self) -> bool:
        """Whether any window is open."""
        return bool(self.do("list-sessions"))

    def windows(self) -> list[str]:
        """Their names."""
        return self.do("list-windows", "-t", "lab", "-F", "#{window_name}").split()

    def press(self, window: str, *keys: str) -> None:
        """Presses keys in a window."""
        self.do("send-keys", "-t", f"lab:{window}", *keys)

    def seen(self, window: str) -> str:
        """What is on its screen and above."""
        return self.do("capture-pane", "-p", "-J", "-S", "-", "-t", f"lab:{window}")

    def until(self, window: str, mark: str) -> str:
        """What is there, once a mark has come."""
        end_s, before = time.monotonic() + LIMIT_S, ""
        while not re.search(mark, seen := self.seen(window), re.MULTILINE):
            assert time.monotonic() < end_s, seen
            assert seen, f"the window has closed: {before}"
            before = seen
            time.sleep(PERIOD_S)  # tmux has no way to wait for a text
        return seen

    def clocks(self, window: str) -> list[float]:
        """All readings of the clock in a window, after one more."""
        count = len(CLOCK_READ.findall(self.seen(window)))
        self.press(window, CLOCK, "Enter")
        found = self.until(window, rf"(clock=[\d.]+=\s(.|\n)*){{{count + 1}}}[#>] $")
        return [float(each) for each in CLOCK_READ.findall(found)]

    def until_gone(self, *windows: str) -> None:
        """Waits until windows have closed."""
        end_s = time.monotonic() + LIMIT_S
        while gone := set(windows) & set(self.windows()):
            assert time.monotonic() < end_s, gone
            time.sleep(PERIOD_S)


@pytest.fixture
def in_tmux(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Tmux]:
    tmux = Tmux(tmp_path, request.param)
    yield tmux
    subprocess.run(["tmux", "-S", str(tmp_path / "tmux"), "kill-server"], check=False, capture_output=True)


@pytest.mark.parametrize(
    ("in_tmux", "prompt"),
    [
        (("mn", "--topo", "single,2", "--switch", "ovsbr", "--controller", "none"), "mininet>"),
        (("shell", "--workers", "2", "--rate", "10gbit"), "gradwire>"),
    ],
    indirect=["in_tmux"],
)
def test_windows_are_shells_of_hosts_and_time_passes_while_their_commands_run(in_tmux: Tmux, prompt: str) -> None:
    at_prompt = rf"^{prompt}\s*\Z"
    in_tmux.until("prompt", at_prompt)
    in_tmux.press("prompt", "xterm h1 h2", "Enter")
    said = in_tmux.until("prompt", rf"h2: tmux window 2\n{prompt}")
    assert "h1: tmux window 1" in said
    for host in ("h1", "h2"):
        in_tmux.until(host, rf"^{host}:")
    in_tmux.press("h1", "ip -br address", "Enter")
    assert "10.0.0.1/" in in_tmux.until("h1", r"h1-eth0(.|\n)*^h1:.*# $")

    before_s = in_tmux.clocks("h1")[-1]
    time.sleep(THINKING_S)  # the wall clock is the one that has to pass here
    assert in_tmux.clocks("h1")[-1] - before_s < THINKING_S / 10

    in_tmux.press("h2", "ping h1" if prompt == "gradwire>" else "ping 10.0.0.1", "Enter")
    in_tmux.until("h2", "icmp_seq=2 ")
    for count in (1, 2):  # while a command runs in a window
        in_tmux.press("prompt", "h1 hostname", "Enter")
        in_tmux.until("prompt", rf"({prompt} h1 hostname\n(mininet|h1)\n(h1 hostname\n)?){{{count}}}{prompt}")
    in_tmux.press("h2", "C-c")
    in_tmux.until("h2", r" 0% packet loss(.|\n)*^h2:.*# $")
    in_tmux.press("h1", "echo $((6 *", "BSpace", "+ 7)); wait; sleep 3", "Enter")  # a line is edited in its window
    in_tmux.until("h1", r"^13(.|\n)*^h1:.*# $")
    assert in_tmux.clocks("h1")[-1] - before_s > 3

    in_tmux.press("h1", "exit", "Enter")
    in_tmux.until_gone("h1")
    in_tmux.press("prompt", "h1 hostname", "Enter")
    in_tmux.until("prompt", rf"(h1 hostname\n(mininet|h1)\n(.|\n)*){{3}}{prompt}")
    in_tmux.press("prompt", "exit", "Enter")
    end_s = time.monotonic() + LIMIT_S
    while in_tmux.is_there():
        assert time.monotonic() < end_s
        time.sleep(PERIOD_S)
    assert left_behind(in_tmux.folder) == []
    assert list(in_tmux.folder.glob("gradwire-*")) == []
