"""The site as `make docs` builds it: every page is in its menu, no link is dead, and a search leads to what is asked for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from lunr import lunr

from tests.shared.snippets import ROOT

MOST_RESULTS = 5
"""Pages of a search's results that a reader looks at."""
TITLE_BOOST = 1000
"""As the theme's search has it."""
QUESTIONS = {
    "link delay": "networks.html",
    "link at half rate": "networks.html",
    "two racks oversubscription": "tutorial.html",
    "fat tree": "fabrics.html",
    "rails several NICs": "fabrics.html",
    "second job": "networks.html",
    "jumbo frames MTU": "how-do-i-say.html",
    "ECN marks DCTCP": "congestion.html",
    "PFC pauses": "lossless.html",
    "deadlock": "lossless.html",
    "own strategy": "adding-a-strategy.html",
    "own program": "your-own-program.html",
    "Mininet script": "mininet.html",
    "pytest fixture": "labs.html",
    "ECMP": "networks.html",
    "packet spraying": "networks.html",
    "own controller": "networks.html",
    "link down fault": "faults.html",
    "worker fails": "faults.html",
    "Wireshark": "packets.html",
    "critical path of an iteration": "reading-a-run.html",
    "diff of two runs": "reading-a-run.html",
    "Kineto trace": "traces.html",
    "record a PyTorch script": "recording.html",
    "tensor and pipeline parallelism": "large-models.html",
    "16384 GPUs": "thousands.html",
    "NCCL busbw": "ccl.html",
    "map of winners": "map.html",
    "what does a valid verdict mean": "trust.html",
    "limits": "trust/limits.html",
    "calibration": "trust/exactness.html",
    "is a run folder from others safe": "trust/hostile-input.html",
    "Slurm": "many-machines.html",
    "pandas DataFrame": "python.html",
    "RDMA perftest": "rdma.html",
    "DiLoCo": "wide-area.html",
    "Hugging Face config": "adding-a-model.html",
    "exit status": "commands.html",
    "install without a compiler": "installing.html",
    "V100 B200 real hardware": "reproduction/world.html",
}
"""What readers type, and a page that answers it."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. MkDocs ends with an error where a link is dead or a page is not in the menu."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@cache
def index(folder: Path) -> Any:
    """The index that the pages search in."""
    docs = json.loads((folder / "search" / "search_index.json").read_text())["docs"]
    fields = ({"field_name": "title", "boost": TITLE_BOOST}, {"field_name": "text", "boost": 1})
    weighed = [(doc, {"boost": doc.get("boost", 1)}) for doc in docs]
    return lunr(ref="location", fields=fields, documents=weighed)


def found(folder: Path, words: str) -> list[str]:
    """The pages that a search finds, the best first: of several places on a page the best one counts."""
    places = [result["ref"] for result in index(folder).search(words)]
    return list(dict.fromkeys(place.partition("#")[0] for place in places))


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_search_leads_to_the_answer(site: Path, question: str) -> None:
    assert QUESTIONS[question] in found(site, question)[:MOST_RESULTS]


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """A page is read without the network, and nobody else is told who reads it."""
    loads = re.compile(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"?(https?:[^\" >]+)")
    for page in site.rglob("*.html"):
        assert [url for url in loads.findall(page.read_text()) if "canonical" not in url] == [], page


def test_the_python_interface_is_there(site: Path) -> None:
    page = (site / "python-reference.html").read_text()
    for name in ("run", "compare", "plan", "open", "estimate"):
        assert re.search(rf'id="gradwire\.api\.\w+\.{name}"', page), name
    for name in ("gradwire.lab.Network.host", "gradwire.api.run.Run.points", "gradwire.faults.InputFault"):
        assert f'id="{name}"' in page, name


def test_every_page_of_the_docs_is_in_the_menu(site: Path) -> None:
    menu = (site / "index.html").read_text()
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages if f'href="{page}"' not in menu and f"href={page}" not in menu} == set()
