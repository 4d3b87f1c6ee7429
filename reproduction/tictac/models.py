"""Evidence for TicTac's table of models: tensors and sizes, counted from the layers' definitions (Sec. 2.2, Table 1)."""

from __future__ import annotations

from reproduction.scoring.evidence import Measured, Points, measures
from reproduction.scoring.reference import Claim


@measures("tictac-sec22-order", "r152-params")
def _tensors(points: Points, claim: Claim) -> Measured:
    return Measured(float(len(points.model(**claim.where).tensor_parameters)), detail="counted from the profile")


@measures("tictac-sec22-order", "r152-size")
def _size(points: Points, claim: Claim) -> Measured:
    return Measured(points.model(**claim.where).parameters * 4 / 2**20, detail="counted from the profile")


TABLE_1 = (
    "alexnet-v2",
    "inception-v1",
    "inception-v2",
    "inception-v3",
    "resnet-50-v1",
    "resnet-101-v1",
    "resnet-50-v2",
    "resnet-101-v2",
    "vgg-16",
    "vgg-19",
)
measures("tictac-table1", *(f"{model}-par" for model in TABLE_1))(_tensors)
measures("tictac-table1", *(f"{model}-size" for model in TABLE_1))(_size)
