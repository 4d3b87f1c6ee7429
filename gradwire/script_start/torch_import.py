"""Waits until a script imports torch."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from typing import Any


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Finds torch where the others find it, and calls `begin` once it is imported."""

    def __init__(self, begin: Callable[[], None], absent: Callable[[], None]) -> None:
        self._begin, self._absent = begin, absent

    def find_spec(self, fullname: str, *_: Any) -> Any:
        """See MetaPathFinder."""
        if fullname != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.loader is None:
            self._absent()
            return None
        spec.loader = _Then(spec.loader, self._begin)
        return spec


class _Then(importlib.abc.Loader):
    """Loads torch, and then begins."""

    def __init__(self, loader: Any, begin: Callable[[], None]) -> None:
        self._loader, self._begin = loader, begin

    def create_module(self, spec: Any) -> Any:
        """See Loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """See Loader."""
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._begin()


def when_torch_is_imported(begin: Callable[[], None], absent: Callable[[], None] = lambda: None) -> None:
    """Has `begin` called once this process has imported torch, or `absent` when it tries to and there is none."""
    sys.meta_path.insert(0, _TorchFinder(begin, absent))
