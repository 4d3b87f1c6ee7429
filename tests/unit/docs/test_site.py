"""The site as `make docs` builds it: every page is in its menu, no link is dead, and a search leads to what is asked for."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.site_questions import MOST_RESULTS, Question, found, index_of, questions
from tests.shared.browser import BROWSER, FLAGS
from tests.shared.snippets import ROOT

LIMIT_S = 600


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. MkDocs ends with an error where a link is dead or a page is not in the menu."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = {"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def index(site: Path) -> Any:
    """The index that the site's pages search in."""
    return index_of(site)


@pytest.mark.parametrize("question", questions(), ids=lambda question: question.words)
def test_a_search_leads_to_the_answer(index: Any, question: Question) -> None:
    assert question.page in found(index, question.words)[:MOST_RESULTS], question.text


def test_a_site_that_is_opened_as_files_can_be_searched(site: Path, tmp_path: Path) -> None:
    """The virtual clock of the browser stands still while it loads, so that a busy machine does not matter."""
    assert BROWSER is not None, "no Chromium"
    command = [BROWSER, *FLAGS, f"--user-data-dir={tmp_path}", "--virtual-time-budget=30000", "--dump-dom"]
    page = f"{(site / 'trust' / 'limits.html').as_uri()}?q=oversubscription"
    ended = subprocess.run([*command, page], capture_output=True, text=True, check=True, timeout=LIMIT_S)
    results = re.findall(r'<a href="([^"#]+)[^"]*" class="md-search-result__link"', ended.stdout)
    assert any("/fabrics.html" in result for result in results), results


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
