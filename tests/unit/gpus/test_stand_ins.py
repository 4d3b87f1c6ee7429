"""The stand-ins by themselves: what they do not have ends a program by name, large memory is left alone, and who has them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.gpus.choice import CALLS_VARIABLE, SHARED_VARIABLE, GpuChoice, variables
from gradwire.gpus.hip_devices import DEVICES, hip_device
from gradwire.gpus.invented_calls import InventedCalls, invented_calls
from gradwire.gpus.stand_ins import PRELOADED, stand_ins_folder
from gradwire.network.fabric import Fabric
from gradwire.programs.launch import Launch, Started, programs

MIB = 1 << 20
COUNTS_BYTES = 8
"""What the processes of one host share: two counts (progress.c)."""
MOVES = """
import ctypes, ctypes.util
hip = ctypes.CDLL("libamdhip64.so.5")
def memory(call, size):
    address = ctypes.c_void_p()
    return call(ctypes.byref(address), ctypes.c_size_t(size), 0), address
_, host = memory(hip.hipHostMalloc, 2 << 20)
_, device = memory(hip.hipMalloc, 2 << 20)
ctypes.memset(host, 7, 2 << 20)
for size in (1 << 10, 2 << 20):
    assert hip.hipMemcpy(device, host, ctypes.c_size_t(size), 1) == 0
    print(ctypes.string_at(device.value + size - 1, 1)[0])
print(memory(hip.hipMalloc, 1 << 60)[0])
smi = ctypes.CDLL("librocm_smi64.so.1")
count = ctypes.c_uint32()
smi.rsmi_num_monitor_devices(ctypes.byref(count))
print(count.value)
"""


def run(script: str, tmp_path: Path, *, moves_data: bool = False) -> subprocess.CompletedProcess[str]:
    """A script with three devices."""
    choice = GpuChoice(3, DEVICES["mi210"], moves_data, stand_ins_folder())
    environment = {**os.environ, **variables(choice, os.environ, tmp_path / "calls"), SHARED_VARIABLE: str(tmp_path)}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize(("moves_data", "last"), [(False, "0"), (True, "7")])
def test_large_memory_is_touched_only_with_data_and_what_was_left_out_is_counted(
    tmp_path: Path, moves_data: bool, last: str
) -> None:
    done = run(MOVES, tmp_path, moves_data=moves_data)
    assert done.stdout.split() == ["7", last, "2", "3"], done.stderr
    invented = () if moves_data else (InventedCalls("copy", 1, 2 * MIB),)
    assert invented_calls([tmp_path / "calls"]) == invented
    assert [file.stat().st_size for file in tmp_path.glob(f"gradwire-gpus-{os.getuid()}")] == [COUNTS_BYTES]


def test_a_function_that_is_missing_ends_the_program_with_its_name(tmp_path: Path) -> None:
    done = run('import ctypes; ctypes.CDLL("libamdhip64.so.5").hipGraphCreate()', tmp_path)
    assert done.returncode == -6
    assert "hipGraphCreate" in done.stderr


OTHER_VERSION = """
typedef struct { unsigned x, y, z; } dim3;
void __hipRegisterFunction(void **, const void *, const char *, const char *, unsigned, void *, void *, dim3 *, dim3 *, int *);
int hipLaunchKernel(const void *, dim3, dim3, void **, unsigned long, void *);
int hipDeviceSynchronize(void);
int ncclGetVersion(int *version) { *version = 21803; return 0; }
void launch(void)
{
	long argument;
	void *arguments[] = {&argument, &argument, &argument};
	__hipRegisterFunction(0, launch, "", "ncclKernel_AllReduce", 0, 0, 0, 0, 0, 0);
	hipLaunchKernel(launch, (dim3){1, 1, 1}, (dim3){64, 1, 1}, arguments, 0, 0);
	hipDeviceSynchronize();
}
"""


def test_a_library_whose_structures_are_unknown_is_refused_by_its_version(tmp_path: Path) -> None:
    (tmp_path / "other.c").write_text(OTHER_VERSION)
    library = tmp_path / "librccl.so.1"
    linked = ["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "other.c")]
    subprocess.run([*linked, str(stand_ins_folder() / "libamdhip64.so.5")], check=True, timeout=60)
    done = run(f'import ctypes; ctypes.CDLL("{library}").launch()', tmp_path)
    assert done.returncode == -6
    assert f"{library} is version 2.18.3" in done.stderr


def test_lines_that_no_stand_in_wrote_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    file.write_text(
        '{"call": "copy", "count": 2, "size_bytes": 30}\nnonsense\n{"call": "copy"}\n{"call": "dance", "count": 1, "size_bytes": 1}\n'
        '{"call": "copy", "count": 1, "size_bytes": 5}\n'
    )
    assert invented_calls([file, tmp_path / "none"]) == (InventedCalls("copy", 3, 35),)


def test_a_program_finds_the_stand_ins_before_what_its_caller_names() -> None:
    choice = GpuChoice(2, DEVICES["mi250x"], False, Path("/stand-ins"))
    started = Started(["./train"], [1], Launch.EACH, gpus=choice)
    (program,) = programs([started], Fabric(2, 10e9), {"LD_LIBRARY_PATH": "/mine"}, Path("/run/job"))
    assert program.env["LD_LIBRARY_PATH"] == "/stand-ins:/mine"
    assert program.env["LD_PRELOAD"] == f"/stand-ins/{PRELOADED}"
    assert program.env[CALLS_VARIABLE] == "/run/job/figures/h2.gpus"
    assert (program.env["GRADWIRE_GPUS"], program.env["GRADWIRE_GPU_ARCHITECTURE"]) == ("2", "gfx90a")


def test_an_unknown_device_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputFault, match="mi250x"):
        hip_device("mi9000")


def test_numbers_that_no_stand_in_counts_are_left_out(tmp_path: Path) -> None:
    for number, size in enumerate(("-1", str(1 << 63), "1" + "0" * 400)):
        (tmp_path / f"{number}").write_text(f'{{"call": "copy", "count": 1, "size_bytes": {size}}}\n')
    (tmp_path / "folder").mkdir()
    assert invented_calls(tmp_path.iterdir()) == ()
