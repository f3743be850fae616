"""The command line."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

from brokers.adapters.logs import told_to_people
from brokers.policyctl import (
    aliases,
    audit,
    changes,
    enrol,
    events,
    filterkeys,
    questions,
    receipts,
    revoke,
    rollouts,
    root,
)
from brokers.policyctl.api import Api
from brokers.policyctl.config import target
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.http import HttpTransport, Transport
from brokers.policyctl.output import FORMATS, Output

EPILOG = """\
environment:
  PORTCULLIS_SERVER      address of the server (--server)
  PORTCULLIS_TOKEN       bearer token; never an argument, where others could see it
  PORTCULLIS_TOKEN_FILE  file of mode 0600 that holds it (--token-file)
  PORTCULLIS_CA          certificates to trust (--ca)
  PORTCULLIS_ENROLMENT_TOKEN  what lets an agent or a client enrol, once (--token)
  PORTCULLIS_PROFILE     profile folder of a publisher or subscriber (--profile)

exit codes:
  0  done, or nothing to do       4  waits for somebody's approval
  1  error                        5  not signed in
  2  plan: changes are pending    6  changed by somebody else in the meantime
  3  refused; explain: denied     7  the server, or an agent, does not answer
                                  8  subscribe: fewer events than asked for
"""

_SECRET = re.compile(r"pc[te]_[A-Za-z0-9_-]+")

Opener = Callable[[argparse.Namespace, Mapping[str, str]], Transport]


class Parser(argparse.ArgumentParser):
    """Wrong usage is an error like others; argparse's 2 stands for pending changes here."""

    def __init__(self, **given: Any) -> None:
        # No abbreviations: `--token pct_...` must not be read as the name of a file.
        super().__init__(**given, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        raise Stop(
            Exit.ERROR,
            _SECRET.sub(lambda found: f"{found[0][:4]}...", message),
            [self.format_usage().strip()],
        )


def main(
    arguments: Sequence[str] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    opener: Opener | None = None,
    out: IO[str] | None = None,
    err: IO[str] | None = None,
) -> int:
    """Run one command; gives its exit code.

    Args:
        opener: makes the transport; the network by default.
    """
    output = Output(out=out, err=err)
    try:
        args = parser().parse_args(sys.argv[1:] if arguments is None else arguments)
        output = Output(args.output, out=out, err=err)
        with told_to_people("policyctl", sys.stderr if err is None else err):
            return _run(args, output, os.environ if environment is None else environment, opener)
    except Stop as stop:
        if stop.message:
            output.error(stop.message, stop.details)
        return stop.code
    except KeyboardInterrupt:
        output.error("interrupted")
        return Exit.ERROR
    except BrokenPipeError:
        # Whoever reads has gone; what Python flushes at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR


def _run(
    args: argparse.Namespace, output: Output, environment: Mapping[str, str], opener: Opener | None
) -> Exit:
    args.environment = environment
    given = () if args.offline else (Api((opener or _open)(args, environment)),)
    found: Exit = args.run(*given, output, args)
    return found


def _open(args: argparse.Namespace, environment: Mapping[str, str]) -> Transport:
    where = target(environment, server=args.server, token_file=args.token_file, ca=args.ca)
    return HttpTransport(where, timeout=args.timeout)


def parser() -> argparse.ArgumentParser:
    """Everything that can be said."""
    whole = Parser(
        prog="policyctl",
        description="Administer domains of Portcullis, and take part in them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument(
        "--server", metavar="URL", help="address, such as https://portcullis.example"
    )
    whole.add_argument("--token-file", type=Path, metavar="FILE", help="file of mode 0600")
    whole.add_argument("--ca", type=Path, metavar="FILE", help="certificates to trust (PEM)")
    whole.add_argument("--timeout", type=_seconds, default=60.0, help="seconds; 60 if not given")
    _add_output(whole, FORMATS[0])
    commands = whole.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    _add_changes(commands)
    _add_questions(commands)
    _add_audit(commands)
    _add_rollouts(commands)
    _add_revocations(commands)
    _add_receipts(commands)
    _add_aliases(commands)
    _add_events(commands)
    _add_filter_keys(commands)
    _add_enrol(commands)
    ceremony = commands.add_parser("root", help="Hold the ceremony of the root of trust, offline.")
    root.add(
        ceremony.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser), _command
    )
    return whole


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("between 0 and 86400")
    return seconds


def _patience(text: str) -> float:
    return 0.0 if text.strip() == "0" else _seconds(text)


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return count


def _command(
    commands: argparse._SubParsersAction[Parser],
    name: str,
    run: Callable[..., Exit],
    *,
    offline: bool = False,
) -> Parser:
    said = (run.__doc__ or "").partition("\n")[0]
    made = commands.add_parser(name, help=said, description=said)
    made.set_defaults(run=run, offline=offline)
    _add_output(made, argparse.SUPPRESS)
    return made


def _add_output(to: argparse.ArgumentParser, default: str) -> None:
    """Before the command or after it."""
    to.add_argument("-o", "--output", choices=FORMATS, default=default, help="form of results")


def _add_changes(commands: argparse._SubParsersAction[Parser]) -> None:
    export = _command(commands, "export", changes.export)
    export.add_argument("domain", nargs="*", help="names; all that you may see if none is given")
    export.add_argument("-f", "--file", type=Path, help="write there and not to standard output")
    for name, run in (("plan", changes.plan), ("apply", changes.apply)):
        each = _command(commands, name, run)
        each.add_argument("files", nargs="+", metavar="FILE", help="file, folder, or - for input")
        each.add_argument(
            "--whole",
            action="store_true",
            help="the files are all there is: what their domains have beyond them is deleted",
        )
    each.add_argument("-m", "--message", default="", help="why, for colleagues and the audit")
    each.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _add_questions(commands: argparse._SubParsersAction[Parser]) -> None:
    access = _command(commands, "access", questions.access)
    explain = _command(commands, "explain", questions.explain)
    for each, needed in ((access, False), (explain, True)):
        each.add_argument("--domain", required=needed, help="name of the domain")
        each.add_argument("--principal", required=needed, help="name of the principal")
        each.add_argument("--action", required=needed, help="publish, subscribe, ...")
        each.add_argument("--type", required=needed, help="name of the event type")
        each.add_argument("--attribute", help="name of an attribute")
        each.add_argument("--at", help="the moment, as 2030-01-31T12:00:00Z; now if not given")
    access.add_argument("--limit", type=_count, help="at most so many lines")


def _add_audit(commands: argparse._SubParsersAction[Parser]) -> None:
    group = commands.add_parser("audit", help="Read, keep and check the audit.")
    below = group.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    listed = _command(below, "list", audit.entries)
    kept = _command(below, "export", audit.export)
    for each in (listed, kept):
        for name in audit.FILTERS:
            each.add_argument(f"--{name.replace('_', '-')}", dest=name)
    listed.add_argument("--limit", type=_count, default=50, help="at most so many; 50 if not given")
    kept.add_argument("-f", "--file", type=Path, help="write there and not to standard output")
    signed = _command(below, "checkpoints", audit.checkpoints)
    signed.add_argument("--limit", type=_count, default=20, help="at most so many; 20 if not given")
    checked = _command(below, "verify", audit.verify, offline=True)
    checked.add_argument("file", type=Path, help="what `audit export` wrote")
    checked.add_argument("--key", type=Path, metavar="FILE", help="verifier key of the checkpoints")


def _add_rollouts(commands: argparse._SubParsersAction[Parser]) -> None:
    group = commands.add_parser("rollout", help="Watch policies on their way to agents.")
    below = group.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    watched = _command(below, "watch", rollouts.watch)
    watched.add_argument(
        "--interval", type=_seconds, default=1.0, help="seconds between two looks; 1 if not given"
    )
    listed = _command(below, "list", rollouts.listed)
    listed.add_argument("--limit", type=_count, default=20, help="at most so many; 20 if not given")
    for each in (watched, listed):
        each.add_argument("--domain", help="name of the domain; all that you may see if not given")
    gone_on = _command(below, "continue", rollouts.go_on)
    stopped = _command(below, "stop", rollouts.stop)
    for each in (gone_on, stopped):
        each.add_argument("id", type=_count, help="number of the rollout")
    stopped.add_argument("-m", "--message", required=True, help="why, for the audit")


def _add_revocations(commands: argparse._SubParsersAction[Parser]) -> None:
    ended = _command(commands, "revoke", revoke.revoke)
    ended.add_argument("kind", choices=revoke.KINDS, help="what is to be revoked")
    for name in revoke.NUMBERED:
        flag = f"--{name.replace('_', '-')}"
        ended.add_argument(flag, type=_count, metavar="ID", help="its identifier")
    for name in revoke.NAMED:
        ended.add_argument(f"--{name}", help="its name")
    ended.add_argument("--reason", help="why, for the audit and the receipt")
    ended.add_argument(
        "--receipt", type=Path, metavar="FILE", help="where to keep the signed receipt"
    )
    ended.add_argument("--impact", action="store_true", help="only say what it would do")
    ended.add_argument(
        "--wait",
        type=_patience,
        default=300.0,
        help="seconds to look on; 300 if not given, 0 not to wait",
    )


def _add_receipts(commands: argparse._SubParsersAction[Parser]) -> None:
    group = commands.add_parser("receipt", help="Check receipts of revocations.")
    below = group.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    checked = _command(below, "verify", receipts.verify, offline=True)
    checked.add_argument("file", type=Path, help="a receipt, as it was downloaded")
    checked.add_argument(
        "--anchors",
        type=Path,
        metavar="FILE",
        action="append",
        required=True,
        help="trust anchors; more than once where the authority's keys have changed since",
    )
    held = _command(below, "check", receipts.check)
    held.add_argument("file", type=Path, help="a receipt, as it was downloaded")


def _add_aliases(commands: argparse._SubParsersAction[Parser]) -> None:
    group = commands.add_parser("alias", help="Give attributes in encodings another alias.")
    below = group.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    listed = _command(below, "list", aliases.listed)
    burnt = _command(below, "burn", aliases.burn)
    for each in (listed, burnt):
        each.add_argument("--domain", required=True, help="name of the domain")
    burnt.add_argument("--attribute", required=True, help="its name; role.nurse for the role nurse")
    burnt.add_argument("--reason", help="why, for the audit")
    burnt.add_argument("--impact", action="store_true", help="only say what it would touch")
    burnt.add_argument(
        "--wait", type=_seconds, default=300.0, help="seconds to look on; 300 if not given"
    )


def _add_events(commands: argparse._SubParsersAction[Parser]) -> None:
    sent = _command(commands, "publish", events.publish, offline=True)
    sent.add_argument("--type", help="event type of every line; else each line names its own")
    sent.add_argument("-f", "--file", type=Path, help="read there and not from standard input")
    sent.add_argument(
        "--durable",
        action="store_true",
        help="keep each event on disk before its result is told, and send what can be sent",
    )
    taken = _command(commands, "subscribe", events.subscribe, offline=True)
    taken.add_argument("type", help="event type; its sub-types are included")
    taken.add_argument("filter", nargs="?", default="", help="such as 'delay > 120'")
    taken.add_argument("--count", type=_count, help="end after so many events")
    taken.add_argument("--idle", type=_seconds, help="end after so many seconds without one")
    taken.add_argument(
        "--leave", action="store_true", help="end the subscription too; else events are kept for it"
    )
    for each in (sent, taken):
        each.add_argument("--profile", type=Path, metavar="DIR", help="who takes part")
        each.add_argument("--domain", help="where; the client's own domain if not given")
        each.add_argument(
            "--wait", type=_seconds, default=30.0, help="seconds for an answer; 30 if not given"
        )


def _add_filter_keys(commands: argparse._SubParsersAction[Parser]) -> None:
    asked = _command(commands, "filter-key", filterkeys.ask, offline=True)
    asked.add_argument("type", nargs="?", help="event type; lists what is held if not given")
    asked.add_argument("attributes", nargs="*", metavar="ATTRIBUTE", help="what is to be read")
    asked.add_argument("--forget", action="store_true", help="do without it from now on")
    asked.add_argument("--profile", type=Path, metavar="DIR", help="who takes part")
    asked.add_argument(
        "--wait", type=_seconds, default=30.0, help="seconds for an answer; 30 if not given"
    )
    asked.set_defaults(domain=None)
    reading = _command(commands, "reading", filterkeys.reading)
    reading.add_argument("--domain", required=True, help="name of the domain")
    reading.add_argument("--principal", required=True, help="name of the principal")
    reading.add_argument(
        "--by", choices=filterkeys.WAYS, help="from now on; shows how it is if not given"
    )


def _add_enrol(commands: argparse._SubParsersAction[Parser]) -> None:
    group = commands.add_parser("enrol", help="Let an agent or a client take part.")
    below = group.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)
    for name, run in (("agent", enrol.agent), ("client", enrol.client)):
        each = _command(below, name, run, offline=True)
        each.add_argument("--folder", type=Path, required=True, help="what is written")
        each.add_argument("--url", help="address of the control plane; --server if not given")
        each.add_argument("--token", default="", help="the enrolment token, pce_...")
        each.add_argument(
            "--token-file", type=Path, default=argparse.SUPPRESS, help="file that holds it"
        )
        each.add_argument("--name", default="", help="an agent's name; the token's if not given")
        each.add_argument(
            "--ca", type=Path, default=argparse.SUPPRESS, help="certificates to trust (PEM)"
        )
        each.add_argument(
            "--brokers-file", type=Path, help="where brokers stand, if not as the server says"
        )
        each.add_argument(
            "--wait", type=_seconds, default=3600.0, help="seconds to wait; an hour if not given"
        )
    renewed = _command(below, "renew", enrol.renew, offline=True)
    renewed.add_argument("--folder", type=Path, required=True, help="of an agent or a client")
    renewed.add_argument(
        "--if-due", action="store_true", help="only in the second half of its life"
    )
