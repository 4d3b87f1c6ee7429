"""Where a command begins: `gradwire`, and `python -m gradwire`."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Runs the command line; on Ctrl-C, from the first import on, ends with one line and status 130."""
    try:
        from gradwire import command_line  # noqa: PLC0415 (Ctrl-C may come while it is imported)

        command_line.main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
