"""`python -m benchmarks`: run all of them, or those that are named.

python -m benchmarks                 everything, at full size
python -m benchmarks --quick         everything, small
python -m benchmarks anonset         one of them

Each runs in a process of its own, so that its memory is its own. At the end stand the aims.
"""

from __future__ import annotations

import argparse
import pkgutil
import platform
import sys
import time
from collections.abc import Sequence

import benchmarks
from benchmarks.aims import Aim, summary
from benchmarks.alone import PREFIX, alone


def names() -> list[str]:
    """List the benchmarks that there are."""
    found = [module.name for module in pkgutil.iter_modules(benchmarks.__path__)]
    return sorted(name.removeprefix(PREFIX) for name in found if name.startswith(PREFIX))


def main(argv: Sequence[str]) -> int:
    """Run benchmarks; 0 when all of them came to their end."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(names()))
    parser.add_argument("--quick", action="store_true", help="small sizes, less than two minutes")
    options = parser.parse_args(argv)
    if unknown := sorted(set(options.names) - set(names())):
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    print(f"Python {platform.python_version()} on {platform.machine()}; ratios count, not times")
    aims: list[Aim] = []
    for name in options.names or names():
        print(f"\n== {name}", flush=True)
        start = time.monotonic()
        found, peak = alone(name, ["--quick"] if options.quick else [])
        aims += found
        print(f"\n{time.monotonic() - start:.0f} s, at most {peak / 2**20:,.0f} MiB in its process")
    if aims:
        summary(aims)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
