"""`python3 -m tasks.local.setup [run|test]`: do the set-up that is missing, and nothing twice."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tasks.local.errors import LocalError
from tasks.local.setup import environment, frontend, machine, packages

ROOT = Path(__file__).resolve().parents[3]


def main(argv: list[str] | None = None) -> int:
    """Run the steps in order; the exit status is 0, or 1 with a message that says what to do."""
    parser = argparse.ArgumentParser(prog="python3 -m tasks.local.setup", description=__doc__)
    parser.add_argument("purpose", nargs="?", choices=("run", "test"), default="run")
    purpose = parser.parse_args(argv).purpose
    try:
        machine.check(ROOT)
        packages.install(ROOT, for_tests=purpose == "test")
        environment.install(ROOT)
        frontend.install(ROOT)
    except LocalError as error:
        print(f"\nset-up stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nset-up interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
