"""Replays the network traffic of distributed training on an emulated network, and measures how each strategy performs.

In a checkout, `gradwire/topo`, `gradwire/agents` and the like are links to the folders of the same name beside this one. Once installed,
they are the folders themselves. Either way, each module has one name to import it by.
"""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
"""The folder of the package. A process that imports the package needs the parent of this folder on its path."""
