"""Kineto profiles: which calls, of what size, when they may start, and what waits for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.formats.kineto_kernels import NCCL, library_of
from gradwire.workloads.traces.record import OtherCommunication, Reading
from gradwire.workloads.traces.trace_import import Imported
from gradwire.workloads.traces.workload import Kind, Workload
from tests.shared.parts import tells
from tests.unit.workloads.traces.small_traces import AUTOGRAD, COMPUTE, KinetoFile, ddp_step, finds, imported, words


def chain(workload: Workload, rank: int = 0) -> list[tuple[str, int, list[int]]]:
    """A rank's tasks: kind, microseconds (computation) or bytes, and what each waits for; numbered from 0."""
    tasks = workload.tasks
    first = int((tasks.rank < rank).sum())
    steps = []
    for task in range(first, first + int((tasks.rank == rank).sum())):
        kind = Kind(int(tasks.kind[task]))
        amount = int(tasks.duration_ns[task]) // 1000 if kind is Kind.COMPUTE else int(tasks.size_bytes[task])
        after = workload.dep_task[workload.dep_start[task] : workload.dep_start[task + 1]] - first
        steps.append((kind.words, amount, sorted(after.tolist())))
    return steps


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_step_of_ddp(tmp_path: Path, name: str) -> None:
    outcome = imported(ddp_step().write(tmp_path / name))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload) == [
        ("compute", 280, []),  # from the first call on the host, at 20 us, until its kernel has ended
        ("all-reduce", 4000, [0]),
        ("compute", 200, [0]),
        ("all-reduce", 12004, [1, 2]),
        ("compute", 0, [1, 2]),
        ("compute", 100, [3, 4]),
    ]
    assert chain(outcome.workload, 1) == chain(outcome.workload)
    assert outcome.summary is not None
    assert outcome.summary.exposed_s == {str(tmp_path / name): 0.0002}


def test_waits_that_the_times_contradict_are_not_believed(tmp_path: Path) -> None:
    trace = ddp_step()
    trace.kernel(86, 500, 10)  # began before either all-reduce had ended, though launched after both waits
    outcome = imported(trace.write(tmp_path / "a.json"))
    assert finds(outcome, "waits is believed")
    assert "2 in all" in words(outcome)
    assert outcome.workload is not None
    assert [task[2] for task in chain(outcome.workload) if task[0] == "compute"] == [[], [0], [2]]


def test_wait_is_no_collective(tmp_path: Path) -> None:
    trace = ddp_step()
    trace.event(
        "cpu_op",
        "record_param_comms",
        70,
        2,
        AUTOGRAD,
        **{"Collective name": "wait", "dtype": "Byte", "In msg nelems": 0},
    )
    outcome = imported(trace.write(tmp_path / "a.json"))
    assert outcome.sources[0].calls == 2
    assert finds(outcome, "traceEvents[14]: 'wait'", "none")


def test_a_call_that_is_recorded_at_two_levels_counts_once(tmp_path: Path) -> None:
    trace = ddp_step()
    outer = next(event for event in trace.events if event["name"] == "record_param_comms")
    trace.events.append({**outer, "ts": outer["ts"] + 1, "dur": 5})
    outcome = imported(trace.write(tmp_path / "a.json"))
    assert outcome.sources[0].calls == 2
    assert "counted once" in words(outcome)


def test_a_list_of_ranks_that_is_cut_short_is_completed_by_stride_and_size(tmp_path: Path) -> None:
    trace = KinetoFile(rank=None)
    said = {"Process Group Name": "dp", "Process Group Ranks": "[0, 2, ...]", "Group size": 8, "Global rank stride": 2}
    trace.collective("allreduce", 10, at=0, begin=10, dur=5, **said)
    outcome = imported(trace.write(tmp_path / "rank0.json"), reading=Reading(ranks=16))
    assert finds(outcome, "cut short:", "stride", "size")
    assert finds(outcome, "ranks 1, 2, 3, 4, 5, ...")  # and 8 of 16 ranks say nothing of the others
    assert outcome.workload is None


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"In msg nelems": None}, "without its size"),
        ({"In msg nelems": -4}, "of -4 elements"),
        ({"dtype": "Quux"}, "elements of type 'Quux'"),
        ({"Collective name": "allgossip"}, "the collective 'allgossip' is not known"),
        ({"Process Group Ranks": "[0, 1, 2]"}, "group '0' has the ranks [0, 1, 2] here and [0, 1] elsewhere"),
        ({"Process Group Name": "tp", "Process Group Ranks": "[0, 5, ...]", "Group size": 4}, "does not go up evenly"),
        ({"Process Group "
          "Name": "tp", "Process Group Ranks": "", "Global rank start": None, "Group size": None}, "the process group 'tp' is not known"),
        ({"Collective name": "_allgather_base", "Out msg nelems": 31}, "which do not fit"),
        ({"Collective name": "all_to_allv", "In split size": "[3, 7]"}, "parts of different sizes"),
        ({"Collective name": "send"}, "does not say with which rank"),
    ],
)  # fmt: skip
def test_what_would_be_a_guess_is_refused_with_file_and_event(
    tmp_path: Path, said: dict[str, object], complaint: str
) -> None:
    trace = KinetoFile()
    trace.collective("allreduce", 10, at=0, begin=10, dur=5, **said)
    outcome = imported(trace.write(tmp_path / "a.json"))
    assert outcome.workload is None
    assert any(
        f"{tmp_path / 'a.json'}: traceEvents[0]: " in finding.words and complaint in finding.words
        for finding in outcome.refusals
    )


def test_the_other_end_of_a_message_is_a_rank_and_a_root_a_member(tmp_path: Path) -> None:
    sending, receiving = KinetoFile(0), KinetoFile(1)
    sending.collective("send", 8, at=0, begin=5, dur=5, **{"Dst Rank": 1, "Rank": 1})
    receiving.collective("recv", 8, at=0, begin=5, dur=5, **{"Src Rank": 0, "Rank": 0})
    for trace in (sending, receiving):
        trace.collective("broadcast", 4, at=20, begin=25, dur=5, Rank=1)
    outcome = imported(sending.write(tmp_path / "a.json"), receiving.write(tmp_path / "b.json"))
    assert outcome.workload is not None, words(outcome)
    tasks = outcome.workload.tasks
    assert tasks.peer[tasks.kind != Kind.COMPUTE].tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize(
    "missing",
    [("In msg nelems", "Out msg nelems"), ("Collective name",), ("Collective name", "In msg nelems", "dtype")],
)
def test_what_older_torch_does_not_record_is_said_by_its_size(tmp_path: Path, missing: tuple[str, ...]) -> None:
    trace = ddp_step()
    for event in trace.events:
        for key in missing:
            event["args"].pop(key, None)
    outcome = imported(trace.write(tmp_path / "a.json"))
    (refusal,) = outcome.refusals
    assert tells(refusal.what, "size", "torch >= 2.2")
    assert refusal.count == 2


def test_kernels_of_nccl_without_sizes_are_refused(tmp_path: Path) -> None:
    trace = KinetoFile()
    trace.kernel(0, 10, 5, name="ncclKernel_AllReduce_RING_LL_Sum_float")
    outcome = imported(trace.write(tmp_path / "a.json"))
    assert [finding.what.partition(",")[0] for finding in outcome.refusals] == ["kernels of NCCL"]


def test_how_far_the_gpu_is_behind_the_host_is_no_computation(tmp_path: Path) -> None:
    """Three steps of 400 us whose work begins 5 ms after the host has launched it: 300 us of kernels, and 100 us of
    waiting."""
    trace = KinetoFile()
    for step in range(3):
        host, gpu = 400.0 * step, 5000 + 400.0 * step
        trace.event("user_annotation", f"ProfilerStep#{step}", host, 400)
        trace.kernel(host + 10, gpu, 200)
        trace.collective("allreduce", 1000, at=host + 20, begin=gpu + 200, dur=100)
        trace.stream_wait(host + 40)
        trace.kernel(host + 50, gpu + 300, 100)
    path = trace.write(tmp_path / "a.json")
    for step in range(3):
        outcome = imported(path, reading=Reading(step=step))
        assert outcome.workload is not None, words(outcome)
        tasks = outcome.workload.tasks
        own_us = tasks.duration_ns[(tasks.kind == Kind.COMPUTE) & (tasks.rank == 0)].sum() / 1e3
        assert own_us == 300
        assert outcome.summary is not None
        assert list(outcome.summary.exposed_s.values()) == [pytest.approx(100e-6)]


def lagging(*, first: int, graph: bool = False) -> KinetoFile:
    """Steps whose host takes 100 us and whose GPU takes 1 ms: 700 us of kernels, and 300 us of waiting for a reduction.

    The profile begins at step `first` of eight, with what the GPU does then and was launched before.
    """
    trace = KinetoFile()
    for step in range(8):
        host, gpu, recorded = 100.0 * step, 1000.0 * step + 200, step >= first
        earlier = list(trace.events)
        if recorded:
            trace.event("user_annotation", f"ProfilerStep#{step}", host, 100)
            trace.event("gpu_user_annotation", f"ProfilerStep#{step}", gpu, 1000)
        trace.kernel(host + 10, gpu, 300)
        trace.collective("allreduce", 1000, at=host + 30, begin=gpu + 300, dur=600)
        trace.kernel(host + 45, gpu + 300, 300)
        trace.stream_wait(host + 60)
        trace.kernel(host + 70, gpu + 900, 100)
        if graph:
            launch, optimizer = trace.events[-2:]
            launch["name"] = "cudaGraphLaunch"
            arguments = optimizer["args"]
            optimizer["dur"] = 40
            trace.event("kernel", "gemm", gpu + 940, 60, tid=COMPUTE, **arguments)
        if not recorded:
            new = [event for event in trace.events if event not in earlier and event["cat"] == "kernel"]
            trace.events = earlier + [event for event in new if event["ts"] + event["dur"] > 100 * first]
    return trace


def own_us(outcome: Imported) -> float:
    """Microseconds that rank 0 computes."""
    assert outcome.workload is not None, words(outcome)
    tasks = outcome.workload.tasks
    return float(tasks.duration_ns[(tasks.kind == Kind.COMPUTE) & (tasks.rank == 0)].sum()) / 1e3


@pytest.mark.parametrize("first", [0, 3, 7])
@pytest.mark.parametrize("graph", [False, True])
def test_equal_steps_of_a_gpu_that_is_more_than_a_step_behind_take_equal_times(
    tmp_path: Path, first: int, graph: bool
) -> None:
    path = lagging(first=first, graph=graph).write(tmp_path / "a.json")
    for step in range(first, 8):
        outcome = imported(path, reading=Reading(step=step))
        assert (own_us(outcome), outcome.sources[0].calls) == (700, 1)
        assert outcome.summary is not None
        assert list(outcome.summary.exposed_s.values()) == [pytest.approx(300e-6)]
    if first:
        whole = imported(path)
        assert own_us(whole) == 700 * (8 - first)
        assert tells(words(whole), "launched before the profile began", "of NCCL", "in all")


def test_a_kernel_without_a_launch_was_launched_between_its_neighbours(tmp_path: Path) -> None:
    trace = lagging(first=0)
    trace.events = [event for event in trace.events if event["ts"] != 345.0]  # what launched a kernel of step 3
    path = trace.write(tmp_path / "a.json")
    assert [own_us(imported(path, reading=Reading(step=step))) for step in (2, 3, 4)] == [700, 700, 700]
    assert finds(imported(path), "launch is not recorded")


def test_kernels_that_name_no_launch_are_of_no_step(tmp_path: Path) -> None:
    trace = ddp_step()
    trace.event("user_annotation", "ProfilerStep#3", 0, 50)
    for event in trace.events:
        event["args"].pop("correlation", None)
    path = trace.write(tmp_path / "a.json")
    assert finds(imported(path), "no launch", "in all")
    with pytest.raises(InputFault, match="correlation"):
        imported(path, reading=Reading(step=3))


def test_streams_may_have_text_for_a_name(tmp_path: Path) -> None:
    trace = lagging(first=3)
    for event in trace.events:
        if event["cat"] == "kernel":
            event["args"]["stream"] = f"0x{event['args']['stream']:x}"
        elif event["cat"] == "cuda_runtime":
            event["args"]["stream"] = "0x0"
    outcome = imported(trace.write(tmp_path / "a.json"), reading=Reading(step=7))
    assert own_us(outcome) == 700


@pytest.mark.parametrize(
    ("kernel", "library"),
    [
        ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(x)", "symmetric memory"),
        ("void vllm::cross_device_reduce_1stage<__half, 8>(vllm::RankData*)", "vLLM"),
        ("void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)", "DeepEP"),
        ("nvshmemi_transfer_rma_kernel", "NVSHMEM"),
        ("Memcpy PtoP (Device -> Device)", "copies between GPUs"),
    ],
)
def test_what_communicates_without_nccl_is_said_and_can_be_left_out(tmp_path: Path, kernel: str, library: str) -> None:
    trace = ddp_step()
    trace.kernel(91, 800, 500, name=kernel)
    trace.kernel(92, 1250, 100, stream=9)
    path = trace.write(tmp_path / "a.json")
    outcome = imported(path)
    assert finds(outcome, library, "0.500 ms")
    left_out = imported(path, reading=Reading(other_communication=OtherCommunication.LEFT_OUT))
    assert own_us(outcome) - own_us(left_out) == 450  # but not while something computes


def test_kernels_that_compute_do_not_count_as_communication() -> None:
    names = ("void at::native::_scatter_gather_elementwise_kernel<128>(x)", "triton_red_fused_all_gather_mean_0")
    assert [library_of(name) for name in (*names, "ncclDevKernel_AllReduce")] == [-1, -1, NCCL]


def test_only_one_step(tmp_path: Path) -> None:
    trace = ddp_step()
    trace.event("user_annotation", "ProfilerStep#3", 0, 50)
    trace.event("user_annotation", "ProfilerStep#4", 50, 800)
    path = trace.write(tmp_path / "a.json")
    outcome = imported(path, reading=Reading(step=4))
    assert outcome.workload is not None
    assert [size for kind, size, _ in chain(outcome.workload) if kind == "all-reduce"] == [12004]
    with pytest.raises(InputFault, match="has 3, 4"):
        imported(path, reading=Reading(step=5))
