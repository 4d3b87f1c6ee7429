"""Entry point of the commands `gradwire` and `python -m gradwire`."""

import sys

INTERRUPTED = 130
PACKAGE_MISSING = 3


def main() -> None:
    """Runs the command line; on Ctrl-C, from the first import on, ends with one line and status 130."""
    try:
        try:
            from gradwire.cli import command_line  # noqa: PLC0415 (Ctrl-C may come while it is imported)
        except ImportError as error:
            print(f"error (machine): {error}: a package is missing or broken; install gradwire again", file=sys.stderr)
            sys.exit(PACKAGE_MISSING)
        command_line.main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    # `python -m` looks for modules in the current folder first, where programs of a run may write.
    if not sys.flags.safe_path:
        sys.path.pop(0)
    main()
