"""Serves the switches of one fabric until it is ended: `python -m gradwire.controller --fabric FILE --port PORT
[--ready-file FILE]`."""

from __future__ import annotations

import gc

# The framework's 300 modules load a quarter faster without it, and a process that sends a few thousand messages does
# not need it.
gc.disable()

import argparse  # noqa: E402
import logging  # noqa: E402
from pathlib import Path  # noqa: E402

from gradwire.controller.app import serve  # noqa: E402
from gradwire.datatypes.fabric import Fabric  # noqa: E402


def main() -> None:
    """Reads the arguments and serves."""
    parser = argparse.ArgumentParser(prog="controller", description="Installs a fabric's OpenFlow rules.")
    parser.add_argument("--fabric", type=Path, required=True, help="the fabric, as written by Fabric.to_json")
    parser.add_argument("--port", type=int, required=True, help="TCP port on 127.0.0.1 to listen on")
    parser.add_argument(
        "--ready-file", type=Path, help="file to write when all switches have their rules (default: stdout)"
    )
    parser.add_argument("--switch-prefix", default="", help="what precedes the names of switches on this machine")
    parser.add_argument("--restarted", action="store_true", help="switches may have their rules from before")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING)
    serve(
        Fabric.from_json(arguments.fabric.read_text()),
        arguments.port,
        arguments.ready_file,
        restarted=arguments.restarted,
        switch_prefix=arguments.switch_prefix,
    )


if __name__ == "__main__":
    main()
