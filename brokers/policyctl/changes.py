"""`export`, `plan` and `apply`: organisations as files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from brokers.policyctl import files
from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.output import Output

SIGNS = {"create": "+", "update": "~", "delete": "-"}
STYLES = {"create": "green", "update": "yellow", "delete": "red"}
SHOWN = 20
ACCEPTED = 202


def export(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Write domains as YAML: the same model always gives the same bytes."""
    query = [("domain", name) for name in args.domain]
    with out.progress("exporting", size=True) as show:
        answer = api.get("/export", query, show)
    if args.file is None:
        out.raw(answer.body.decode())
    else:
        files.write(args.file, answer.body)
    return Exit.OK


def plan(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Say what files would change and what would follow from it; nothing is done."""
    found, _ = _send(api, out, args, "/plan", "planning")
    _show(out, found, f"to apply: {_counts(found)}")
    if found["problems"]:
        return Exit.ERROR
    return Exit.PENDING if found["changes"] else Exit.OK


def apply(api: Api, out: Output, args: argparse.Namespace) -> Exit:
    """Bring the model in line with files, after showing the plan: everything or nothing."""
    expected = {} if args.yes else _agree(api, out, args)
    more = [("expect", f"{name}:{number}") for name, number in expected.items()]
    found, waiting = _send(api, out, args, "/apply", "applying", more=more)
    if waiting:
        number = found.get("change_set") or ", ".join(map(str, found.get("change_sets", ())))
        _show(out, found, f"waits for a second person as change {number}")
        return Exit.WAITING
    _show(out, found, f"{_counts(found)}; change {', '.join(map(str, found['change_sets']))}")
    return Exit.OK


def _agree(api: Api, out: Output, args: argparse.Namespace) -> dict[str, int]:
    """Show the plan to a person and ask; a program says --yes. Gives the revisions it is for."""
    if files.STDIN in args.files or not sys.stdin.isatty():
        raise Stop(Exit.ERROR, "nobody can be asked here: say --yes to apply without a question")
    found, _ = _send(api, out, args, "/plan", "planning")
    _show(out, found, f"to apply: {_counts(found)}")
    if found["problems"]:
        raise Stop(Exit.ERROR, "the files cannot be applied")
    if not found["changes"]:
        raise Stop(Exit.OK, "")
    if input("apply? [y/N] ").strip().lower() not in ("y", "yes"):
        raise Stop(Exit.PENDING, "nothing was changed")
    return dict(found.get("revisions", {}))


def _send(
    api: Api,
    out: Output,
    args: argparse.Namespace,
    path: str,
    what: str,
    *,
    more: Sequence[tuple[str, str]] = (),
) -> tuple[dict[str, Any], bool]:
    """The answer, and whether it says that a second person decides."""
    sent = files.read(args.files)
    query = [("partial", "false" if args.whole else "true"), *more]
    if getattr(args, "message", ""):
        query.append(("message", args.message))
    with out.progress(what):
        answer = api.post_files(path, sent, query)
    return answer.json(), answer.status == ACCEPTED


def _show(out: Output, found: Mapping[str, Any], summary: str) -> None:
    if not out.for_people:
        out.data(dict(found))
        return
    for problem in found.get("problems", ()):
        out.error(f"{problem.get('pointer', '')} {problem.get('detail', '')}".strip())
    for change in found.get("changes", ()):
        where = f"{change['domain']}: " if change["domain"] else ""
        line = f"{SIGNS[change['op']]} {where}{change['kind']} {change['key']}"
        out.text(line, STYLES[change["op"]])
        for each in change["diff"]:
            out.text(f"    {each['path']}: {_value(each['before'])} -> {_value(each['after'])}")
    for line in _effects(found.get("effects") or {}):
        out.text(line)
    for each in found.get("findings", ()):
        related = f" ({', '.join(each['related'])})" if each["related"] else ""
        where = f"{each['domain']}: policy {each['policy']}"
        out.text(f"{each['severity']}: {where}: {each['message']}{related}")
    if found.get("problems"):
        out.text("this cannot be applied")
    elif found.get("changes") == []:
        out.text("nothing to do: the model is as the files say")
    else:
        out.text(summary)


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _effects(effects: Mapping[str, Any]) -> Iterator[str]:
    for name, title in (("gains", "gained"), ("losses", "lost")):
        lines, count = effects.get(name, ()), effects.get(title, 0)
        if count:
            yield f"{count} {title}:"
        for each in lines[:SHOWN]:
            attributes = f" ({', '.join(each['attributes'])})" if each["attributes"] else ""
            condition = f" {each['condition']}" if each["condition"] else ""
            yield (
                f"    {each['domain']}: {each['principal']} may {each['action']} "
                f"{each['type']}{attributes}{condition}"
            )
        if count > min(len(lines), SHOWN):
            yield f"    and {count - min(len(lines), SHOWN)} more"
    for type_, count in effects.get("subscriptions", ()):
        yield f"{count} would no longer receive {type_}"
    if effects.get("keys"):
        yield f"keys that rotate: {', '.join(effects['keys'])}"
    if effects.get("agents"):
        yield f"agents to be told: {', '.join(effects['agents'])}"
    if effects.get("encodings"):
        yield f"encodings to be made: {effects['encodings']}"


def _counts(found: Mapping[str, Any]) -> str:
    changes = found["changes"]
    counts = {op: sum(each["op"] == op for each in changes) for op in SIGNS}
    return ", ".join(f"{counts[op]} {op}d" for op in SIGNS)
