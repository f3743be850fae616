"""policyctl as a function: what it was told, what it said, how it ended."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.policyctl.http import Answer, Call, Progress, Transport
from brokers.policyctl.main import main

TOKEN = "pct_" + "t" * 40


@dataclass
class Ended:
    """A run of the program."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def policyctl(
    *arguments: str,
    transport: Transport | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run it in this process; without a transport it uses the network."""
    out, err = io.StringIO(), io.StringIO()
    code = main(
        arguments,
        environment=environment or {},
        opener=None if transport is None else lambda _args, _environment: transport,
        out=out,
        err=err,
    )
    return Ended(code, out.getvalue(), err.getvalue())


def answer(status: int, body: Any = None, **headers: str) -> Answer:
    """What a server says."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, data)


def problem(status: int, detail: str, *errors: Mapping[str, Any], **members: Any) -> Answer:
    """A server's no."""
    body = {"title": "No", "status": status, "detail": detail, "errors": list(errors), **members}
    return answer(status, body)


@dataclass
class Scripted:
    """A transport that gives prepared answers, in order, and remembers what was asked."""

    answers: list[Answer]
    calls: list[Call] = field(default_factory=list)

    def send(self, call: Call, progress: Progress | None = None) -> Answer:
        self.calls.append(call)
        found = self.answers.pop(0)
        if progress is not None:
            progress(len(found.body), len(found.body))
        return found
