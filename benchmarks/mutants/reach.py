"""Which tests call which functions of some modules: the only ones that can notice a change there."""

from __future__ import annotations

import ast
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Generator
from dataclasses import dataclass, field
from types import FrameType

import pytest


@dataclass
class Reach:
    """What a run of tests called. Nodes are the tests' ids; what a file of tests calls while it is read is its own
    node."""

    #: By module: by the first line of a function, the nodes that called it.
    calls: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    #: CPU time of each test.
    cpu_s: dict[str, float] = field(default_factory=dict)

    def tests_of(self, path: str, source: str, line: int) -> list[str]:
        """Those that can notice a change in this line, the quickest first: before all others those that call its
        function.

        Tests that share a file with them may use what that call left, as fixtures and caches do.
        """
        calls = self.calls.get(path, {})
        owner = _function_at(source, line)
        nodes = {node for first, nodes in calls.items() if owner in (0, first) for node in nodes}
        files = {node.split("::")[0] for node in nodes}
        chosen = [test for test in self.cpu_s if test.split("::")[0] in files]
        return sorted(chosen, key=lambda test: (test not in nodes, self.cpu_s[test]))


class Observer:
    """A plug-in of pytest that fills a `Reach`."""

    def __init__(self, paths: Collection[str]) -> None:
        self.reach = Reach({path: {} for path in paths})
        self._calls: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._path_of: dict[str, str] = {}
        self._node = ""
        #: Tests that did not pass.
        self.failed: list[str] = []

    def trace(self, frame: FrameType, _event: str, _argument: object) -> None:
        """Notes each call; given to sys.settrace."""
        code = frame.f_code
        path = self._path_of.get(code.co_filename)
        if path is None:
            ends = (path for path in self.reach.calls if code.co_filename.endswith("/" + path))
            path = self._path_of[code.co_filename] = next(ends, "")
        if path:
            self._calls[path, code.co_firstlineno].add(self._node)

    def _begin(self) -> None:
        """Some tests take the tracing away. Threads have their own, which they have from their start."""
        sys.settrace(self.trace)
        threading.settrace(self.trace)

    def done(self) -> Reach:
        """What was called."""
        for (path, line), nodes in self._calls.items():
            self.reach.calls[path][line] = sorted(nodes)
        return self.reach

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes what fails."""
        if report.failed:
            self.failed.append(report.nodeid)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None]:
        """Whatever is called now is called by a file as it is read."""
        self._node = collector.nodeid
        self._begin()
        yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None]:
        """Whatever is called now is called by a test."""
        self._node, begun_s = item.nodeid, time.process_time()
        self._begin()
        yield
        self.reach.cpu_s[item.nodeid] = time.process_time() - begun_s


class Chosen:
    """A plug-in of pytest that runs these tests alone, in this order."""

    def __init__(self, tests: Collection[str]) -> None:
        self._place = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leaves out all others."""
        items[:] = sorted(
            (item for item in items if item.nodeid in self._place), key=lambda item: self._place[item.nodeid]
        )


def _function_at(source: str, line: int) -> int:
    """The first line, decorators included, of the outermost function around a line; 0 outside functions.

    A function inside another may be called long after it, but by whoever called that one.
    """

    def within(node: ast.AST) -> int:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = min([child.lineno, *(each.lineno for each in child.decorator_list)])
                if first <= line <= (child.end_lineno or first):
                    return within(child) if isinstance(child, ast.ClassDef) else first
        return 0

    return within(ast.parse(source))
