"""The sources of printed values: each a module that makes a cell of any row of the source's tables."""

from __future__ import annotations

from reproduction.world.cells import Source
from reproduction.world.sources.bert_profile import BERT_PROFILE
from reproduction.world.sources.deepep import DEEPEP
from reproduction.world.sources.dlperf import DLPERF
from reproduction.world.sources.efa_b200 import EFA_B200
from reproduction.world.sources.gke_a3 import GKE_A3
from reproduction.world.sources.large_models import MEGATRON_SC21, PIPEDREAM_SOURCE, TORCHTITAN
from reproduction.world.sources.pytorch_ddp import PYTORCH_DDP
from reproduction.world.sources.tc_cluster import TC_CLUSTER
from reproduction.world.sources.ultrascale import ULTRASCALE

SOURCES: tuple[Source, ...] = (
    *(TC_CLUSTER, GKE_A3, BERT_PROFILE, DLPERF, EFA_B200, DEEPEP),
    *(TORCHTITAN, ULTRASCALE, PYTORCH_DDP, MEGATRON_SC21, PIPEDREAM_SOURCE),
)
