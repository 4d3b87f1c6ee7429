"""`--user`: a command of root continues as another user, without any of root's rights, before it runs anything that
others wrote.

The whole machine then runs as that user, and so does the command outside that reads what the machine left: a program
in it can change what that user can, and a link that it leaves in the run's folder leads to nothing else. What the
command needs of root's own files, which are the kernel and the byte code of its jobs, is copied into a folder of the
user's that is removed at the end.
"""

from __future__ import annotations

import os
import pwd
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gradwire import PACKAGE
from gradwire.faults import InputFault, MachineFault
from gradwire.files import without_links
from gradwire.vm.byte_code import byte_code_folder
from gradwire.vm.kernel import CACHE_VARIABLE, cache_folder
from gradwire.vm.machine import whole_kernel
from gradwire.vm.owners import temporary_folder

OPTION = "--user"
OF_ROOT = ("XDG_", "SUDO_", "DBUS_")
"""Beginnings of variables that name root's own folders and sessions, or say who became root."""


@dataclass(frozen=True)
class OtherUser:
    """A user of this machine."""

    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @classmethod
    def named(cls, name: str) -> OtherUser:
        """The user of a name, or of a number. Raises InputFault for one that is not there, for root, and if root does
        not ask."""
        if os.geteuid() != 0:
            raise InputFault(f"{OPTION} {name}: only root can run programs as another user; leave it out")
        try:
            entry = pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
        except (KeyError, OverflowError):
            raise InputFault(f"{OPTION} {name}: this machine has no such user; `getent passwd` lists them") from None
        if entry.pw_uid == 0:
            raise InputFault(f"{OPTION} {name}: is root; name a user with fewer rights, or leave it out")
        return cls(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, entry.pw_shell)


@contextmanager
def going_on_as(
    user: OtherUser, folder: Path, jobs_modules: Sequence[str], stand_ins: Sequence[Path] = ()
) -> Iterator[None]:
    """Makes this process the user's for good, and the run folder `folder` as well. During the block, a copy of the
    needed part of root's cache is there.

    jobs_modules: what jobs in the kernel start with. stand_ins: folders of stand-ins for GPUs that programs need.
    Raises InputFault for a folder that the user cannot use, MachineFault if the user may not read gradwire or its
    Python, UnfitMachine if there is no kernel or a damaged one.
    """
    byte_code = byte_code_folder(tuple(jobs_modules))
    with temporary_folder() as cache:
        _copy_cache(cache, [byte_code, *(each for each in stand_ins if each.is_relative_to(cache_folder()))])
        for path in (
            *cache.rglob("*"),
            cache,
        ):  # the folder last: until then nobody else can put a link in the place of a file
            os.chown(path, user.uid, user.gid, follow_symlinks=False)
        _make_for(user, folder)
        _become(user)
        os.environ[CACHE_VARIABLE] = str(cache)
        _refuse_out_of_reach(user, folder)
        yield


def _copy_cache(cache: Path, folders: Sequence[Path]) -> None:
    shutil.copy(whole_kernel(None), cache)
    for folder in folders:
        shutil.copytree(folder, cache / folder.relative_to(cache_folder()))


def _make_for(user: OtherUser, folder: Path) -> None:
    """Makes the run folder, and gives it to the user; a folder that was there keeps its owner, as do those above
    it.

    The folder that it is made in may be the user's, who could put a link in its place between two calls. Therefore it
    is resolved once, and then opened without following a link.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    parent = os.open(without_links(folder.parent), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        os.mkdir(folder.name, dir_fd=parent)
        made = os.open(folder.name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        os.fchown(made, user.uid, user.gid)
        os.close(made)
    except FileExistsError:
        pass
    finally:
        os.close(parent)


def _become(user: OtherUser) -> None:
    os.initgroups(user.name, user.gid)
    os.setgid(user.gid)
    os.setuid(user.uid)
    for variable in [name for name in os.environ if name.startswith(OF_ROOT)]:
        del os.environ[variable]
    os.environ.update(HOME=user.home, USER=user.name, LOGNAME=user.name, SHELL=user.shell)


def _refuse_out_of_reach(user: OtherUser, folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputFault(f"{folder}: {user.name} may not write there; give another --out, or let {user.name} reach it")
    if not os.access(Path.cwd(), os.R_OK | os.X_OK):
        raise InputFault(
            f"{Path.cwd()}: programs start in the current folder, and {user.name} may not read it; start elsewhere"
        )
    for path in (PACKAGE / "__init__.py", Path(sys.executable).resolve(), Path(os.__file__), Path(msgspec.__file__)):
        if not os.access(path, os.R_OK):
            raise MachineFault(
                f"{path}: {user.name} may not read it, and the whole run is {user.name}'s; install gradwire and its "
                "Python where every user can read them"
            )
