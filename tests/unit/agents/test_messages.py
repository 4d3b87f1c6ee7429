"""Messages over pipes: what one end writes, the other reads as the same, and nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gradwire.agents.connections import HostEntry, SocketOptions
from gradwire.agents.messages import (
    AgentSettings,
    Answer,
    Captured,
    Command,
    Connect,
    Connected,
    Finish,
    Finished,
    Go,
    Listening,
    LoadPlan,
    RanksIterated,
    Replayed,
    decode_answer,
    decode_command,
    encode_line,
    read_settings,
    write_settings,
)
from gradwire.datatypes.records import AgentSummary, CaptureRecord

SUMMARY = AgentSummary((0, 3), 5, 4, 1 << 40, 7, 120, 90)
COMMANDS = (LoadPlan("plan.npz", 3, "log.npz"), Connect(), Go(1 << 60), Finish())
ANSWERS = (
    Listening(),
    Connected(),
    RanksIterated(2),
    Replayed(SUMMARY),
    Finished(),
    Captured((CaptureRecord("s1-eth1", "s1-eth1.pcapng", 10, 11, 1),)),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_one_line_and_comes_back(command: Command) -> None:
    line = encode_line(command)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode_command(line) == command


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_one_line_and_comes_back(answer: Answer) -> None:
    line = encode_line(answer)
    assert line.count(b"\n") == 1
    assert decode_answer(line.decode()) == answer


@pytest.mark.parametrize(
    "line", ['{"command":"stop"}', '{"command":"go"}', '{"command":"go","start_ns":"now"}', "go", ""]
)
def test_any_other_line_is_no_command(line: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_command(line)


def test_commands_and_answers_are_not_taken_for_each_other() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_answer(encode_line(Connect()))
    with pytest.raises(msgspec.DecodeError):
        decode_command(encode_line(Connected()))


def test_settings_come_back(tmp_path: Path) -> None:
    settings = AgentSettings(
        hosts=(HostEntry(0, "10.0.0.1", "/proc/7/ns/net"),), fabric_json="{}", sockets=SocketOptions(1 << 20, None)
    )
    write_settings(tmp_path / "agent.json", settings)
    assert read_settings(tmp_path / "agent.json", AgentSettings) == settings
