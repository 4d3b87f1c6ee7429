"""SimAI's workloads: layers of a model, of which all ranks do the same in their groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.workloads.traces.record import Reading
from tests.unit.workloads.traces.formats.test_kineto import chain
from tests.unit.workloads.traces.small_traces import finds, imported, words

HEADER = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 8 ga: 1 all_gpus: 16 checkpoints: 0"
)
HEADER += " checkpoint_initiates: 0 pp_comm: 0"
LAYERS = """2
attention\t-1\t5000\tALLGATHER\t4096\t3000\tREDUCESCATTER\t4096\t2000\tALLREDUCE\t8192\t100
experts\t-1\t7000\tALLTOALL_EP\t512\t0\tNONE\t0\t1000\tREDUCESCATTER_DP_EP\t1024\t0
"""


def of(folder: Path, text: str) -> Path:
    path = folder / "workload.txt"
    path.write_text(text)
    return path


def test_forward_passes_and_then_gradients_from_the_last_layer_on(tmp_path: Path) -> None:
    outcome = imported(of(tmp_path, f"{HEADER}\n{LAYERS}"))
    assert outcome.workload is not None, words(outcome)
    assert chain(outcome.workload, 5) == [
        ("compute", 5, []),
        ("all-gather", 2048, [0]),  # of which 4096 bytes come out
        ("compute", 0, [1]),
        ("compute", 7, [2]),
        ("all-to-all", 512, [3]),
        ("compute", 0, [4]),
        ("compute", 1, [5]),
        ("reduce-scatter", 1024, [6]),  # waited for by nothing
        ("compute", 0, [7]),
        ("compute", 3, [6]),
        ("reduce-scatter", 4096, [9]),
        ("compute", 0, [10]),
        ("compute", 2, [11]),
        ("all-reduce", 8192, [12]),
        ("compute", 0, [13]),
    ]
    tasks = outcome.workload.tasks
    groups = [outcome.workload.groups[group] for group in tasks.group[(tasks.rank == 5) & (tasks.group >= 0)]]
    assert groups == [(4, 5), (5, 7), (1, 5, 9, 13), (4, 5), (1, 3, 5, 7, 9, 11, 13, 15)]


def test_what_a_group_of_one_rank_says_moves_nothing(tmp_path: Path) -> None:
    text = f"{HEADER}\n{LAYERS}".replace("NPU_group: 2", "NPU_group: 1").replace(" all_gpus: 16", "")
    outcome = imported(of(tmp_path, text), reading=Reading(ranks=4))
    assert outcome.workload is not None, words(outcome)
    assert sorted(set(outcome.workload.groups)) == [(0, 1), (0, 1, 2, 3), (0, 2), (1, 3), (2, 3)]
    assert finds(outcome, "line 3 (attention)", "group of one rank (tp)")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("pp: 1", "pp: 4", "pp: 4"),
        ("checkpoints: 0", "checkpoints: 1", "checkpoints: 1"),
        ("ga: 1", "gb: 1", "'gb: 1'"),
        ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "DISTRIBUTED_INFERENCE", "DISTRIBUTED_INFERENCE"),
        (" all_gpus: 16", "", "--ranks"),
        ("all_gpus: 16", "all_gpus: 15", "15 ranks in groups"),
        ("\n2\n", "\n3\n", "says 3 layers"),
        ("ALLTOALL_EP", "ALLTOALL_XP", "line 4: 'ALLTOALL_XP'"),
        ("ALLREDUCE", "ALLREDUCEALLTOALL", "line 3: 'ALLREDUCEALLTOALL'"),
        ("attention\t-1", "attention\t0", "line 3: depends on '0'"),
        ("\t7000\t", "\t7e3\t", "line 4: '7e3'"),
        ("\t8192\t100", "\t8192", "line 3: has 11 columns"),
        ("all_gpus: 16", "all_gpus: 65540", "at most"),
    ],
)
def test_what_is_not_read_is_told_by_its_field(tmp_path: Path, before: str, after: str, says: str) -> None:
    text = f"{HEADER}\n{LAYERS}"
    assert before in text
    with pytest.raises(InputFault) as fault:
        imported(of(tmp_path, text.replace(before, after)))
    assert says in str(fault.value)
