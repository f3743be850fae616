"""Sets the stage for the browser: a seeded control plane, and agents that say what a test wants.

Runs in a process of its own (`python -m tests.e2e.stage`) and takes commands on its standard
input, because the tests' process has another database. Acknowledgements go through the same code
as real ones, after the point where their signature was checked.
"""

from __future__ import annotations

import os
import sys

import django


def main() -> None:
    """Take one command a line and answer each with one line: `ok`, or what went wrong."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adminapp.config.settings")
    django.setup()
    from tests.e2e.stage_commands import COMMANDS

    print("ready", flush=True)
    for line in sys.stdin:
        name, *arguments = line.rstrip("\n").split("\t")
        try:
            COMMANDS[name](*arguments)
        except Exception as error:  # noqa: BLE001 - the test that asked gets it, whatever it is
            print(f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)
        else:
            print("ok", flush=True)


if __name__ == "__main__":
    main()
