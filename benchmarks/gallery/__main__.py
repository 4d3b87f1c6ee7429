"""`make gallery`: pictures of docs/gallery.md, recordings of terminals and outputs of the notebooks, made anew.

    python -m benchmarks.gallery [pictures] [recordings] [notebooks]

Runs what docs/gallery.md says, in a temporary folder, takes pictures of the reports with Chromium, records sessions as
SVG files, and executes the notebooks in examples/. All of it: some minutes on two cores. Ends with status 1 where
something fails, which is named.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from benchmarks.commands import gradwire
from benchmarks.gallery.pictures import Picture, taken
from benchmarks.gallery.recording import drawn, recorded
from tests.shared.browser import BROWSER
from tests.shared.snippets import QUESTION, ROOT, snippets, write_shown_files

PAGE = ROOT / "docs" / "gallery.md"
OUT = ROOT / "docs" / "gallery"
PICTURES = (
    Picture("geryon-table2", "geryon-table2", 810),
    Picture("compare", "compare-", 1030, dark=True),
    Picture("point", "compare-", 770, begins_at="details.point"),
    Picture("rates", "alexnet-rates", 640),
    Picture("interleaved", "interleaved", 900),
    Picture("two-tenants", "two-tenants", 900),
)
"""Each with the start of its run folder's name."""
RECORDINGS = {
    "question": ("README's question", (f"gradwire run --fresh {Path(QUESTION).name}",)),
    "before-a-run": (
        "What is known before anything runs",
        (
            "gradwire explain fabric.rate",
            f"gradwire estimate {Path(QUESTION).name}",
        ),
    ),
}
"""Sessions by file: the title, and the commands."""


def make_pictures(folder: Path) -> None:
    """Runs the commands of the gallery's page, and takes pictures of their reports."""
    if BROWSER is None:
        raise SystemExit("error: needs Chromium: apt-get install chromium")
    for snippet in snippets(PAGE):
        if snippet.language != "sh":
            continue
        command = snippet.text.replace("\\\n", " ").replace("~/", f"{folder}/").strip()
        print(command, flush=True)
        done = gradwire(*shlex.split(command)[1:], cwd=folder)
        if done.returncode:
            raise SystemExit(f"error: {snippet.place}: status {done.returncode}\n{done.stdout}{done.stderr}")
    for picture in PICTURES:
        (run,) = (path for path in (folder / "runs").iterdir() if path.name.startswith(picture.run))
        taken(picture, run / "report.html", OUT / f"{picture.name}.png")
        print(f"picture: {OUT / picture.name}.png", flush=True)


def make_recordings(folder: Path) -> None:
    """Records the sessions."""
    for name, (title, commands) in RECORDINGS.items():
        (OUT / f"{name}.svg").write_text(drawn(recorded(commands, folder), title))
        print(f"recording: {OUT / name}.svg", flush=True)


def make_notebooks(folder: Path) -> None:
    """Executes the notebooks where they lie, with their runs in `folder`. Outputs are written only if all cells ran."""
    os.environ["PYTHONPATH"] = str(ROOT)
    for path in sorted((ROOT / "examples").glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        place = folder / path.stem
        place.mkdir()
        try:
            NotebookClient(
                notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(place)}}
            ).execute()
        except CellExecutionError as error:
            raise SystemExit(f"error: {path.name}: {error}") from error
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        print(f"notebook: {path}", flush=True)


PARTS: dict[str, Callable[[Path], None]] = {
    "pictures": make_pictures,
    "recordings": make_recordings,
    "notebooks": make_notebooks,
}


def main(asked: Sequence[str]) -> None:
    """Makes the parts that are asked for, or all."""
    unknown = [part for part in asked if part not in PARTS]
    if unknown:
        raise SystemExit(f"error: {unknown[0]}: not one of {', '.join(PARTS)}")
    for part in asked or PARTS:
        with tempfile.TemporaryDirectory() as name:
            write_shown_files(Path(name))
            PARTS[part](Path(name))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (subprocess.SubprocessError, ValueError) as error:
        sys.exit(f"error: {error}")
