"""Programs that leave no recording: one message each, and nothing left running. None of them needs torch."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.programs.script_recording import RecordingRequest, check_program, record


def request(folder: Path, *program: str, time_limit_s: float = 60) -> RecordingRequest:
    return RecordingRequest(program, (0,), 8, 8, 8, False, time_limit_s, folder)


def refusal(folder: Path, *program: str, time_limit_s: float = 60) -> str:
    with pytest.raises(InputFault) as refused:
        list(record(request(folder, *program, time_limit_s=time_limit_s)))
    return str(refused.value)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ([], "-- python train.py"),
        (["no-such-python", "train.py"], "no such program"),
        (["torchrun", "--nproc-per-node", "8", "train.py"], "starts the ranks"),
        (["python", "-m", "torch.distributed.run", "train.py"], "starts the ranks"),
        (["mpirun", "-np", "8", "python", "train.py"], "starts the ranks"),
    ],
)
def test_what_is_not_one_rank_is_refused_before_it_starts(program: list[str], words: str) -> None:
    with pytest.raises(InputFault, match=words):
        check_program(program)


def test_what_is_not_a_python_records_nothing(tmp_path: Path) -> None:
    assert "is not a Python" in refusal(tmp_path, "true")
    assert "is not a Python" in refusal(tmp_path, sys.executable, "-I", "-c", "pass")


def test_a_script_that_fails_is_reported_with_its_last_words(tmp_path: Path) -> None:
    said = refusal(tmp_path, sys.executable, "-c", "print(1); raise ValueError('no data')")
    assert "ended with status 1: ValueError: no data" in said
    assert "rank0.output" in said
    assert "1\n" in (tmp_path / "rank0.output").read_text()


def test_a_script_without_torch_is_reported(tmp_path: Path) -> None:
    assert "without having imported torch" in refusal(tmp_path, sys.executable, "-c", "pass")


def test_a_python_without_torch_is_reported(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    assert "has no torch" in refusal(tmp_path, str(tmp_path / "bare" / "bin" / "python"), "-c", "import torch")


def test_a_script_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = (
        "import os, subprocess, sys, time\n"
        "one = subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "two = subprocess.run(['env', '-i', 'setsid', 'sh', '-c', 'sleep 1000 >&2 & echo $!'], stdout=subprocess.PIPE).stdout\n"
        f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{one.pid}} {{int(two)}}')\n"
        "time.sleep(1000)"
    )
    said = refusal(tmp_path, sys.executable, "-c", script, time_limit_s=10)
    assert "still ran after 10 s" in said
    assert "--time-limit" in said
    started = [int(word) for word in pids.read_text().split()]
    assert len(started) == 3
    gives_up_s = time.monotonic() + 120
    while any(_lives(pid) for pid in started) and time.monotonic() < gives_up_s:
        os.sched_yield()
    assert not any(_lives(pid) for pid in started)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def test_a_recording_is_not_taken_from_what_is_too_large_or_a_link(tmp_path: Path) -> None:
    script = (
        "import json, os\nfile = json.loads(os.environ['GRADWIRE_RECORD'])['file']\nos.symlink('/dev/zero', file)\n"
    )
    with pytest.raises(InputFault) as refused:
        list(record(request(tmp_path, sys.executable, "-c", script)))
    assert "is a link" in str(refused.value)
