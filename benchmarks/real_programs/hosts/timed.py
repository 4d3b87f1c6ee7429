"""Runs a command on a host and says what it took by the host's clock: `timed.py NAME COMMAND ...` prints `RESULT NAME SECONDS`."""

import subprocess
import sys
import time

name, *command = sys.argv[1:]
begin_s = time.monotonic()
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
print("RESULT", name, time.monotonic() - begin_s, flush=True)
