"""A script's recording from its first torch to its last iteration."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from gradwire.recorder.dispatch import DispatchRecording
from gradwire.recorder.left_files import FORMAT, VERSION, write_state, write_whole
from gradwire.recorder.process_groups import ProcessGroups
from gradwire.recorder.timeline import Timeline, excerpt, shapes, steady

WORKERS = "a DataLoader's worker processes were left out: data is loaded in the script's own process"
UNSTEADY = "no two iterations after the first have the same calls and FLOPs: the last one was taken"
ONLY_FIRST = "there is only one iteration, the first, in which a script may do more than in others: it was taken"
NO_STEPS = "no optimizer step: everything after the first process group was taken as one iteration"
PARTS = "no optimizer step: the calls, which repeat, were taken as so many equal iterations, of which the last was kept"
COMPILED = "torch.compile was left out: operations are counted one by one, unfused"


class RecordingSession:
    """The recording of one script at one rank."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._timeline = Timeline()
        self.recording = DispatchRecording(self._timeline, bool(settings["values"]))
        self._groups = ProcessGroups(settings["rank"], settings["world"])
        self._optimizer: Any = None
        self._moved_bytes = [0]
        self._ended = False

    def begin(self, refuse: Callable[[], None]) -> None:
        """Begins to record. refuse: what a fork of this process does that becomes a rank."""
        self._groups.replace(refuse)
        self.recording.name_group, self.recording.rank_in = self._groups.name, self._groups.rank_in
        self._load_alone()
        self._note_compilation()
        register_optimizer_step_post_hook(self._step)
        torch.backends.mkldnn.enabled = False  # oneDNN's fused operations have no formula for their FLOPs
        self.recording.__enter__()

    def _step(self, optimizer: Any, *_: Any) -> None:
        """An iteration ends with the step of the first optimizer that makes one."""
        if os.getpid() != self._settings["process"]:
            return
        if self._optimizer is None:
            self._optimizer = optimizer
        if optimizer is not self._optimizer:
            return
        self._timeline.mark()
        self._moved_bytes.append(self.recording.moved_bytes)
        write_state(self._settings, "steps", str(len(self._timeline.marks)))
        if len(self._timeline.marks) >= self._settings["iterations"] or self._is_steady():
            self.end()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)  # a script would go on for days

    def end(self) -> None:
        """Writes what was recorded, once."""
        if self._ended or os.getpid() != self._settings["process"]:
            return
        self._ended = True
        write_whole(Path(self._settings["file"]), json.dumps(self._document()))

    def _document(self) -> dict[str, Any]:
        timeline, recording = self._timeline, self.recording
        first, end = steady(timeline, self._settings["iterations"])
        self._judge(first)
        steps = len(timeline.marks)
        moved = self._moved_bytes[-1] - self._moved_bytes[-2] if steps else recording.moved_bytes
        return {
            "format": FORMAT,
            "version": VERSION,
            "rank": self._settings["rank"],
            "world": self._settings["world"],
            "torch": torch.__version__,
            "python": sys.version.split()[0],
            "steps": steps,
            "values": recording.values,
            "flops_of_type": recording.flops_of_type,
            "moved_bytes": moved,
            "guesses": recording.guesses,
            "unknown": sorted(recording.unknown),
            "groups": [list(ranks) for ranks in self._groups.numbers],
            "tasks": excerpt(timeline, first, end),
        }

    def _is_steady(self) -> bool:
        """Returns whether the last two iterations are alike, neither of which may be the first."""
        if len(self._timeline.marks) < 3:
            return False
        before, begin, end = self._timeline.marks[-3:]
        return shapes(self._timeline, before, begin) == shapes(self._timeline, begin, end)

    def _judge(self, first: int) -> None:
        """Notes what the choice of the iteration rests on."""
        marks, guess = self._timeline.marks, self.recording.guess
        if not marks:
            guess(PARTS if first else NO_STEPS)
        elif len(marks) == 1:
            guess(ONLY_FIRST)
        elif not self._is_steady():
            guess(UNSTEADY)

    def _load_alone(self) -> None:
        """Makes data loaders load in this process: workers would be forks of it, with its modes."""
        from torch.utils import data  # noqa: PLC0415 (only to change it)

        loader: Any = data.DataLoader
        make = loader.__init__

        def init(this: Any, *given: Any, **named: Any) -> None:
            if named.get("num_workers"):
                self.recording.guess(WORKERS)
                for name in ("prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"):
                    named.pop(name, None)
                named["num_workers"] = 0
            make(this, *given, **named)

        loader.__init__ = init

    def _note_compilation(self) -> None:
        """Notes calls of torch.compile, which has no effect here because the environment disables compilation."""
        compiled = torch.compile

        def compile_(*given: Any, **named: Any) -> Any:
            self.recording.guess(COMPILED)
            return compiled(*given, **named)

        torch.compile = compile_
