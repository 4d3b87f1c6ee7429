"""Addresses of schedulers that cannot be used, without a cluster."""

from __future__ import annotations

from pathlib import Path

import dask
import pytest

from gradwire.faults import InputFault
from gradwire.runs.executing.cluster.pool import connected

TLS = "tls://127.0.0.1:1"


def refusal(files: dict[str, Path | None]) -> str:
    """What is said of a scheduler that wants a certificate, where Dask's configuration names these files."""
    named = {f"distributed.comm.tls.{key}": str(path) if path else None for key, path in files.items()}
    with dask.config.set(named), pytest.raises(InputFault) as refused, connected(TLS, 1):
        pass
    return str(refused.value)


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    assert "names none" in refusal({"ca-file": None, "client.cert": None, "client.key": None})
    absent = tmp_path / "cert.pem"
    said = refusal({"ca-file": absent, "client.cert": absent, "client.key": absent})
    assert str(absent) in said
    assert "No such file" in said


def test_a_file_that_is_no_certificate_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.txt"
    wrong.write_text("not a certificate")
    said = refusal({"ca-file": wrong, "client.cert": wrong, "client.key": wrong})
    assert said.startswith(f"--scheduler {TLS}: ")
    assert str(wrong) in said
