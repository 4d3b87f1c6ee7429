"""Random points on random networks, by a seed: connected graphs with links of unequal rates and delays, some of them parallel, and made-up
models by any strategy that knows graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradwire.faults import InputFault
from gradwire.runs.planned import plan_runs
from gradwire.scenario.loading import Point
from gradwire.vm.machines import Clock
from tests.shared.random_points import compiling, random_document, random_transformer

MOST_SWITCHES = 10
MOST_HOSTS = 16
LONGEST_DELAY_US = 5_000
RATES = ("1gbit", "2.5gbit", "5gbit", "10gbit", "25gbit", "40gbit", "100gbit")


def random_graph_points(seed: int, wanted: int) -> Iterator[Point]:
    """Yields points that compile, each drawn from its own number, so that more of them begin with the same. Every fourth is a small
    transformer by one of today's strategies."""
    papers, todays = compiling(f"{seed}/graph", _papers_document), compiling(f"{seed}/graph/today", _todays_document)
    for number in range(1, wanted + 1):
        yield next(todays if number % 4 == 0 else papers)


def random_job_points(seed: int, wanted: int) -> Iterator[Point]:
    """Yields points of two or three jobs on such networks, each with a model, a strategy, some hosts and a priority."""
    found = 0
    for point in compiling(f"{seed}/jobs", _jobs_document):
        if found == wanted:
            return
        try:
            plan_runs([point], Path("unused"), Clock())
        except InputFault:
            continue  # jobs whose iterations differ too much, or priorities beyond the classes that there are
        found += 1
        yield point


def _jobs_document(draw: random.Random) -> dict[str, Any]:
    """Its jobs have costs and seeds in common, and send by the rule of one system, which two strategies may want to differ in."""
    jobs: dict[str, Any] = {}
    document: dict[str, Any] = {}
    for name in ("first", "second", "third")[: draw.choice((2, 2, 3))]:
        document = random_document(draw)
        jobs[name] = {
            **{key: document[key] for key in ("model", "strategy")},
            "cluster": {"workers": draw.choice((2, 4))},
            "placement": draw.choice(("packed", "spread", "random")),
            "priority": draw.choice((0, 0, 1)),
        }
    shared = {key: document[key] for key in ("title", "run", "costs")}
    one_rule = {"transport": {"send_ends": draw.choice(("departure", "buffered"))}}
    hosts = draw.randint(4 * len(jobs), MOST_HOSTS)
    return _on_a_graph({**shared, **one_rule, "job": jobs, "fabric": {}}, draw, hosts)


def _papers_document(draw: random.Random) -> dict[str, Any]:
    """Its workers are all hosts, or a power of two, which some strategies want; the other hosts have no rank."""
    document = random_document(draw)
    hosts = draw.randint(4, MOST_HOSTS)
    document["cluster"] = {"workers": draw.choice([*(power for power in (4, 8, 16) if power <= hosts), hosts])}
    return _on_a_graph(document, draw, hosts)


def _todays_document(draw: random.Random) -> dict[str, Any]:
    return _on_a_graph(random_transformer(draw), draw, draw.randint(8, MOST_HOSTS))


def _on_a_graph(document: dict[str, Any], draw: random.Random, hosts: int) -> dict[str, Any]:
    """The scenario with a random network in place of its own."""
    document["fabric"] = {"rate": draw.choice(RATES), "file": "random"}
    document.setdefault("defined", {})["networks"] = {"random": random_network(draw, hosts)}
    return document


def random_network(draw: random.Random, hosts: int) -> dict[str, Any]:
    """A connected network as `[defined.networks]` has it: a random tree of switches, and up to as many links beside it."""
    switches = [f"s{number}" for number in range(1, draw.randint(3, MOST_SWITCHES) + 1)]
    names = [f"h{number}" for number in range(1, hosts + 1)]
    pairs = [(draw.choice(switches[:place]), switch) for place, switch in enumerate(switches) if place]
    for _ in range(draw.randint(0, len(switches))):
        a, b = (
            draw.choice(pairs) if draw.random() < 0.2 else draw.sample(switches, 2)
        )  # the first: one more in parallel
        pairs.append((a, b))
    ends = [(host, draw.choice(switches)) for host in names]
    equal_delay_us = _delay_us(draw) if draw.random() < 0.3 else None
    links = [{"a": a, "b": b, **_link(draw, equal_delay_us)} for a, b in (*ends, *pairs)]
    return {"hosts": names, "switches": switches, "links": links}


def _link(draw: random.Random, delay_us: float | None) -> dict[str, str]:
    """delay_us: of all links, where it is equal."""
    own: dict[str, str] = {"rate": draw.choice(RATES)} if draw.random() < 0.7 else {}
    return {**own, "delay": f"{_delay_us(draw) if delay_us is None else delay_us:.1f}us"}


def _delay_us(draw: random.Random) -> float:
    """None, or as likely some microseconds as some milliseconds."""
    return 0.0 if draw.random() < 0.2 else float(LONGEST_DELAY_US ** draw.random())
