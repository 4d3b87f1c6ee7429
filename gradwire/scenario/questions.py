"""A first scenario from five answers, as commented text."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from gradwire.faults import InputFault, InternalFault
from gradwire.scenario.loading import resolve
from gradwire.scenario.resolution.compilation import ResolvedPoint


@dataclass(frozen=True)
class ScenarioQuestion:
    """A question. suggestion: the default answer."""

    name: str
    text: str
    suggestion: str


QUESTIONS = (
    ScenarioQuestion("model", "Which model? (gradwire models lists them)", "resnet50"),
    ScenarioQuestion("device", "On which GPU? (gradwire devices lists them)", "v100"),
    ScenarioQuestion("workers", "How many workers?", "8"),
    ScenarioQuestion("rate", "Line rate of a host's port?", "25gbit"),
    ScenarioQuestion("topology", "Network: single (one switch) or leaf-spine (two racks)?", "single"),
)
TOPOLOGIES = {
    "single": "",
    "leaf-spine": """topology = "leaf-spine"
leaves = 2            # racks
spines = 2
oversubscription = 2  # hosts' rates over those of their rack's uplinks
""",
}
TEXT = """\
# A scenario: what is fixed, and under [sweep] what is compared.
#   gradwire plan {file}      checks it, and prints what every strategy sends
#   gradwire estimate {file}  times on an ideal network, in seconds
#   gradwire run {file}       measures, with a verdict on each point
# Any key: gradwire explain KEY; or words: gradwire explain flapping link; all keys: gradwire explain
title = "{title}"

[cluster]
workers = {workers}

[fabric]
rate = "{rate}"       # of each host's port
{topology}# delay = "5us"       # of every link; [fabric.link."h1"] has single ones
# buffer = "200kB"    # finite switch buffers, which drop; lossless without it

[model]
name = "{model}"      # or a file of yours: "./my-model.toml"
device = "{device}"   # decides how long computation takes
# batch = 32          # per worker; the model's own without it

[strategy]
name = "ring"

[run]
# iterations = 8      # measured ones
# seed = 1            # sweep it for confidence: "run.seed" = [1, 2, 3, 4, 5]

[sweep]
"strategy.name" = ["ring", "ddp", "kvstore", "p3"]
# "fabric.rate" = ["10gbit", "25gbit", "100gbit"]
"""


def checked(answers: Mapping[str, str]) -> Mapping[str, str]:
    """The answers, of which a scenario can be made. Raises InputFault, with the right form of an answer."""
    if answers["topology"] not in TOPOLOGIES:
        raise InputFault(f"--topology {answers['topology']}: must be {' or '.join(TOPOLOGIES)}")
    for name, answer in answers.items():
        if '"' in answer or "\\" in answer or not answer.isprintable():
            raise InputFault(f"--{name} {answer!r}: no quotes, backslashes or control characters")
    if not (answers["workers"].isascii() and answers["workers"].isdigit()):
        raise InputFault(f"--workers {answers['workers']}: must be a whole number")
    document = tomllib.loads(commented_scenario("scenario", answers))
    for point in resolve(document, "the answers", "scenario").points:
        resolved = ResolvedPoint(point.section)
        if resolved.options is None or not resolved.compute.iteration_s:
            raise InternalFault("a point of a first scenario has no options or computes nothing")
    return answers


def commented_scenario(name: str, answers: Mapping[str, str]) -> str:
    """The text of a scenario file. name: its file's, without the ending."""
    title = f"{answers['model']} on {answers['workers']} workers"
    topology = TOPOLOGIES[answers["topology"]]
    return TEXT.format(**{**answers, "file": f"{name}.toml", "title": title, "topology": topology})
