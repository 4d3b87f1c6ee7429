"""A Python that has imported modules, and is forked for each program that begins with them.

`PYTHON OPTIONS warm_interpreter.py SOCKET`, inside the kernel, by a program's own interpreter: so this file needs Python
3.9 and its standard library, and nothing of this package. It hears what to import, says that it has, and from then on
forks when it is asked to (inside/forking.py). A fork becomes the program: it moves to its host by the
namespaces that it is handed, takes its environment, folder, outputs, arguments and `__main__`, and leaves this file for
good. What the modules wrote while they were imported, each fork writes.
"""

# Paths are texts, as Python itself has them, and pathlib need not be imported.
# ruff: noqa: PTH109, PTH117, PTH118, PTH120, PTH123

from __future__ import annotations

import array
import ctypes
import gc
import importlib.machinery
import json
import os
import runpy
import socket
import sys
import threading
import traceback
import types
import warnings
from typing import Any, NoReturn

LENGTH_BYTES = 8
MOST_DESCRIPTORS = 16
MOST_BYTES = 1 << 24
"""Of a message: arguments and an environment take 2 MiB at most (ARG_MAX)."""
STDIN, STDOUT, STDERR = 0, 1, 2
NO_SUCH_FILE = 2
"""Python's exit status where its script cannot be read."""


def main() -> None:
    """Imports, and then forks on request. Returns in a fork, after it has run its program."""
    told = socket.socket(fileno=int(sys.argv[1]))
    request, _ = received(told)
    if request is None:
        return
    _look_where_it_would(request["runs"], request["what"])
    _make_main(request["runs"], request["what"])
    answer(told, _imported(request["imports"]))
    while True:
        request, descriptors = received(told)
        if request is None:
            os._exit(0)
        if "wait" in request:
            _, status = os.waitpid(request["wait"], 0)
            answer(told, {"returncode": os.waitstatus_to_exitcode(status)})
            continue
        if _fork(told, request, descriptors):
            break
    told.close()
    _run(request["runs"], request["what"], request["arguments"])


def received(channel: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """A message with the descriptors that came with it; None at the end."""
    head, descriptors, _, _ = socket.recv_fds(channel, LENGTH_BYTES, MOST_DESCRIPTORS)
    left = int.from_bytes(head, "big")
    if not left:
        return None, descriptors
    if left > MOST_BYTES:
        raise ValueError(f"{left} bytes are more than a message has")
    parts = []
    while left:
        part = channel.recv(left)
        if not part:
            return None, descriptors
        parts.append(part)
        left -= len(part)
    message: dict[str, Any] = json.loads(b"".join(parts))
    return message, descriptors


def answer(channel: socket.socket, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
    """Sends a message."""
    content = json.dumps(message).encode()
    kept = array.array("i", descriptors)
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, kept)] if descriptors else []
    channel.sendmsg([len(content).to_bytes(LENGTH_BYTES, "big")], rights)
    channel.sendall(content)


def _look_where_it_would(runs: str, what: str) -> None:
    """Has modules found where the program would find them."""
    if not getattr(sys.flags, "safe_path", False) and not sys.flags.isolated:
        folders = {"script": os.path.dirname(os.path.realpath(what)), "module": os.getcwd(), "code": ""}
        sys.path[0] = folders[runs]


def _make_main(runs: str, what: str) -> None:
    """Gives a program a `__main__`."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __annotations__={})
    if runs == "script":
        path = _full(what)
        loader = importlib.machinery.SourceFileLoader("__main__", path)
        module.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    sys.modules["__main__"] = module


def _imported(names: list[str]) -> dict[str, Any]:
    for name in names:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 (a module may end the process, and whoever asked has to know)
            return {"refused": f"{name}: {type(error).__name__}: {error}", "traceback": traceback.format_exc()}
    if threading.active_count() > 1:
        left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        return {"refused": f"{', '.join(names)}: leaves threads running ({', '.join(left)}), which no fork has"}
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    gc.collect()
    gc.freeze()  # so that collecting does not touch, and so copy, what all forks share
    return {}


def _fork(channel: socket.socket, request: dict[str, Any], descriptors: list[int]) -> bool:
    """Forks; True in the fork, which has become a program on its host. The other one answers."""
    read_end, write_end = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: those of Python were looked for
        pid = os.fork()
    if pid == 0:
        try:
            _become(request, descriptors)
        except BaseException as error:  # noqa: BLE001 (a fork must not go on as its parent would)
            os.write(write_end, f"{type(error).__name__}: {error}".encode())
            os._exit(1)
        os.close(read_end)
        os.close(write_end)
        return True
    os.close(write_end)
    for descriptor in descriptors:
        os.close(descriptor)
    with os.fdopen(read_end) as said:
        trouble = said.read()
    if trouble:
        os.waitpid(pid, 0)
        answer(channel, {"refused": trouble})
        return False
    process = os.pidfd_open(pid)
    answer(channel, {"pid": pid}, (process,))
    os.close(process)
    return False


def _become(request: dict[str, Any], descriptors: list[int]) -> None:
    """Makes the calling process a program on its host."""
    out, err, *rest = descriptors
    group = rest.pop() if request["has_group"] else None
    if group is not None:
        os.write(group, b"0")  # itself
        os.close(group)
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace in rest:
        if libc.setns(namespace, 0):
            raise OSError(ctypes.get_errno(), f"cannot enter a host: {os.strerror(ctypes.get_errno())}")
        os.close(namespace)
    os.chdir(request["folder"])
    os.setsid()
    for stream, own in ((STDOUT, out), (STDERR, err)):
        noted = os.pread(stream, os.fstat(stream).st_size, 0)
        os.dup2(own, stream)
        os.close(own)
        while noted:
            noted = noted[os.write(stream, noted) :]
    os.environ.clear()
    os.environ.update(request["environment"])
    if "tempfile" in sys.modules:
        setattr(sys.modules["tempfile"], "tempdir", None)  # noqa: B010
    if "numpy.random" in sys.modules:  # the modules of random numbers in the standard library see to it themselves
        sys.modules["numpy.random"].seed()


def _run(runs: str, what: str, arguments: list[str]) -> None:
    """Runs the program as Python would. Raises what it raises."""
    _make_main(runs, what)
    sys.excepthook = _show_without_this_file
    sys.argv = [{"script": what, "module": "-m", "code": "-c"}[runs], *arguments]
    sys.orig_argv = [*sys.orig_argv[:-2], *([] if runs == "script" else [sys.argv[0]]), what, *arguments]
    if runs == "module":
        runpy._run_module_as_main(what)  # type: ignore[attr-defined]
        return
    code = _script(what) if runs == "script" else compile(what, "<string>", "exec", dont_inherit=True)
    exec(code, sys.modules["__main__"].__dict__)


def _full(path: str) -> str:
    """The path of a script as Python completes it, which is not normal in all cases."""
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path[2:] if path.startswith("./") else path)


def _script(path: str) -> types.CodeType:
    path = _full(path)
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {path!r}: {error}", file=sys.stderr)
        _end(NO_SUCH_FILE)
    code: types.CodeType = compile(content, path, "exec", dont_inherit=True)
    return code


def _end(status: int) -> NoReturn:
    sys.exit(status)


def _show_without_this_file(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
    """Shows what ended a program without the steps that led to its first line."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    main()
