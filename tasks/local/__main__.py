"""`python -m tasks.local run|demo|password`; `prepare` and `traffic` are called by `run` itself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tasks.local.errors import LocalError
from tasks.local.layout import ROOT


def main(argv: list[str] | None = None) -> int:
    """Run one command; a LocalError becomes a message and exit status 1."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.call(arguments))
    except LocalError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tasks.local")
    commands = parser.add_subparsers(required=True, metavar="command")
    run = commands.add_parser("run", help="start everything on this machine")
    run.add_argument("--port", type=int, default=8000, help="the console's port (8000)")
    run.add_argument("--no-traffic", action="store_true", help="without sample traffic")
    run.add_argument("--var", type=Path, default=ROOT / "var", help="the state folder (var)")
    run.set_defaults(call=_run)
    demo = commands.add_parser("demo", help="play the story without a person")
    demo.add_argument("--var", type=Path, default=ROOT / "var" / "demo", help="where to work")
    demo.add_argument("--keep", action="store_true", help="leave the work folder for a look")
    demo.set_defaults(call=_demo)
    password = commands.add_parser("password", help="a new password for the operator account")
    password.add_argument("--var", type=Path, default=ROOT / "var", help="the state folder (var)")
    password.set_defaults(call=_password)
    prepare = commands.add_parser("prepare", help="database, keys and samples")
    prepare.add_argument("--var", type=Path, required=True)
    prepare.add_argument("--report", type=Path, required=True)
    prepare.set_defaults(call=_prepare)
    traffic = commands.add_parser("traffic", help="sample publishers and subscribers")
    traffic.add_argument("--var", type=Path, required=True)
    traffic.set_defaults(call=_traffic)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from tasks.local.run import run

    return run(arguments.var, port=arguments.port, traffic=not arguments.no_traffic)


def _demo(arguments: argparse.Namespace) -> int:
    from tasks.local.demo.play import play

    return play(arguments.var, keep=arguments.keep)


def _password(arguments: argparse.Namespace) -> int:
    from tasks.local.prepare import new_password

    return new_password(arguments.var)


def _prepare(arguments: argparse.Namespace) -> int:
    from tasks.local.prepare import prepare

    return prepare(arguments.var, arguments.report)


def _traffic(arguments: argparse.Namespace) -> int:
    from tasks.local.traffic import run

    return run(arguments.var)


if __name__ == "__main__":
    sys.exit(main())
