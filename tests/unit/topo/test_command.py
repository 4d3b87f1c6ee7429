import pytest

from gradwire.faults import MachineFault
from gradwire.topo.command import run


def test_output_comes_back_and_input_goes_in() -> None:
    assert run(["cat"], "one\ntwo\n") == "one\ntwo\n"


def test_a_failing_command_is_named_with_its_complaint() -> None:
    with pytest.raises(MachineFault, match=r"`ls /no/such/place` failed with 2: .*No such file"):
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
