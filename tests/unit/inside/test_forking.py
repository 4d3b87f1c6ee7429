"""Which programs are forks of one Python, and what it imports with."""

from __future__ import annotations

from pathlib import Path

from gradwire.inside.forking import _common, _key
from gradwire.inside.program_protocol import Runs, WarmPython


def warm(what: str, runs: Runs = Runs.SCRIPT, interpreter: tuple[str, ...] = ("python3",)) -> WarmPython:
    return WarmPython(interpreter, runs, what, ("--rank", what), ("torch",))


def test_scripts_of_one_folder_share_a_python_and_others_do_not(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").touch()
    (tmp_path / "link.py").symlink_to(tmp_path / "a" / "one.py")
    first = _key(warm(str(tmp_path / "a" / "one.py")))
    assert _key(warm(str(tmp_path / "a" / "two.py"))) == first
    assert _key(warm(str(tmp_path / "link.py"))) == first  # Python looks where a link leads to
    assert _key(warm(str(tmp_path / "two.py"))) != first
    assert _key(warm("a", Runs.MODULE)) != first
    assert _key(warm("a", Runs.MODULE)) == _key(warm("b", Runs.MODULE))
    assert _key(warm("a", Runs.MODULE)) != _key(warm("a", Runs.MODULE, ("python3", "-O")))


def test_modules_see_what_all_environments_have_in_common() -> None:
    environments = [{"RANK": str(rank), "OMP_NUM_THREADS": "1", f"ONLY_{rank}": "x"} for rank in range(3)]
    assert _common(environments) == {"OMP_NUM_THREADS": "1"}
    assert _common(environments[:1]) == environments[0]
