"""Compute times: the printed facts come back, and whatever is scaled or fitted says so."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.models import model, model_names
from gradwire.workloads.models.compute_times import ComputeTime, compute_time, with_modules_of
from gradwire.workloads.models.data_sheets import DATA_SHEETS
from gradwire.workloads.models.device_facts import DEVICES
from gradwire.workloads.models.profile import LayerKind
from gradwire.workloads.units import BYTE_RATE, SIZE
from tests.shared.parts import in_order, tells
from tests.shared.snippets import ROOT


def backward_s(time: ComputeTime) -> float:
    return sum(time.backward_s)


@pytest.mark.parametrize("device", sorted(DEVICES))
def test_every_fact_comes_back(device: str) -> None:
    """Asked for the model and batch of a fact, the sum over layers is that fact."""
    for fact in DEVICES[device].facts:
        time = compute_time(model(fact.model), device, batch=fact.batch)
        expected = sum(fact.seconds) if isinstance(fact.seconds, tuple) else fact.seconds
        assert time.iteration_s == pytest.approx(expected)
        assert time.fitted_on == fact.fitted_on
        assert fact.source in time.source
        assert len(time.forward_s) == len(time.backward_s) == len(model(fact.model).layers)


@pytest.mark.parametrize("device", sorted(DEVICES))
def test_kin_point_to_models_with_facts(device: str) -> None:
    known = {fact.model for fact in DEVICES[device].facts}
    assert set(DEVICES[device].alike.values()) <= known <= set(model_names())
    assert set(DEVICES[device].alike) <= set(model_names()) - known


def test_geryons_models_are_marked_as_fitted() -> None:
    for name in ("alexnet", "vgg19", "resnet50", "yolo-v1"):
        fitted = compute_time(model(name), "k40").fitted_on
        assert fitted is not None
        assert fitted.startswith("Geryon Table II")


def test_split_follows_flops_and_one_to_two() -> None:
    profile = model("vgg19")
    time = compute_time(profile, "k40")
    assert backward_s(time) == pytest.approx(2 * sum(time.forward_s))
    for layer, forward in zip(profile.layers, time.forward_s, strict=True):
        assert forward == pytest.approx(time.iteration_s / 3 * layer.flops / profile.flops)


def test_gradientflows_throughputs() -> None:
    """Iteration times of profile facts: 76.6 and 34.7 ms for AlexNet, 206 ms for ResNet-50 on Volta."""
    assert compute_time(model("alexnet-bn"), "pascal-gf").iteration_s == pytest.approx(0.0766, abs=1e-4)
    assert compute_time(model("alexnet-bn"), "volta-gf-mixed").iteration_s == pytest.approx(0.0347, abs=1e-4)
    assert compute_time(model("resnet50"), "volta-gf-mixed", batch=128).iteration_s == pytest.approx(0.206, abs=1e-3)


def test_gradientflows_alexnet_classifier_takes_little_of_the_backward_pass() -> None:
    """Fig. 13 measures 7.1 %; FLOPs give 8.1 %."""
    profile = model("alexnet-bn")
    time = compute_time(profile, "volta-gf-mixed")
    classifier = sum(
        seconds for layer, seconds in zip(profile.layers, time.backward_s, strict=True) if layer.kind is LayerKind.FC
    )
    assert classifier / backward_s(time) == pytest.approx(0.071, abs=0.012)


def test_netops_gives_both_passes_without_the_first_backward_layer() -> None:
    profile = model("vgg16-299")
    time = compute_time(profile, "ec2-netops")
    assert sum(time.forward_s) == pytest.approx(0.169)
    assert backward_s(time) == pytest.approx(0.024)
    assert time.backward_s[profile.tensor_layer[-1]] == 0
    assert time.forward_s[profile.tensor_layer[-1]] > 0


def test_the_slowest_of_netops_traces_takes_longer_on_its_way_back_alone() -> None:
    for name in ("inception-v3-netops", "vgg16-299", "resnet101-netops", "resnet200"):
        table, slowest = (compute_time(model(name), device) for device in ("ec2-netops", "ec2-netops-slowest"))
        assert sum(slowest.forward_s) == pytest.approx(sum(table.forward_s))
        fitted = name != "vgg16-299"
        assert (slowest.fitted_on is not None) == (backward_s(slowest) > backward_s(table) * 1.01) == fitted


def test_batch_scales_at_the_same_rate_from_the_nearest_fact() -> None:
    at_32 = compute_time(model("resnet50"), "k80-half", batch=32)
    at_16 = compute_time(model("resnet50"), "k80-half", batch=16)
    at_128 = compute_time(model("resnet50"), "k80-half", batch=128)
    assert at_16.iteration_s == pytest.approx(at_32.iteration_s / 2)
    assert at_128.iteration_s == pytest.approx(128 / 51.9)
    assert tells(at_16.source, "batch 32", "16")


def test_kin_scale_by_flops_and_say_so() -> None:
    kin, fact = model("vgg19"), model("vgg16")
    time = compute_time(kin, "k80-half", batch=32)
    assert time.iteration_s == pytest.approx(32 / 35.4 * kin.flops / fact.flops)
    assert "FLOPs from vgg16" in time.source


def test_added_modules_cost_the_bases_seconds_per_flop() -> None:
    base, longer = model("inception-v3-netops"), model("inception-v3-netops+25compute")
    before, after = compute_time(base, "ec2-netops"), compute_time(longer, "ec2-netops")
    assert sum(after.forward_s) == pytest.approx(0.176 * longer.flops / base.flops)
    kept = [layer.name for layer in longer.layers].index("mixed_7b/branch0")
    same = [layer.name for layer in base.layers].index("mixed_7b/branch0")
    assert after.backward_s[kept] == pytest.approx(before.backward_s[same])


def test_a_scenarios_own_time_replaces_the_devices() -> None:
    time = compute_time(model("sockeye"), "p4000", batch=16, iteration_s=0.5, forward_share=0.25)
    assert time.iteration_s == pytest.approx(0.5)
    assert sum(time.forward_s) == pytest.approx(0.125)
    assert time.fitted_on is None
    assert "the scenario" in time.source


def test_a_forward_time_of_its_own_leaves_the_backward_pass() -> None:
    """NetOps profiles the forward pass apart from the traces that it adds modules to."""
    grown = model("inception-v3-netops+25network")
    plain = compute_time(grown, "ec2-netops-slowest")
    fixed = compute_time(grown, "ec2-netops-slowest", forward_s=0.176)
    assert sum(plain.forward_s) > 0.4
    assert sum(fixed.forward_s) == pytest.approx(0.176)
    assert fixed.backward_s == plain.backward_s
    shares = [a / b for a, b in zip(fixed.forward_s, plain.forward_s, strict=True) if b]
    assert max(shares) == pytest.approx(min(shares))


@pytest.mark.parametrize("kind", ["compute", "network"])
def test_modules_take_their_times_of_another_device_and_leave_the_models_own(kind: str) -> None:
    base, grown = model("inception-v3-netops"), model(f"inception-v3-netops+3{kind}")
    slowest, traced = compute_time(base, "ec2-netops-slowest"), compute_time(grown, "ec2-netops")
    times = with_modules_of(slowest, grown, traced)
    mine = [layer.name.startswith("added_") for layer in grown.layers]
    for both, before, elsewhere in (
        (times.forward_s, slowest.forward_s, traced.forward_s),
        (times.backward_s, slowest.backward_s, traced.backward_s),
    ):
        assert tuple(s for s, new in zip(both, mine, strict=True) if not new) == before
        assert [s for s, new in zip(both, mine, strict=True) if new] == [
            s for s, new in zip(elsewhere, mine, strict=True) if new
        ]
    assert times.fitted_on == slowest.fitted_on


def test_speedup_touches_its_kind_alone() -> None:
    """NetOps, Sec. 8.6."""
    profile = model("resnet200")
    plain = compute_time(profile, "ec2-netops")
    fast = compute_time(profile, "ec2-netops", speedup={LayerKind.CONV: 2.5})
    for layer, before, after in zip(profile.layers, plain.backward_s, fast.backward_s, strict=True):
        assert after == pytest.approx(before / (2.5 if layer.kind is LayerKind.CONV else 1))


def test_generic_gpu_from_its_data_sheet() -> None:
    """Llama 3 8B: 3 x forward FLOPs at 40 % of 989 TFLOP/s, about one sequence of 8192 tokens per second or so."""
    profile = model("llama3-8b")
    assert compute_time(profile, "h100").iteration_s == pytest.approx(3 * profile.flops / (0.4 * 989e12))
    assert "model-FLOPs utilisation" in compute_time(profile, "h100").source


@pytest.mark.parametrize("name", model_names())
def test_todays_gpus_take_every_model(name: str) -> None:
    times = [compute_time(model(name), device).iteration_s for device in ("v100", "a100", "h100")]
    assert times == sorted(times, reverse=True)


def test_the_page_has_the_data_sheets_numbers() -> None:
    """Its table of GPUs has a row for each."""
    lines = (ROOT / "docs" / "adding-a-model.md").read_text().splitlines()
    rows = [tuple(cell.strip() for cell in line.split("|")[1:-1]) for line in lines if line.startswith("| `")]
    shown = {row[0].strip("`"): row[1:] for row in rows if len(row) == 5}
    assert shown.keys() == {sheet.name for sheet in DATA_SHEETS}
    for sheet in DATA_SHEETS:
        teraflops, memory, rate, link = shown[sheet.name]
        assert float(teraflops) * 1e12 == pytest.approx(sheet.flops_per_s)
        assert SIZE.parse(memory.replace(" ", "")) == sheet.memory_bytes
        assert BYTE_RATE.parse(rate.replace(" ", "")) == pytest.approx(sheet.memory_bytes_per_s)
        assert link == "–" if sheet.link_bytes_per_s is None else f"{sheet.link_bytes_per_s / 1e9:g} GB/s" == link


def test_unknown_device_says_what_is_known_for_the_model() -> None:
    with pytest.raises(InputFault, match=in_order("'k41'", "'k40'", "'yolo-v1': k40, v100")):
        compute_time(model("yolo-v1"), "k41")
    with pytest.raises(InputFault, match=in_order("model 'vgg16'", "alexnet", "k80-half")):
        compute_time(model("vgg16"), "k40")


def test_numbers_without_sense_are_refused() -> None:
    profile = model("alexnet")
    wrong: dict[str, dict[str, Any]] = {
        "batch = 0": {"batch": 0},
        "iteration time = 0": {"iteration_s": 0},
        "forward_share = 1": {"forward_share": 1},
        "conv = 0": {"speedup": {LayerKind.CONV: 0}},
    }
    for said, given in wrong.items():
        with pytest.raises(InputFault, match=said):
            compute_time(profile, "k40", **given)


def test_recurrent_layers_take_longer_a_flop() -> None:
    """They multiply one word at a time: 1356 GFLOP/s where the output layer's product reaches 9900."""
    profile = model("sockeye")
    time = compute_time(profile, "p4000", iteration_s=0.2)
    assert time.iteration_s == pytest.approx(0.2)
    of = {layer.name: seconds / layer.flops for layer, seconds in zip(profile.layers, time.forward_s, strict=True)}
    assert of["decoder"] / of["target_output"] == pytest.approx(9900 / 1356)
