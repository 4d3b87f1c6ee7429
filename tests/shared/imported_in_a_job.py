"""A job that prints, as JSON, which of the modules in FOLDER/modules.json, and of those that they import, have no byte code where it is
looked for."""

import importlib
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    for name in json.loads((Path(sys.argv[1]) / "modules.json").read_text()):
        importlib.import_module(name)
    prefix = sys.pycache_prefix or "none"
    lacking = [
        name
        for name, module in sorted(sys.modules.items())
        if (cached := getattr(module, "__cached__", None)) and not (cached.startswith(prefix) and Path(cached).exists())
    ]
    print(json.dumps({"prefix": prefix, "lacking": lacking}))
