"""The boot command, the job's file, the end of its output, and where memory goes. No kernel is booted."""

import errno
import os
from pathlib import Path

import pytest

from gradwire.faults import InputFault, MachineFault, UnfitMachine
from gradwire.vm import machine, memory_folders
from gradwire.vm.batch_job import TokenWatch, run_virtual
from gradwire.vm.kernel_death import STOPPED, KernelFault
from gradwire.vm.kernel_source import note_content
from gradwire.vm.machine import ONE_WAY, TWO_WAY, Boot, boot_command, job_text
from gradwire.vm.memory_addresses import FIXED_ADDRESSES, fixed_addresses
from gradwire.vm.memory_folders import choose_memory_folder, room_for_memory_mb
from gradwire.vm.session import session
from tests.shared.parts import in_order


def command(kernel: Path = Path("/cache/kernel"), terminal: str = ONE_WAY, *, programs: bool = False) -> list[str]:
    return boot_command(kernel, Boot([], {}, 3, Path("/run"), 512, programs=programs, token="t0"), terminal)


def test_the_kernel_boots_in_virtual_time_on_one_cpu_with_the_job_on_its_own_line() -> None:
    words = command()
    kernel = words.index("/cache/kernel")
    assert words[:kernel] == ["taskset", "-c", "3", *fixed_addresses()]
    assert {"mem=512M", "time-travel=inf-cpu", "con1=null,fd:0", "uml_dir=.kernel"} <= set(words)
    assert words[words.index("--") + 1 :] == [str(machine.INIT)]
    assert set(command(terminal=TWO_WAY)) ^ set(words) == {ONE_WAY, TWO_WAY}


def test_a_machine_that_chooses_addresses_at_random_is_kept_from_it_where_it_allows_that(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fixed_addresses.cache_clear()
    assert fixed_addresses() in ((), FIXED_ADDRESSES)
    refusing = tmp_path / "setarch"
    refusing.write_text("#!/bin/sh\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    fixed_addresses.cache_clear()
    assert fixed_addresses() == ()
    refusing.unlink()
    fixed_addresses.cache_clear()
    assert fixed_addresses() == ()
    fixed_addresses.cache_clear()


@pytest.mark.parametrize(("listing", "known"), [("seccomp=<on/auto/off>", True), ("mem=<Amount>  seccomp=", False)])
def test_a_kernel_that_knows_seccomp_is_asked_for_it_but_not_with_programs(
    tmp_path: Path, listing: str, known: bool
) -> None:
    kernel = dying_kernel(tmp_path, f"echo '{listing}'")
    assert ("seccomp=on" in command(kernel)) is known
    assert "seccomp=on" not in command(kernel, programs=True)


def test_the_job_file_lists_environment_and_command() -> None:
    text = job_text(["prog", "a b", "--x=1"], {"NAME": "v=w"})
    assert text == b"NAME=v=w\0prog\0a b\0--x=1\0"


@pytest.mark.parametrize("argv", [[], ["A=b"], ["prog", "a\0b"]])
def test_jobs_that_cannot_be_handed_over_are_refused(argv: list[str]) -> None:
    with pytest.raises(InputFault, match="job command"):
        job_text(argv, {})


def test_lines_are_handed_on_until_the_token() -> None:
    lines: list[str] = []
    watch = TokenWatch("f00d", lines.append)
    for line in ["one", "", "unfinished f00d", "kernel goes down"]:
        watch.take(line)
    assert lines == ["one", "", "unfinished "]
    assert watch.seen


def test_a_token_alone_is_no_line_of_the_job() -> None:
    lines: list[str] = []
    watch = TokenWatch("f00d", lines.append)
    watch.take("f00d")
    assert lines == []
    assert watch.seen


def test_memory_goes_to_the_first_folder_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    rooms = {Path("/small"): 64, Path("/large"): 9000}
    monkeypatch.setattr(memory_folders, "memory_folders", lambda: list(rooms))
    monkeypatch.setattr(memory_folders, "room_for_memory_mb", rooms.__getitem__)
    assert choose_memory_folder(64) == Path("/small")
    assert choose_memory_folder(3072) == Path("/large")
    with pytest.raises(MachineFault, match=in_order("9999 MiB", "/small: 64 MiB", "/large: 9000 MiB")):
        choose_memory_folder(9999)


def test_folders_that_forbid_code_or_are_missing_have_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert room_for_memory_mb(tmp_path / "absent") == 0
    facts = os.statvfs(tmp_path)
    assert room_for_memory_mb(tmp_path) == facts.f_bavail * facts.f_frsize >> 20
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result([*facts[:8], os.ST_NOEXEC, 255]))
    assert room_for_memory_mb(tmp_path) == 0


def test_without_a_kernel_the_command_that_builds_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cached_kernel", lambda: None)
    with pytest.raises(MachineFault, match="make setup"):
        run_virtual(Boot(["true"], env={}, cpu=0, workdir=tmp_path), time_limit_s=1, on_line=print)


def dying_kernel(tmp_path: Path, text: str) -> Path:
    kernel = tmp_path / "kernel"
    kernel.write_text(f"#!/bin/sh\n{text}\n")
    kernel.chmod(0o755)
    return kernel


def run(kernel: Path, workdir: Path, *, time_limit_s: float = 20) -> int:
    cpu = min(os.sched_getaffinity(0))
    return run_virtual(
        Boot(["true"], env={}, cpu=cpu, memory_mb=1, workdir=workdir, kernel=kernel),
        time_limit_s=time_limit_s,
        on_line=print,
    )


def test_a_kernel_that_dies_is_told_with_its_last_words_and_leaves_nothing(tmp_path: Path) -> None:
    workdir = tmp_path / "run"
    with pytest.raises(MachineFault, match=r"kernel died(.|\n)*Kernel panic"):
        run(dying_kernel(tmp_path, "echo 'Kernel panic - not syncing'; exit 1"), workdir)
    assert list(workdir.iterdir()) == []


def test_a_kernel_that_dies_is_told_of_where_its_job_is_talked_with(tmp_path: Path) -> None:
    """Also where a process that it leaves behind keeps its outputs open."""
    for death in ("exit 1", "sleep 1000 & exit 1"):
        kernel = dying_kernel(tmp_path, f"echo 'Kernel panic - not syncing'; {death}")
        boot = Boot(["true"], {}, min(os.sched_getaffinity(0)), tmp_path / "run", 1, kernel, job_name="the script")
        with (
            pytest.raises(KernelFault, match=r"died before the script had ended(.|\n)*Kernel panic"),
            session(boot) as running,
        ):
            running.follow(print, lambda: False)
        assert list((tmp_path / "run").iterdir()) == []


def test_a_kernel_that_lives_on_with_a_stopped_process_is_ended_at_once(tmp_path: Path) -> None:
    """Which process inside it was cannot be told; an end that looks good afterwards is none either."""
    words = "echo 'userspace - child stopped with signal 18'"
    for then in ("exec sleep 1000", "echo 0 >.kernel/status"):
        with pytest.raises(KernelFault) as raised:
            run(dying_kernel(tmp_path, f'[ "$1" = --help ] || {{ {words}; {then}; }}'), tmp_path / "run")
        assert raised.value.cause.name == STOPPED


def test_a_kernel_whose_content_has_changed_is_not_booted(tmp_path: Path) -> None:
    kernel = dying_kernel(tmp_path, '[ "$1" = --help ] || touch booted')
    note_content(kernel)
    with pytest.raises(KernelFault, match="kernel died"):  # it is whole
        run(kernel, tmp_path)
    (tmp_path / "booted").unlink()
    kernel.write_text(kernel.read_text() + "\n")
    with pytest.raises(UnfitMachine, match=in_order("another content", "remedy:")):
        run(kernel, tmp_path)
    assert not (tmp_path / "booted").exists()
    kernel.unlink()
    with pytest.raises(UnfitMachine, match="No such file"):
        run(kernel, tmp_path)


def test_a_kernel_without_a_sign_of_life_is_ended_before_its_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "BOOT_LIMIT_S", 0.2)
    with pytest.raises(KernelFault, match=r"within 0\.2 s") as raised:
        run(dying_kernel(tmp_path, '[ "$1" = --help ] || exec sleep 1000'), tmp_path)
    assert "gradwire kernel --force" in raised.value.cause.remedy
    alive = "mkdir .kernel/gradwire; touch .kernel/gradwire/pid; sleep 0.5; echo 0 >.kernel/status"
    assert run(dying_kernel(tmp_path, f'[ "$1" = --help ] || {{ {alive}; }}'), tmp_path) == 0


def test_a_kernel_that_hangs_is_ended_at_the_time_limit(tmp_path: Path) -> None:
    with pytest.raises(MachineFault, match=in_order("limit", "0.2 s")):
        run(dying_kernel(tmp_path, '[ "$1" = --help ] || exec sleep 1000'), tmp_path, time_limit_s=0.2)


def test_what_a_killed_run_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / machine.BOX_NAME).mkdir()
    (tmp_path / machine.BOX_NAME / "status").write_text("0\n")
    with pytest.raises(MachineFault, match="kernel died"):
        run(dying_kernel(tmp_path, "exit 0"), tmp_path)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(MachineFault, match=os.strerror(errno.ENOTDIR)):
        run(dying_kernel(tmp_path, "exit 0"), tmp_path / "file" / "run")
