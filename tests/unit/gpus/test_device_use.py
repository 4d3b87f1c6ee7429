"""What scripts' processes leave about their devices."""

from __future__ import annotations

from pathlib import Path

from gradwire.gpus.device_use import DeviceUse, device_uses, use_text
from gradwire.gpus.invented_calls import InventedCalls, invented_calls

USE = '{"busy_ns": 2000000, "flops": 3000000000000, "most_bytes": 1048576, "operations": {"aten.mm": 1500000, "aten.add": 500000}}\n'
INVENTED = '{"call": "kernel", "count": 2, "size_bytes": 4096}\n'


def test_both_kinds_of_lines_are_read_from_one_file_and_others_left_out(tmp_path: Path) -> None:
    file = tmp_path / "calls"
    file.write_text(USE + INVENTED + '{"busy_ns": -1}\nnothing\n')
    assert device_uses({"h1": file, "h2": tmp_path / "none"}) == (
        DeviceUse(2_000_000, 3_000_000_000_000, 1 << 20, {"aten.mm": 1_500_000, "aten.add": 500_000}, "h1"),
    )
    assert invented_calls([file]) == (InventedCalls("kernel", 2, 4096),)


def test_a_person_is_told_of_the_busiest() -> None:
    uses = [DeviceUse(1, 1, 2 << 20, {}, "h1"), DeviceUse(2_000_000, 3 * 10**12, 1 << 20, {"aten.mm": 1_500_000}, "h2")]
    told = use_text(uses)
    for part in ("2.000 ms on h2", "mm 75%", "3.000 TFLOP", "2.0 MiB"):
        assert part in told
    assert use_text([]) == ""
