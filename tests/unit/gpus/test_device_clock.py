"""The time of a device: what is put into streams, and who waits for it."""

from __future__ import annotations

from gradwire.gpu_scripts.device_clock import DeviceClock


class Clock:
    """Moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now_ns = 1000

    def sleep(self, duration_s: float) -> None:
        self.now_ns += round(duration_s * 1e9)


def devices() -> tuple[Clock, DeviceClock]:
    clock = Clock()
    return clock, DeviceClock(lambda: clock.now_ns, clock.sleep)


def test_kernels_of_a_stream_follow_each_other_and_the_host_goes_on() -> None:
    clock, device = devices()
    device.run(300)
    device.run(200)
    assert (clock.now_ns, device.default.end_ns, device.busy_ns) == (1000, 1500, 500)
    device.synchronize()
    assert clock.now_ns == 1500


def test_a_kernel_begins_when_it_is_given_after_a_stream_has_ended() -> None:
    clock, device = devices()
    device.run(300)
    clock.now_ns = 5000
    device.run(10)
    assert device.default.end_ns == 5010


def test_streams_run_side_by_side_until_one_waits_for_the_other() -> None:
    clock, device = devices()
    device.run(300)
    other = device.current = device.new_stream()
    device.run(100)
    assert other.end_ns == 1100
    other.wait(device.default.end_ns)
    device.run(100)
    assert other.end_ns == 1400
    device.synchronize()
    assert clock.now_ns == 1400


def test_a_device_is_done_when_its_collectives_are() -> None:
    clock, device = devices()
    device.drains.append(lambda: clock.sleep(7e-6))
    device.run(100)
    device.synchronize()
    assert clock.now_ns == 8000
