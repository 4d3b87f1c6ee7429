"""`gradwire exec --user NAME`: of a root's rights, programs have none, and neither has the command that reads what they left."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from gradwire.faults import Fault, InputFault
from gradwire.runs.launch.other_user import OtherUser, _make_for, going_on_as
from tests.end_to_end.programs.running import execute, left_behind

NAME = "nobody"
SIZE = ("--workers", "2", "--rate", "10gbit")


def can_read_gradwire() -> bool:
    """Whether the user may read gradwire and the Python of these tests, which may lie in root's home."""
    tried = ["runuser", "-u", NAME, "--", sys.executable, "-c", "import msgspec"]
    return os.geteuid() == 0 and subprocess.run(tried, cwd="/", capture_output=True, check=False).returncode == 0


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may enter, as those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.kernel
@pytest.mark.usefixtures("virtual_kernel")
@pytest.mark.root
def test_programs_have_the_rights_of_the_user_and_the_results_are_the_users(folder: Path) -> None:
    secret = folder / "secret"
    secret.write_text("of root")
    secret.chmod(0o600)
    home = pwd.getpwnam(NAME).pw_dir
    script = f"cat {secret}; touch {folder}/new /etc/new; test $HOME = {home} && ping -qc 1 h1 >/dev/null && echo fine"
    done = execute(folder, *SIZE, "--user", NAME, "--", "sh", "-c", script)
    assert done.status == 0, done.err
    assert "valid: " in done.out
    assert "you are root" not in done.err
    assert done.err.count("Permission denied") == 6
    for host in ("h1", "h2"):
        assert done.output(host) == "fine\n"
    owner = pwd.getpwnam(NAME).pw_uid
    assert {path.stat().st_uid for path in (done.folder, *done.folder.rglob("*"))} == {owner}
    assert left_behind(folder) == []


@pytest.mark.kernel
@pytest.mark.usefixtures("virtual_kernel")
@pytest.mark.root
def test_a_folder_that_is_not_the_users_is_refused(folder: Path) -> None:
    (folder / "run").mkdir()
    done = execute(folder, *SIZE, "--user", NAME, "--", "true")
    assert done.status == 2
    assert f"run: {NAME} may not" in done.err


@pytest.mark.root
@pytest.mark.parametrize(
    ("name", "said"), [("no-such-user", "no such user"), ("root", "is root"), ("0", "is root"), ("9" * 30, "no such")]
)
def test_who_is_nobody_to_become_is_refused(name: str, said: str) -> None:
    with pytest.raises(InputFault, match=said):
        OtherUser.named(name)


@pytest.mark.ordinary_user
def test_only_root_becomes_another_user() -> None:
    with pytest.raises(InputFault, match="only root"):
        OtherUser.named(NAME)


@pytest.mark.root
def test_nothing_of_roots_rights_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, for it never becomes root again."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/root/.cache")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            user = OtherUser.named(NAME)
            with suppress(Fault), going_on_as(user, tmp_path / "run", ["gradwire.faults"]):
                pass
            ids = (*os.getresuid(), *os.getresgid())
            is_users = set(ids[:3]) == {user.uid} and set(ids[3:]) == {user.gid} and 0 not in os.getgroups()
            with pytest.raises(PermissionError):
                os.setuid(0)
            is_told = os.environ["HOME"] == user.home and "XDG_CACHE_HOME" not in os.environ
            status = 0 if is_users and is_told else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "run").stat().st_uid == pwd.getpwnam(NAME).pw_uid
    assert not list(Path("/tmp").glob(f"gradwire-{child:010d}*"))


@pytest.mark.root
def test_a_link_in_the_place_of_the_folder_is_given_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "roots").mkdir()
    (tmp_path / "run").symlink_to("roots")
    _make_for(OtherUser.named(NAME), tmp_path / "run")
    assert (tmp_path / "roots").stat().st_uid == 0
