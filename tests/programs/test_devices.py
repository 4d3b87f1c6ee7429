"""Modules that take the time of a device: real torch, and a clock that moves when somebody sleeps on it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from gradwire.devices import LATENESS_NS, Pace, takes_time_of
from gradwire.faults import InputFault
from gradwire.workloads.models.catalogue import BUILT_IN
from gradwire.workloads.models.compute_times import compute_time
from tests.shared.snippets import ROOT

pytestmark = pytest.mark.programs

LATE_NS = 50


@dataclass
class Clock:
    """Moves when somebody sleeps, and by a little more than was asked for."""

    now_ns: int = 0
    slept_s: list[float] = field(default_factory=list)

    def sleep(self, duration_s: float) -> None:
        self.slept_s.append(duration_s)
        self.now_ns += round(duration_s * 1e9) + LATE_NS

    def pace(self) -> Pace:
        return Pace(lambda: self.now_ns, self.sleep)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def perceptron(*widths: int) -> Any:
    """Linear layers with activations in place, which forbid torch's own hooks for the backward passes of modules."""
    layers = [nn.Sequential(nn.Linear(i, o), nn.ReLU(inplace=True)) for i, o in pairwise(widths)]
    return nn.Sequential(*layers)


def step(model: Any, batch: int = 2) -> None:
    model(torch.ones(batch, 4)).sum().backward()


def test_a_device_with_a_rate_takes_as_long_as_the_flops_that_torch_counts(clock: Clock) -> None:
    times = takes_time_of(perceptron(4, 8, 16), "a100", batch=32, pace=clock.pace())
    assert times.forward_s == {}
    model = perceptron(4, 8, 16)
    times = takes_time_of(model, "a100", batch=32, pace=clock.pace())
    step(model, batch=1)
    rate = 312e12 * 0.44
    forward_s = {"0.0": 2 * 4 * 8 * 32 / rate, "1.0": 2 * 8 * 16 * 32 / rate}
    assert times.forward_s == pytest.approx(forward_s)
    assert times.backward_s == pytest.approx({name: 2 * seconds for name, seconds in forward_s.items()})


def bottleneck(inputs: int, width: int, stride: int) -> Any:
    """A block of ResNet-50 with a shortcut."""

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            shapes = ((inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1))
            self.convs = nn.ModuleList(
                nn.Conv2d(before, after, window, step, window // 2, bias=False)
                for before, after, window, step in shapes
            )
            self.norms = nn.ModuleList(nn.BatchNorm2d(after) for _, after, _, _ in shapes)
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Any) -> Any:
            y = x
            for number, (conv, norm) in enumerate(zip(self.convs, self.norms, strict=True)):
                y = norm(conv(y))
                y = self.relu(y) if number < 2 else y
            y += self.shortcut(x)
            return self.relu(y)

    return Block()


def test_convolutional_modules_take_what_their_layers_do_in_plans(clock: Clock) -> None:
    """The first block of ResNet-50's third stage, whose layers gradwire knows."""
    profile = BUILT_IN.model("resnet50-torchvision")
    planned = compute_time(profile, "v100", batch=32)
    block = bottleneck(256, 128, 2)
    times = takes_time_of(block, "v100", batch=32, pace=clock.pace())
    block(torch.ones(2, 256, 56, 56)).sum().backward()
    own = [number for number, layer in enumerate(profile.layers) if layer.name.startswith("block2/unit1/")]
    assert sum(times.forward_s.values()) == pytest.approx(sum(planned.forward_s[n] for n in own), rel=1e-6)
    assert sum(times.backward_s.values()) == pytest.approx(sum(planned.backward_s[n] for n in own), rel=1e-6)
    assert set(times.forward_s) == {"", *(f"{kind}.{n}" for kind in ("convs", "norms") for n in range(3))} | {
        "shortcut.0",
        "shortcut.1",
    }


def test_poolings_and_products_take_their_own_times(clock: Clock) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 9),
    )
    times = takes_time_of(model, "h100", batch=128, pace=clock.pace())
    model(torch.ones(1, 3, 32, 32)).sum().backward()
    memory_bytes_per_s, images_bytes = 3.35e12, 2 * 128 * 64 * 32 * 32
    assert set(times.forward_s) == {"0", "2", "3", "5"}
    assert times.forward_s["2"] == pytest.approx(4.2 * images_bytes / memory_bytes_per_s + 4e-6)
    assert times.forward_s["0"] > 7.4 * images_bytes / memory_bytes_per_s, "biases and the ReLU"


def test_without_a_batch_the_real_samples_count(clock: Clock) -> None:
    taken = []
    for samples in (1, 6):
        model = perceptron(4, 8)
        times = takes_time_of(model, "h100", pace=clock.pace())
        step(model, samples)
        taken.append(times.forward_s["0.0"])
    assert taken[1] == pytest.approx(6 * taken[0])


def test_a_pass_takes_the_times_in_turn_and_the_first_the_same_in_sum(clock: Clock) -> None:
    model = perceptron(4, 4, 4, 4)
    takes_time_of(model, iteration_s=0.09, pace=clock.pace())
    step(model)
    assert clock.slept_s == pytest.approx([0.03, 0.02, 0.02, 0.02], abs=1e-6)
    clock.slept_s.clear()
    step(model)
    assert clock.slept_s == pytest.approx([0.01] * 3 + [0.02] * 3, abs=1e-6)


def test_lateness_does_not_add_up_and_waiting_is_no_lateness(clock: Clock) -> None:
    pace = clock.pace()
    for _ in range(1000):
        pace.compute(1e-3)
    assert clock.now_ns == 1_000_000_000 + LATE_NS
    assert pace.latest_ns == LATE_NS
    clock.now_ns += LATENESS_NS
    pace.compute(1e-3)
    assert clock.now_ns == 1_000_000_000 + 2 * LATE_NS + LATENESS_NS + 1_000_000


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_gradients_are_handed_on_while_the_layers_below_compute(clock: Clock, is_wrapped: bool) -> None:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = perceptron(4, 4, 4, 4)
        parallel = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-6)
        takes_time_of(parallel if is_wrapped else model, iteration_s=0.09, pace=clock.pace())
        handed_s: list[tuple[float, int]] = []

        def reduce(bucket: Any) -> Any:
            handed_s.append((round(clock.now_ns / 1e9, 6), sum(part.numel() for part in bucket.parameters())))
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
            return future

        parallel.register_comm_hook(None, lambda _, bucket: reduce(bucket))  # whose types DDP would check
        for _ in range(2):  # DDP makes its buckets after the first iteration
            handed_s.clear()
            step(parallel)
        assert [seconds for seconds, _ in handed_s if seconds] == pytest.approx([0.14, 0.14, 0.16, 0.16, 0.18, 0.18])
        assert [values for _, values in handed_s] == [4, 16] * 3
    finally:
        dist.destroy_process_group()


def test_a_layer_of_several_calls_takes_each_its_share(clock: Clock) -> None:
    class Twice(nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.shared, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.last(self.shared(self.shared(x)))

    model = Twice()
    times = takes_time_of(model, iteration_s=0.09, pace=clock.pace())
    step(model)
    clock.slept_s.clear()
    step(model)
    assert times.forward_s == pytest.approx({"shared": 0.01, "last": 0.01})
    assert clock.slept_s == pytest.approx([0.01] * 3 + [0.02] * 3, abs=1e-6)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
def test_layers_with_several_outputs_and_products_outside_of_layers_take_their_time_once(clock: Clock) -> None:
    class Attention(nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.recurrent, self.mixing = nn.LSTM(4, 4, batch_first=True), nn.MultiheadAttention(4, 1, batch_first=True)

        def forward(self, x: Any) -> Any:
            whole, (last, _) = self.recurrent(x)
            return self.mixing(whole, whole, whole)[0] + last.mean()

    model = Attention()
    times = takes_time_of(model, iteration_s=0.03, pace=clock.pace())
    for _ in range(2):
        clock.slept_s.clear()
        model(torch.ones(2, 3, 4)).sum().backward()
    assert set(times.forward_s) == {"recurrent", "mixing"}
    assert sum(clock.slept_s) == pytest.approx(0.03, abs=1e-6)
    assert len(clock.slept_s) == 4


def test_evaluation_takes_the_forward_time_alone_and_remove_ends_it(clock: Clock) -> None:
    model = perceptron(4, 4)
    times = takes_time_of(model, iteration_s=0.03, pace=clock.pace())
    step(model)
    begin_ns = clock.now_ns
    with torch.no_grad():
        model(torch.ones(1, 4))
    assert clock.now_ns - begin_ns == pytest.approx(10_000_000, abs=1000)
    times.remove()
    begin_ns = clock.now_ns
    step(model)
    assert clock.now_ns == begin_ns


def test_after_a_first_pass_that_fails_the_next_is_the_first(clock: Clock) -> None:
    model = perceptron(4, 4)
    times = takes_time_of(model, iteration_s=0.03, pace=clock.pace())
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.ones(1, 5))
    assert times.forward_s == {}
    step(model)
    assert times.forward_s == pytest.approx({"0.0": 0.01})


def test_a_profile_gives_the_facts_of_a_device(clock: Clock) -> None:
    alexnet = BUILT_IN.model("alexnet")
    model = nn.Linear(4, alexnet.parameters // 4, bias=False, device="meta")
    times = takes_time_of(model, "k40", profile="alexnet", batch=256, pace=clock.pace())
    model(torch.ones(1, 4, device="meta"))
    facts = compute_time(alexnet, "k40", batch=256)
    assert sum(times.forward_s.values()) == pytest.approx(sum(facts.forward_s))
    assert sum(times.backward_s.values()) == pytest.approx(sum(facts.backward_s))


def calls() -> Iterator[tuple[Callable[[], object], str]]:
    model = perceptron(4, 4)
    yield lambda: takes_time_of("resnet50", "v100"), "wants a torch.nn.Module, and got str"
    yield lambda: takes_time_of(model), "either a device"
    yield lambda: takes_time_of(model, "v100", iteration_s=1.0), "either a device"
    yield lambda: takes_time_of(model, "v10"), "did you mean 'v100'"
    yield lambda: takes_time_of(model, "k40"), "only the times of alexnet, resnet50.*profile="
    yield (
        lambda: takes_time_of(model, "k40", profile="resnet50"),
        "0.0 million parameters and profile 'resnet50' has 25",
    )
    yield lambda: takes_time_of(model, "v100", batch=0), "batch=0: must be at least 1"
    yield lambda: takes_time_of(model, iteration_s=0), "must be above 0"
    yield lambda: step(_timed(nn.ReLU())), "torch counts no FLOP"
    yield _timed(nn.ReLU()), "without a tensor"


def _timed(model: Any) -> Any:
    takes_time_of(model, "v100", pace=Clock().pace())
    return model


@pytest.mark.parametrize(
    ("call", "complaint"), list(calls()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_is_wrong_is_told(call: Callable[[], object], complaint: str) -> None:
    with pytest.raises(InputFault, match=complaint):
        call()


def test_a_scripts_python_needs_nothing_but_torch(tmp_path: Path) -> None:
    (tmp_path / "gradwire").symlink_to(ROOT / "gradwire")
    probe = (
        "import sys, torch; before = set(sys.modules); import gradwire.devices; "
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names - {'torch'})"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["gradwire"]
