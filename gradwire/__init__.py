"""Replays the network traffic of distributed training on an emulated network, and measures what each strategy makes of it.

In a checkout `gradwire/topo`, `gradwire/agents` and the like are links to the folders of that name beside this one; once installed they
are the folders themselves. Either way there is one name to import each module by.
"""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
"""The folder that holds the package, whose parent is what a process needs on its path to import it."""
