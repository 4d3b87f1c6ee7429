"""Times convolutional models on one GPU as they come and with torch.compile, which fuses normalisations, ReLUs and additions.

    python3 -m benchmarks.gpu.time_compiled > compiled.csv     # with what time_models.py needs; four minutes on an H100

Frameworks that fuse these layers, such as MXNet in NVIDIA's containers, are as much faster than a table of single kernels
says: `reproduction/world/sources/dlperf.py` reads the rows in benchmarks/measured/h100_compiled.csv.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from typing import Any

import torch
import torchvision.models as images

from benchmarks.gpu.time_models import image_model

COLUMNS = ("model", "batch", "kernels_s", "iteration_s", "compiled_kernels_s", "compiled_iteration_s")
MODELS: tuple[tuple[str, int, Callable[[], Any]], ...] = (
    ("resnet50-torchvision", 256, images.resnet50),
    ("vgg16", 128, images.vgg16),
    ("resnet50-torchvision", 64, images.resnet50),
    ("resnext50", 128, images.resnext50_32x4d),
    ("resnet101-torchvision", 128, images.resnet101),
)
"""Name and batch as gradwire says them, and what makes the model."""


def main() -> None:
    """Writes a row for each model, and what it was timed with as a comment."""
    torch.backends.cudnn.benchmark = True
    print(f"# {torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    written = csv.writer(sys.stdout, lineterminator="\n")
    written.writerow(COLUMNS)
    for name, batch, make in MODELS:
        single = image_model(make, batch)
        compiled = image_model(lambda make=make: torch.compile(make(), dynamic=False), batch)  # type: ignore[misc]
        written.writerow([name, batch, *(f"{seconds:.6g}" for seconds in (*single, *compiled))])
        sys.stdout.flush()
        torch.compiler.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
