"""The hash of the code that a result depends on: all code that runs in the machine counts; comments, layout and other code do not."""

from pathlib import Path

import pytest

from gradwire.vm import code_digest


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tree: `inside.start` imports `run.used`, and nothing imports `run.other`."""
    for name, text in {
        "inside/__init__": "",
        "inside/start": "from run import used\n",
        "run/__init__": "",
        "run/used": "RATE = 1\n",
        "run/other": "RATE = 1\n",
    }.items():
        (tmp_path / f"{name}.py").parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "boot.sh").write_text("mount\n")
    monkeypatch.setattr(code_digest, "SOURCE_ROOT", tmp_path)
    monkeypatch.setattr(code_digest, "INSIDE", "inside")
    monkeypatch.setattr(code_digest, "STARTED_MODULES", ())
    monkeypatch.setattr(code_digest, "BOOT_FILES", ("boot.sh",))
    return tmp_path


@pytest.mark.parametrize(
    ("file", "text", "counts"),
    [
        ("run/used.py", "RATE = 2\n", True),
        ("inside/another.py", "RATE = 2\n", True),
        ("run/used.py", '"""What it is."""\n\n# why\nRATE   =   1\n', False),
        ("run/other.py", "RATE = 2\n", False),
        ("boot.sh", "mount -a\n", True),
    ],
)
def test_what_counts(sources: Path, file: str, text: str, counts: bool) -> None:
    before = code_digest.run_digest.__wrapped__()
    (sources / file).write_text(text)
    assert (code_digest.run_digest.__wrapped__() != before) is counts


def test_all_that_runs_in_the_machine_is_found() -> None:
    found = code_digest.imported_sources((*code_digest.machine_modules(), *code_digest.OTHER_MODULES))
    assert {
        "gradwire.agents.loop",
        "gradwire.agents.capture.recorder",
        "gradwire.controller.switch_flows",
        "gradwire.topo.tc",
        "gradwire.vm.machine",
        "gradwire.datatypes.plan",
    } <= set(found)
    assert not {
        "reproduction.gathering",
        "gradwire.runs.comparing.planning",
        "gradwire.analysis.report.charts",
        "gradwire.vm.kernel",
        "gradwire.vm.kernel_source",
        "gradwire.vm.kernel_death",
        "gradwire.vm.packages",
    } & set(found)
