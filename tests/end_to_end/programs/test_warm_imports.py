"""Programs that are forks of a Python with imported modules: each finds what it finds when it is executed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.end_to_end.programs.running import execute, left_behind
from tests.shared.commands import gradwire_command
from tests.shared.parts import tells

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

SIZE = ("--workers", "2", "--rate", "10gbit")
MODULE = """
import os, sys
print("imported", os.environ.get("GRADWIRE_HOST", "by nobody"), os.environ["GRADWIRE_RATE_BPS"], __name__)
print("a warning", file=sys.stderr)
MADE = []
"""
LOOK_AROUND = """
import atexit, os, random, slow_module, socket, sys, tempfile, time
import __main__
atexit.register(print, "at exit")
print(sys.argv, sys.orig_argv[1:], sys.path[0], sys.executable, sys.flags.optimize)
print(__name__, __main__.__dict__.get("__file__"), __main__.__spec__ and __main__.__spec__.name, sorted(dir()))
print(os.environ["GRADWIRE_HOST"], os.environ["RANK"], socket.gethostname(), sorted(os.listdir("/sys/class/net")))
print(os.getcwd(), tempfile.gettempdir(), sys.stdin.read() == "", os.isatty(1), os.getsid(0) == os.getpid())
print(sorted(int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) < 20)[:3], open("/proc/self/status").read().split("CapBnd:")[1][:18])
slow_module.MADE.append(1)
print(slow_module.MADE, random.random() != random.random(), open("/proc/self/timerslack_ns").read())
with open("/dev/shm/mine", "w") as file: file.write("x")
print(os.listdir("/dev/shm"))
def fail(): raise LookupError("from the program")
if os.environ["RANK"] == "1": time.sleep(0.1); socket.create_connection(("h1", 5000)).close(); time.sleep(0.1); sys.exit()
server = socket.create_server(("", 5000)); server.accept()
fail()
"""


def _compared(folder: Path, *command: str, status: int) -> None:
    """Runs a command with and without warm imports; raises AssertionError if programs wrote something else."""
    (folder / "code").mkdir()
    (folder / "code" / "slow_module.py").write_text(MODULE)
    (folder / "code" / "look.py").write_text(LOOK_AROUND)
    runs = {}
    for name, options in {"cold": (), "warm": ("--warm-imports", "slow_module")}.items():
        place = folder / name
        place.mkdir()
        for path in (folder / "code").iterdir():
            (place / path.name).write_text(path.read_text())
        done = execute(place, *SIZE, "--launch", "torch", *options, "--", *command)
        assert done.status == status, done.err
        outputs = {(path.stem, path.suffix): path.read_text() for path in sorted((done.folder / "output").iterdir())}
        runs[name] = {key: text.replace(str(place), "PLACE") for key, text in outputs.items()}
        assert left_behind(place) == []
    cold, warm = runs["cold"], runs["warm"]
    for (host, stream), text in cold.items():
        # A fork's imports have seen what all hosts' environments have in common.
        assert warm[host, stream] == text.replace(f"imported {host}", "imported by nobody")
    assert cold


def test_a_script_finds_what_it_finds_when_it_is_executed(tmp_path: Path) -> None:
    _compared(tmp_path, sys.executable, "look.py", "--size", "a b", status=1)


def test_a_module_does(tmp_path: Path) -> None:
    _compared(tmp_path, sys.executable, "-O", "-m", "look", "x", status=1)


def test_code_does(tmp_path: Path) -> None:
    code = "import sys, slow_module; print(sys.argv, sys.path[0], __name__, slow_module.MADE); sys.exit(7)"
    _compared(tmp_path, sys.executable, "-c", code, "-x", status=7)


def test_a_signal_ends_a_fork_as_any_program(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    done = execute(tmp_path, *SIZE, "--warm-imports", "json", "--", sys.executable, "-c", code)
    assert done.status == 128 + 9
    assert "signal 9" in done.err
    assert left_behind(tmp_path) == []


def test_a_fork_has_no_more_rights_than_a_program(tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for flag in (0x00020000, 0x40000000): print(libc.unshare(flag), ctypes.get_errno())\n"
        "print(libc.mount(b'/', b'/', b'hostfs', 0, None), sorted(os.listdir('/sys/class/net')))\n"
        "own = os.open('/proc/self/ns/net', os.O_RDONLY)\n"
        "print(libc.setns(own, 0), ctypes.get_errno(), os.path.exists('/run/openvswitch'))\n"
    )
    done = execute(
        tmp_path, *SIZE, "--hosts", "h1", "--warm-imports", "evil", "--", sys.executable, "-c", "import evil"
    )
    assert done.status == 0, done.err
    assert done.output("h1") == "-1 1\n-1 1\n-1 ['lo']\n-1 1 False\n"


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("leaves", "SystemExit: 3"),
        ("threads", r"leaves threads running \(worker\)"),
    ],
)
def test_what_cannot_be_imported_is_said(tmp_path: Path, module: str, why: str) -> None:
    (tmp_path / "leaves.py").write_text("raise SystemExit(3)")
    (tmp_path / "threads.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=[9], name='worker', daemon=True).start()"
    )
    done = execute(tmp_path, *SIZE, "--warm-imports", module, "--", sys.executable, "-c", "pass")
    assert done.status == 2
    assert f"cannot import {module}: {why}".replace("\\", "") in " ".join(done.err.split())
    assert left_behind(tmp_path) == []


def test_a_command_that_is_not_of_python_is_refused_before_anything_boots(tmp_path: Path) -> None:
    done = execute(tmp_path, *SIZE, "--warm-imports", "torch", "--", "sh", "-c", "python3 a.py | tee log")
    assert done.status == 2
    assert tells(" ".join(done.err.split()), "--warm-imports torch:", "python3 a.py | tee log")
    assert not (tmp_path / "run").exists()


def test_programs_of_a_scenario_that_begin_alike_are_forks_of_one_python(tmp_path: Path) -> None:
    (tmp_path / "noted.py").write_text("import os\nwith open('imports', 'a') as file: file.write(f'{os.getpid()} ')\n")
    look = "import json, noted, os, __main__; row = {'file': os.path.basename(__main__.__file__)}\n"
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(
            f"{look}with open(os.environ['GRADWIRE_FIGURES'], 'a') as file: print(json.dumps(row), file=file)\n"
        )
    program = '[program.{0}]\ncommand = "{1} {0}.py $x"\narguments = {{ x = 1 }}\nwarm_imports = "noted"\ntraffic_class = {2}\n'
    (tmp_path / "s.toml").write_text(
        'title = "t"\nmetric = "file"\n[cluster]\nworkers = 2\n[fabric]\nrate = "10gbit"\nclasses = 2\n'
        + "".join(program.format(name, sys.executable, number) for number, name in enumerate(("one", "two")))
    )
    done = gradwire_command("run", "s.toml", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((tmp_path / "imports").read_text().split()) == 1
    figures = (tmp_path / "run" / "figures.csv").read_text()
    assert figures.count("one.py") == figures.count("two.py") == 2


LIAR = """
import os, sys
frame = sys._getframe()
while frame and "_fork" not in frame.f_globals:
    frame = frame.f_back
own = frame.f_globals
honest = own["answer"]
def answer(channel, message, descriptors=()):
    if "pid" in message:
        match "$kind":
            case "none": return honest(channel, message)
            case "file": return honest(channel, message, (os.open("/dev/null", 0),))
            case "itself": return honest(channel, message, (os.pidfd_open(os.getpid()),))
            case "text": return honest(channel, {"pid": "x"}, descriptors)
            case "list": return honest(channel, [1], descriptors)
            case "huge": return channel.sendall((2**63).to_bytes(8, "big"))
            case "cut": return channel.sendall((5).to_bytes(8, "big") + b"[[[[[")
    if "returncode" in message:
        message = {"word": {"returncode": "zero"}, "digits": {"returncode": 2**70}}.get("$kind", message)
    return honest(channel, message, descriptors)
own["answer"] = answer
"""


@pytest.mark.parametrize("kind", ["none", "file", "itself", "text", "list", "huge", "cut", "word", "digits"])
def test_a_module_that_answers_in_the_place_of_its_python_is_told_of(tmp_path: Path, kind: str) -> None:
    (tmp_path / "liar.py").write_text(LIAR.replace("$kind", kind))
    (tmp_path / "run.py").write_text("print('begun')")
    done = execute(tmp_path, *SIZE, "--warm-imports", "liar", "--", "python3", "run.py")
    assert (done.status, "Traceback" in done.err) == (2, False), done.out + done.err
    assert "warm_imports: " in done.err
