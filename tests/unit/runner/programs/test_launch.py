"""What programs are told by their environment."""

from __future__ import annotations

from gradwire.runner.programs.launch import Launch, programs
from gradwire.topo.fabric import Fabric

FABRIC = Fabric(4, 10e9)
CALLER = {"PATH": "/bin", "TMPDIR": "/home/me/tmp", "XDG_RUNTIME_DIR": "/run/user/1000", "MINE": "kept"}


def test_each_host_knows_itself_and_its_peers() -> None:
    first, second = programs(Launch.EACH, FABRIC, [3, 0], ["./program", "-x"], CALLER)
    assert (first.host, second.host, first.argv) == (3, 0, ("./program", "-x"))
    assert {name: first.env[name] for name in first.env if name.startswith("GRADWIRE")} == {
        "GRADWIRE_HOST": "h4",
        "GRADWIRE_INDEX": "0",
        "GRADWIRE_ADDRESS": "10.0.0.4",
        "GRADWIRE_HOSTS": "h4 h1",
        "GRADWIRE_ADDRESSES": "10.0.0.4 10.0.0.1",
    }
    assert (second.env["GRADWIRE_INDEX"], second.env["HOSTNAME"], second.env["TMPDIR"]) == ("1", "h1", "/run/tmp/h1")


def test_the_callers_environment_is_inherited_but_for_what_the_kernel_lacks() -> None:
    (program,) = programs(Launch.EACH, FABRIC, [0], ["p"], CALLER)
    assert (program.env["MINE"], program.env["PATH"]) == ("kept", "/bin")
    assert "XDG_RUNTIME_DIR" not in program.env
    assert program.env["PYTHONUNBUFFERED"] == "1"
    (unlike,) = programs(Launch.EACH, FABRIC, [0], ["p"], {"PYTHONUNBUFFERED": ""})
    assert unlike.env["PYTHONUNBUFFERED"] == ""


def test_scripts_find_gradwire_behind_the_callers_own_modules() -> None:
    for own, path in (({}, "/run/gradwire/python"), ({"PYTHONPATH": "/mine"}, "/mine:/run/gradwire/python")):
        (program,) = programs(Launch.EACH, FABRIC, [0], ["p"], own)
        assert program.env["PYTHONPATH"] == path


def test_torch_has_what_torchrun_gives_a_rank() -> None:
    ranks = programs(Launch.TORCH, FABRIC, [1, 2], ["python3"], {})
    assert [(rank.env["RANK"], rank.env["LOCAL_RANK"], rank.env["GLOO_SOCKET_IFNAME"]) for rank in ranks] == [
        ("0", "0", "h2-eth0"),
        ("1", "0", "h3-eth0"),
    ]
    assert {(rank.env["MASTER_ADDR"], rank.env["MASTER_PORT"], rank.env["WORLD_SIZE"]) for rank in ranks} == {
        ("10.0.0.2", "29500", "2")
    }


def test_mpi_starts_one_mpirun_that_reaches_the_others() -> None:
    (program,) = programs(Launch.MPI, FABRIC, [2, 0, 1], ["mpirun", "-np", "3", "./p"], {})
    assert program.host == 2
    assert program.env["OMPI_MCA_plm_rsh_agent"] == program.env["HYDRA_LAUNCHER_EXEC"] == "/run/gradwire/enter-host"
    assert program.env["OMPI_MCA_pml"] == "ob1"
