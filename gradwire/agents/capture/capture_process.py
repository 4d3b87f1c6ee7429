"""The capturing process as the run loop sees it: it captures from entering to leaving a context."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from gradwire import PACKAGE
from gradwire.agents.capture.recorder import CaptureSettings
from gradwire.agents.messages import Captured, Listening, decode_answer
from gradwire.datatypes.records import CaptureRecord
from gradwire.faults import MachineFault

Expected = TypeVar("Expected", Listening, Captured)

END_S = 60.0
"""Time to write what is left, on a busy machine."""


class CaptureProcess:
    """Context manager that captures the ports of `settings` until it is left; then `records` has what was captured.

    folder: where the settings and the process's errors are written. Raises MachineFault if a port cannot be captured
    or the process ends early.
    """

    def __init__(self, settings: CaptureSettings, folder: Path) -> None:
        self.records: tuple[CaptureRecord, ...] = ()
        self._settings = settings
        self._settings_path, self._error_path = folder / "capture.json", folder / "capture.log"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        """Starts the process and waits until it captures."""
        self._settings.save(self._settings_path)
        with self._error_path.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gradwire.agents.capture.recorder", str(self._settings_path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=PACKAGE.parent,
            )
        assert self._process.stdout is not None
        self._answer(self._process.stdout.readline(), Listening)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the process: once its files are complete, or at once after an error."""
        assert self._process is not None
        if error is not None:
            self._process.kill()
            self._process.communicate()
            return
        try:
            said, _ = self._process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired as late:
            self._process.kill()
            self._process.communicate()
            raise MachineFault(f"the capture did not end within {END_S:.0f} s") from late
        self.records = self._answer(said, Captured).records

    def _answer(self, line: str, expected: type[Expected]) -> Expected:
        """The expected answer. Raises MachineFault with the process's last words if it is missing."""
        answer = decode_answer(line) if line else None
        if not isinstance(answer, expected):
            assert self._process is not None
            self._process.kill()
            self._process.communicate()
            said = self._error_path.read_text().strip().splitlines()
            raise MachineFault(
                f"the capture ended early: {said[-1] if said else self._process.returncode}; see {self._error_path}"
            )
        return answer
