"""What programs are told by their environment."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.inside.program_protocol import Program, Runs, WarmPython
from gradwire.network.fabric import Fabric
from gradwire.network.lossless import Lossless
from gradwire.programs.commands import refuse_wrong_commands
from gradwire.programs.launch import Launch, Started, programs
from gradwire.scenario.sections.program import ProgramSection, class_alone

FABRIC = Fabric(4, 10e9)
CALLER = {"PATH": "/bin", "TMPDIR": "/home/me/tmp", "XDG_RUNTIME_DIR": "/run/user/1000", "MINE": "kept"}
INSIDE = Path("/run/job")


def started(
    launch: Launch, hosts: Sequence[int], argv: Sequence[str], environment: dict[str, str]
) -> tuple[Program, ...]:
    return programs([Started(argv, hosts, launch)], FABRIC, environment, INSIDE)


def test_each_host_knows_itself_and_its_peers() -> None:
    first, second = started(Launch.EACH, [3, 0], ["./program", "-x"], CALLER)
    assert (first.host, second.host, first.argv) == (3, 0, ("./program", "-x"))
    assert {name: first.env[name] for name in first.env if name.startswith("GRADWIRE")} == {
        "GRADWIRE_HOST": "h4",
        "GRADWIRE_INDEX": "0",
        "GRADWIRE_ADDRESS": "10.0.0.4",
        "GRADWIRE_HOSTS": "h4 h1",
        "GRADWIRE_ADDRESSES": "10.0.0.4 10.0.0.1",
        "GRADWIRE_RATE_BPS": "10000000000",
        "GRADWIRE_PAYLOAD_BPS": "9414824447",
        "GRADWIRE_FIGURES": "/run/job/figures/h4.jsonl",
    }
    assert (second.env["GRADWIRE_INDEX"], second.env["HOSTNAME"], second.env["TMPDIR"]) == ("1", "h1", "/run/tmp/h1")


def test_the_callers_environment_is_inherited_but_for_what_the_kernel_lacks() -> None:
    (program,) = started(Launch.EACH, [0], ["p"], CALLER)
    assert program.env["MINE"] == "kept"
    assert program.env["PATH"] == "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin"
    assert "XDG_RUNTIME_DIR" not in program.env
    assert program.env["PYTHONUNBUFFERED"] == "1"
    (unlike,) = started(Launch.EACH, [0], ["p"], {"PYTHONUNBUFFERED": ""})
    assert unlike.env["PYTHONUNBUFFERED"] == ""


def test_scripts_find_gradwire_behind_the_callers_own_modules() -> None:
    for own, path in (({}, "/run/gradwire/python"), ({"PYTHONPATH": "/mine"}, "/mine:/run/gradwire/python")):
        (program,) = started(Launch.EACH, [0], ["p"], own)
        assert program.env["PYTHONPATH"] == path


def test_torch_has_what_torchrun_gives_a_rank() -> None:
    ranks = started(Launch.TORCH, [1, 2], ["python3"], {})
    assert [(rank.env["RANK"], rank.env["LOCAL_RANK"], rank.env["GLOO_SOCKET_IFNAME"]) for rank in ranks] == [
        ("0", "0", "h2-eth0"),
        ("1", "0", "h3-eth0"),
    ]
    assert {(rank.env["MASTER_ADDR"], rank.env["MASTER_PORT"], rank.env["WORLD_SIZE"]) for rank in ranks} == {
        ("10.0.0.2", "29500", "2")
    }


def test_mpi_starts_one_mpirun_that_reaches_the_others() -> None:
    (program,) = started(Launch.MPI, [2, 0, 1], ["mpirun", "-np", "3", "./p"], {})
    assert program.host == 2
    assert program.env["OMPI_MCA_orte_default_hostfile"] == "/run/gradwire/mpi-hosts"
    assert program.env["OMPI_MCA_plm_rsh_agent"] == program.env["HYDRA_LAUNCHER_EXEC"] == "/run/gradwire/enter-host"
    assert program.env["OMPI_MCA_pml"] == "ob1"


def test_programs_of_a_scenario_have_names_variables_and_times_of_their_own() -> None:
    server = Started(["sh"], [0], name="server", background=True)
    client = Started(["sh"], [2, 1], Launch.MPI, "client", {"size": "3", "PATH": "/mine"}, start_s=0.5)
    first, second = programs([server, client], FABRIC, CALLER, INSIDE)
    assert (first.name, first.background, first.start_s) == ("server", True, 0.0)
    assert (second.name, second.background, second.start_s, second.host) == ("client", False, 0.5, 2)
    assert (second.env["size"], second.env["PATH"]) == ("3", "/mine")
    assert second.env["GRADWIRE_FIGURES"] == "/run/job/figures/client/h3.jsonl"
    assert second.env["HYDRA_HOST_FILE"] == "/run/gradwire/mpi-hosts-client.hydra"
    assert second.env["GRADWIRE_HOSTS"] == "h3 h2"


def test_warm_imports_go_with_the_words_that_a_shell_would_make() -> None:
    argv = ("/bin/sh", "-c", 'exec python3 -u train.py --size "$size" --host $GRADWIRE_HOST')
    each = Started(argv, [0, 2], Launch.TORCH, variables={"size": "64 MB"}, warm_imports=("torch",))
    first, second = programs([each], FABRIC, CALLER, INSIDE)
    assert first.argv == argv
    for program, host in ((first, "h1"), (second, "h3")):
        assert program.warm == WarmPython(
            ("python3", "-u"), Runs.SCRIPT, "train.py", ("--size", "64 MB", "--host", host), ("torch",)
        )
    (cold,) = started(Launch.EACH, [0], ["python3", "train.py"], CALLER)
    assert cold.warm is None


def test_warm_imports_do_not_go_with_an_mpirun() -> None:
    each = Started(("mpirun", "python3", "train.py"), [0, 1], Launch.MPI, warm_imports=("torch",))
    with pytest.raises(InputFault, match="starts an mpirun"):
        programs([each], FABRIC, CALLER, INSIDE)


def test_a_scenario_s_wrong_warm_imports_are_named_by_their_key() -> None:
    sections = {
        "train": ProgramSection(command="python3 train.py $size | cat", arguments={"size": 3}, warm_imports=("torch",)),
        "fine": ProgramSection(command="python3 train.py $size", warm_imports=("torch",)),
    }
    with pytest.raises(InputFault, match=r"^program\.train\.warm_imports: python3 train\.py \$size \| cat: .*'\|'"):
        refuse_wrong_commands(sections)


def test_programs_without_a_class_are_paused_with_the_most_urgent() -> None:
    lossless = Fabric(2, 1e9, lossless=Lossless())
    assert [class_alone(None, fabric) for fabric in (Fabric(2, 1e9), lossless)] == [None, 0]
    assert [class_alone(1, fabric) for fabric in (Fabric(2, 1e9), lossless)] == [1, 1]
