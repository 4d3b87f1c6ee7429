import pytest

from gradwire.faults import MachineFault
from gradwire.topo.command import run, run_promptly
from tests.shared.parts import in_order


def test_output_comes_back_and_input_goes_in() -> None:
    assert run(["cat"], "one\ntwo\n") == "one\ntwo\n"


def test_a_failing_command_is_named_with_its_complaint() -> None:
    with pytest.raises(MachineFault, match=in_order("`ls /no/such/place`", "2", "No such file")):
        run(["ls", "/no/such/place"])


def test_a_failing_batch_names_the_line() -> None:
    with pytest.raises(MachineFault, match="'qdisc add second'"):
        run(
            ["sh", "-c", "echo 'Error: what.' >&2; echo 'Command failed -:2' >&2; exit 1"],
            "qdisc add first\nqdisc add second\n",
        )


def test_a_missing_program_is_named() -> None:
    with pytest.raises(MachineFault, match="no-such-program is missing"):
        run(["no-such-program"])


def test_a_prompt_command_gets_its_input_and_tells_of_failures() -> None:
    run_promptly(["sh", "-c", '[ "$(cat)" = go ]'], "go\n")
    with pytest.raises(MachineFault, match=in_order("`ls /no/such/place`", "2", "No such file")):
        run_promptly(["ls", "/no/such/place"])
    with pytest.raises(MachineFault, match="no-such-program is missing"):
        run_promptly(["no-such-program"])
    with pytest.raises(MachineFault, match="'qdisc add second'"):
        run_promptly(
            ["sh", "-c", "echo 'Error: what.' >&2; echo 'Command failed -:2' >&2; exit 1"],
            "qdisc add first\nqdisc add second\n",
        )


def test_a_prompt_command_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradwire.topo.command.TIMEOUT_S", 0.01)
    with pytest.raises(MachineFault, match="`sleep 1000` gave no"):
        run_promptly(["sleep", "1000"])
