"""What the plugin costs a run of pytest that does not use it: run as a program, prints JSON.

Its import, its options and its configuration are timed in a process in which pytest is configured already.
"""

from __future__ import annotations

import importlib
import json
import sys
import time

from _pytest.config import _prepareconfig


def main() -> None:
    config = _prepareconfig(["-p", "no:cacheprovider", "-c", "/dev/null"])
    config._do_configure()
    before = set(sys.modules)
    started = time.process_time()
    # What is registered late is told at once of everything that the others were told.
    config.pluginmanager.register(importlib.import_module("attention_conformance.plugin"))
    seconds = time.process_time() - started
    print(json.dumps({"seconds": seconds, "modules": sorted(set(sys.modules) - before)}))


if __name__ == "__main__":
    main()
