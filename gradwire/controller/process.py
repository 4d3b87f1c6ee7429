"""Runs the controller as a separate process: starts it, waits until every switch has its rules, and stops it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from types import TracebackType

from gradwire.child_process import Child, start
from gradwire.controller.own import MODULE, described
from gradwire.faults import InputFault, MachineFault
from gradwire.network.fabric import Fabric

POLL_S = 0.01
STOP_S = 5.0


class ControllerProcess:
    """Context manager that runs the controller for `fabric` on 127.0.0.1:`port`, with its files in `folder`.

    Entering does not wait, so that the controller's imports run while the network is built. `folder` gets fabric.json,
    controller.log (standard error) and, when all switches have their rules, controller.ready. by_fork: whether it is a
    fork of this process, which must have one thread then; a controller that is started again never is, for by then
    there may be more. switch_prefix: precedes the names of switches on the machine. own_app: the code of a user's
    controller, to be run in place of gradwire's; it says of nothing that it is ready (see `inside/own_controller.py`).
    """

    def __init__(
        self,
        fabric: Fabric,
        port: int,
        folder: Path,
        *,
        by_fork: bool = False,
        switch_prefix: str = "",
        own_app: str = "",
    ) -> None:
        self._fabric = fabric
        self._own_app = own_app
        self._app_path = folder / f"{MODULE}.py"
        self._network_path = folder / "network.json"
        self._by_fork = by_fork
        self._switch_prefix = switch_prefix
        self._port = port
        self._fabric_path = folder / "fabric.json"
        self._log_path = folder / "controller.log"
        self._ready_path = folder / "controller.ready"
        self._process: Child | None = None

    def __enter__(self) -> ControllerProcess:
        self._fabric_path.write_text(self._fabric.to_json())
        self._ready_path.unlink(missing_ok=True)
        self._log_path.unlink(missing_ok=True)
        self._start(by_fork=self._by_fork)
        return self

    def _start(self, *options: str, by_fork: bool = False) -> None:
        if self._own_app:
            self._start_own()
            return
        files = ["--fabric", str(self._fabric_path), "--ready-file", str(self._ready_path)]
        if self._switch_prefix:
            files += ["--switch-prefix", self._switch_prefix]
        with self._log_path.open("ab") as log:
            self._process = start(
                "gradwire.controller", [*files, "--port", str(self._port), *options], log, by_fork=by_fork
            )

    def _start_own(self) -> None:
        """Never as a fork: gradwire's controller leaves out modules of the framework that an application may use."""
        self._app_path.write_text(self._own_app)
        self._network_path.write_text(json.dumps(described(self._fabric)))
        words = ["--app", str(self._app_path), "--network", str(self._network_path), "--port", str(self._port)]
        with self._log_path.open("ab") as log:
            self._process = start("gradwire.controller.own", words, log, by_fork=False)

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Process id. Raises MachineFault if it was not started."""
        return self._running().pid

    def wait_ready(self, timeout_s: float) -> dict[str, int]:
        """Waits until every switch has its rules; returns the numbers of switches, flows and groups.

        Raises MachineFault, with what the controller wrote, if it ends or takes longer than `timeout_s`.
        """
        process = self._running()
        deadline = time.monotonic() + timeout_s
        while not self._ready_path.exists():
            if process.poll() is not None:
                raise MachineFault(f"the controller ended with {process.returncode}: {self.log_tail()}")
            if time.monotonic() > deadline:
                raise MachineFault(
                    f"not all {len(self._fabric.switch_names())} switches had their rules from the controller on "
                    f"127.0.0.1:{self._port} within {timeout_s:.0f} s; it wrote: {self.log_tail()}"
                )
            time.sleep(POLL_S)
        counts: dict[str, int] = json.loads(self._ready_path.read_text())
        return counts

    def check_alive(self) -> None:
        """Raises MachineFault if the controller has ended, or InputFault if it is a user's."""
        process = self._running()
        if process.poll() is not None and self._own_app:
            raise InputFault(
                f"fabric.controller: the application ended with status {process.returncode}; it wrote: {self.log_tail()}"
            )
        if process.poll() is not None:
            raise MachineFault(f"the controller ended with {process.returncode}: {self.log_tail()}")

    def restart(self) -> None:
        """Starts a process again that `stop` has ended; switches that connect to it have their rules already, or get
        them again."""
        self._start("--restarted")

    def stop(self) -> None:
        """Ends the process if it is running; may be called twice."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def _running(self) -> Child:
        if self._process is None:
            raise MachineFault("the controller is not running")
        return self._process

    def log_tail(self) -> str:
        """The end of what it wrote to standard error."""
        return self._log_path.read_text(errors="replace").strip()[-2000:] or "(nothing)"
