"""Imported by the Python that runs a user's script, before the script: calls what the environment names.

Python imports one module of this name. If the user's Python has another, that one is imported from here.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys

_HERE = os.path.dirname(__file__)  # noqa: PTH120 (before pathlib, which takes as long as all else here)


def _import_theirs() -> None:
    elsewhere = [path for path in sys.path if os.path.realpath(path or ".") != os.path.realpath(_HERE)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if (
        spec is not None
        and spec.loader is not None
        and os.path.realpath(spec.origin or "") != os.path.realpath(__file__)
    ):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


_import_theirs()
if "GRADWIRE_SCRIPT_START" in os.environ:  # the module whose `watch_for_torch` is called
    importlib.import_module(os.environ["GRADWIRE_SCRIPT_START"]).watch_for_torch()
