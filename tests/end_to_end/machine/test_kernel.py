"""The virtual-time kernel for real: time, status, output, limits, and that nothing outlives its caller."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from gradwire import PACKAGE
from gradwire.faults import MachineFault
from gradwire.vm.batch_job import run_virtual
from gradwire.vm.kernel import ensure_kernel
from gradwire.vm.machine import JOB_FOLDER, Boot
from tests.shared.parts import in_order

pytestmark = pytest.mark.kernel

WALL_LIMIT_S = 60.0
"""More than any job here takes on a busy machine."""


@pytest.fixture(scope="module")
def kernel() -> Path:
    """The cached kernel, built on first use."""
    return ensure_kernel(lambda *_: None)


class Job:
    """Runs a command in the kernel and keeps what it wrote."""

    def __init__(self, kernel: Path, workdir: Path) -> None:
        self.kernel = kernel
        self.workdir = workdir
        self.lines: list[str] = []

    def run(
        self,
        *argv: str,
        env: dict[str, str] | None = None,
        openvswitch: bool = False,
        memory_mb: int = 512,
        time_limit_s: float = WALL_LIMIT_S,
        stop: threading.Event | None = None,
    ) -> int:
        return run_virtual(
            Boot(
                argv,
                env=env or {},
                cpu=max(os.sched_getaffinity(0)),
                memory_mb=memory_mb,
                workdir=self.workdir,
                openvswitch=openvswitch,
                kernel=self.kernel,
            ),
            time_limit_s=time_limit_s,
            on_line=self.lines.append,
            stop=stop,
        )


@pytest.fixture
def job(kernel: Path, tmp_path: Path) -> Job:
    return Job(kernel, tmp_path)


def kernel_processes(kernel: Path, workdir: Path) -> list[int]:
    """Living processes of kernels that serve `workdir`; zombies only wait for init to take note of them."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                is_kernel = (folder / "cmdline").read_bytes().startswith(str(kernel).encode())
                if is_kernel and (folder / "cwd").readlink() == workdir:
                    found.append(int(folder.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def test_a_thousand_virtual_seconds_pass_in_a_few_wall_seconds(job: Job) -> None:
    start_s = time.monotonic()
    sleep = "import time; a = time.monotonic(); time.sleep(1000); print(time.monotonic() - a)"
    assert job.run(sys.executable, "-c", sleep) == 0
    assert time.monotonic() - start_s < 300
    assert float(job.lines[0]) == pytest.approx(1000, abs=0.01)


def test_status_output_environment_and_files_come_out(job: Job) -> None:
    script = 'echo "to stderr" >&2; echo "$NAME $(id -u)"; cp /proc/uptime result; printf unfinished; exit 7'
    assert job.run("sh", "-c", script, env={"NAME": "a 'quoted' $value"}) == 7
    assert job.lines == ["to stderr", "a 'quoted' $value 0", "unfinished"]
    assert (job.workdir / "result").read_text().startswith("0.")
    assert [path.name for path in job.workdir.iterdir()] == ["result"]


def test_a_long_output_comes_out_whole(job: Job) -> None:
    assert job.run("seq", "200000") == 0
    assert job.lines == [str(i) for i in range(1, 200001)]


def test_a_killed_job_has_the_status_of_its_signal(job: Job) -> None:
    assert job.run("sh", "-c", "kill -9 $$") == 128 + 9


def test_a_command_that_does_not_exist_is_told(job: Job) -> None:
    assert job.run("no-such-program") == 127
    assert "no-such-program" in job.lines[0]


@pytest.mark.parametrize("name", ["two words", 'a "quoted" $name'])
def test_the_jobs_folder_has_one_name_whatever_it_is_called(kernel: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    job = Job(kernel, folder)
    assert job.run("sh", "-c", "pwd; touch here") == 0
    assert job.lines == [JOB_FOLDER]
    assert [path.name for path in folder.iterdir()] == ["here"]


def test_chance_and_the_calendar_are_the_same_in_every_kernel(kernel: Path, tmp_path: Path) -> None:
    said = []
    for name in ("one", "another one, with a longer name"):
        folder = tmp_path / name
        folder.mkdir()
        job = Job(kernel, folder)
        assert (
            job.run("sh", "-c", "cat /proc/sys/kernel/random/uuid; date -u +%F; head -c 8 /dev/urandom | od -t x1") == 0
        )
        said.append(job.lines)
    assert said[0] == said[1]
    assert said[0][1] == "2025-01-01"


def test_open_vswitch_switches_in_the_kernel_with_handler_threads(job: Job) -> None:
    script = (
        "ovs-vsctl add-br s1 && ovs-appctl dpif/show && ovs-appctl coverage/show >/dev/null && "
        "grep -hs handler /proc/$(cat /run/openvswitch/ovs-vswitchd.pid)/task/*/comm && cat /proc/uptime"
    )
    assert job.run("sh", "-c", script, openvswitch=True) == 0
    assert any("system@ovs-system" in line for line in job.lines)
    assert any(line.startswith("handler") for line in job.lines)
    assert float(job.lines[-1].split()[0]) >= 30


def test_what_a_person_runs_in_a_host_sees_that_hosts_devices(job: Job) -> None:
    script = """
from gradwire.topo.abilities import probe_kernel
from gradwire.network.fabric import Fabric
from gradwire.topo.network import Network

with Network(Fabric(2, 1e9), probe_kernel(), controller_port=6653, owns_kernel=True) as network:
    h1, h2 = network.net.hosts
    print(h1.cmd("ls /sys/class/net").split())
    print(h2.popen("ls /sys/class/net").communicate()[0].split())
    print(h2.cmd("ip -color=never -brief address show h2-eth0").split()[-1])
"""
    assert job.run(sys.executable, "-c", script, env={"PYTHONPATH": str(PACKAGE.parent)}, openvswitch=True) == 0
    assert job.lines == ["['h1-eth0', 'lo']", "[b'h2-eth0', b'lo']", "10.0.0.2/16"]


def test_every_queueing_part_that_the_fabric_uses_is_there(job: Job) -> None:
    script = """set -e
ip link add v0 type veth peer name v1
ip link set v0 up
tc qdisc add dev v0 root handle 1: htb default 1
tc class add dev v0 parent 1: classid 1:1 htb rate 40gbit
tc qdisc add dev v0 parent 1:1 handle 2: prio bands 16
tc qdisc add dev v0 parent 2:1 handle 3: netem loss 1%
tc filter add dev v0 parent 2: protocol ip u32 match ip tos 0xc0 0xfc flowid 2:1
tc qdisc add dev v0 ingress
tc filter add dev v0 ingress protocol ip flower ip_proto tcp action skbedit priority 1:1
tc filter add dev v0 ingress matchall action mirred egress redirect dev v1
sysctl -q net.ipv4.tcp_congestion_control=dctcp
ip netns add n
"""
    assert job.run("sh", "-c", script) == 0, job.lines


def test_the_time_limit_ends_a_busy_job_and_its_processes(job: Job) -> None:
    with pytest.raises(MachineFault, match=in_order("limit", "2 s")):
        job.run("sh", "-c", "while :; do :; done", time_limit_s=2)
    assert kernel_processes(job.kernel, job.workdir) == []
    assert list(job.workdir.iterdir()) == []


def test_a_run_can_be_stopped_from_another_thread(job: Job) -> None:
    stop = threading.Event()
    timer = threading.Timer(1, stop.set)
    timer.start()
    with pytest.raises(MachineFault, match="stopped"):
        job.run("sh", "-c", "while :; do :; done", stop=stop)
    assert kernel_processes(job.kernel, job.workdir) == []


def test_a_job_that_takes_all_memory_is_refused_more_and_the_kernel_lives(job: Job) -> None:
    """Without a limit (gradwire/vm/init.sh), the kernel sometimes read the job's code again and again for ever instead of killing it."""
    greedy = "kept = []\nwhile True: kept.append(bytearray(1 << 20))"
    assert job.run(sys.executable, "-c", greedy, memory_mb=256) == 1
    assert job.lines[-1] == "MemoryError"


def test_a_kernel_that_cannot_boot_dies_with_its_last_words(job: Job) -> None:
    with pytest.raises(MachineFault, match=r"kernel died(.|\n)*(panic|memory)"):
        job.run("true", memory_mb=2)
    assert list(job.workdir.iterdir()) == []


CALLER = """
import signal
import sys
from pathlib import Path
from gradwire.vm.batch_job import run_virtual
from gradwire.vm.machine import Boot
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started the tests may have it ignored, as a shell does for `&`
run_virtual(
    Boot(
        ["sh", "-c", "echo up; while :; do :; done"],
        env={},
        cpu=int(sys.argv[1]),
        workdir=Path(sys.argv[2]),
        memory_mb=512,
        kernel=Path(sys.argv[3]),
        openvswitch=False,
    ),
    time_limit_s=60,
    on_line=lambda line: print(line, flush=True),
)
"""


@pytest.mark.root
def test_no_root_is_needed(kernel: Path) -> None:
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    interpreter = str(Path(sys.executable).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "gradwire").mkdir()
        for part in ("__init__.py", "faults.py"):
            shutil.copy(PACKAGE / part, folder / "gradwire" / part)
        shutil.copytree(PACKAGE / "vm", folder / "gradwire" / "vm")
        shutil.copy(kernel, folder / "kernel")
        arguments = [str(max(os.sched_getaffinity(0))), str(folder / "run"), str(folder / "kernel")]
        done = subprocess.run(
            [
                *as_nobody,
                interpreter,
                "-c",
                CALLER.replace("while :; do :; done", "ip link add v0 type veth && id -u"),
                *arguments,
            ],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": name, "HOME": name},
            capture_output=True,
            text=True,
            check=False,
            timeout=WALL_LIMIT_S,
        )
    assert done.stdout == "up\n0\n", done.stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_process_and_no_temporary_folder_outlives_the_caller(
    kernel: Path, tmp_path: Path, how: signal.Signals
) -> None:
    workdir, temporary = tmp_path / "run", tmp_path / "tmp"
    temporary.mkdir()
    shared_before = set(Path("/dev/shm").iterdir())
    caller = subprocess.Popen(
        [sys.executable, "-c", CALLER, str(max(os.sched_getaffinity(0))), str(workdir), str(kernel)],
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert caller.stdout is not None
    with caller.stdout:
        assert caller.stdout.readline() == "up\n"
        assert len(kernel_processes(kernel, workdir)) >= 2
        caller.send_signal(how)
        caller.wait(120)
    deadline_s = time.monotonic() + 120
    while kernel_processes(kernel, workdir) and time.monotonic() < deadline_s:
        os.sched_yield()
    assert kernel_processes(kernel, workdir) == []
    assert list(temporary.iterdir()) == []
    assert set(Path("/dev/shm").iterdir()) <= shared_before
    if how is signal.SIGINT:
        assert list(workdir.iterdir()) == []
