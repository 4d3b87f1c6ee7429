"""The Python that a Mininet script runs in, and the Mininet that it imports; found before anything boots."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gradwire.faults import InputFault, MachineFault
from gradwire.programs.program_file import check_program
from gradwire.typed_json import decoded

MN = "mn"
ANSWER_LIMIT_S = 60.0
_QUESTION = """
import importlib.util, json, sysconfig
spec = importlib.util.find_spec("mininet")
print(json.dumps([list(spec.submodule_search_locations or [None])[0] if spec else None, sysconfig.get_path("scripts")]))
"""


@dataclass(frozen=True)
class PythonInterpreter:
    """A Python, and the parts of Mininet that it can import."""

    python: Path
    #: The folder of the package.
    mininet: Path
    #: The program of that name, if there is one.
    mn: Path | None


def own_interpreter() -> PythonInterpreter:
    """gradwire's own Python, with the Mininet that gradwire is built on."""
    return _with_programs(Path(sys.executable), _own_mininet(), Path(sys.executable).parent)


def interpreter_of(python: str, search_path: str) -> PythonInterpreter:
    """A Python by its name or path. One without Mininet gets gradwire's.

    Raises InputFault for what is not a Python 3 of this machine.
    """
    check_program([python], search_path)
    found = shutil.which(python, path=search_path)
    assert found is not None
    # Without the current folder on its path, so that no file of the current one is imported.
    command = [found, "-c", f"import sys; sys.path[:1] = []{_QUESTION}"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=ANSWER_LIMIT_S).stdout
        package, scripts = decoded(said, tuple[str | None, str])
    except subprocess.TimeoutExpired as error:
        raise InputFault(f"--python {python}: does not answer within {ANSWER_LIMIT_S:g} s; give a Python 3") from error
    except subprocess.CalledProcessError as error:
        last_words = f": {error.stderr.strip().splitlines()[-1]}" if error.stderr.strip() else ""
        raise InputFault(
            f"--python {python}: is not a Python 3, for it ended with status {error.returncode}{last_words}"
        ) from error
    except ValueError as error:
        raise InputFault(f"--python {python}: is not a Python 3, for it does not answer as one") from error
    return _with_programs(Path(found).absolute(), Path(package) if package else _own_mininet(), Path(scripts))


def _own_mininet() -> Path:
    spec = find_spec("mininet")
    if spec is None or not spec.submodule_search_locations:
        raise MachineFault("mininet is not installed in the Python of gradwire: pip install 'mininet==2.3.0.dev6'")
    return Path(spec.submodule_search_locations[0])


def _with_programs(python: Path, mininet: Path, scripts: Path) -> PythonInterpreter:
    candidates = [scripts / MN, Path(sys.executable).parent / MN, *map(Path, filter(None, [shutil.which(MN)]))]
    return PythonInterpreter(python, mininet, next((path for path in candidates if path.is_file()), None))
