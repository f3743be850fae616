"""`revoke` says first what it would do, then does it and looks on."""

from __future__ import annotations

import argparse
import io
import json
from pathlib import Path
from typing import Any

import pytest

from brokers.policyctl import revoke
from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit
from brokers.policyctl.http import Answer, Call, Progress
from brokers.policyctl.output import Output
from tests.support.policyctl import answer, policyctl

IMPACT = {
    "loses": [
        {
            "principal": "Anna",
            "action": "subscribe",
            "type": "Flight",
            "attributes": ["carrier"],
            "condition": "",
        }
    ],
    "lost": 1,
    "principals": 1,
    "roles": ["airline"],
    "appointments": [],
    "agents": ["alpha"],
    "keys": [],
    "encodings": 2,
    "moves": False,
}


def shown(state: str, *kinds: str) -> dict[str, Any]:
    done = "notice-applied" in kinds
    return {
        "id": 7,
        "uid": "u",
        "what": "the role airline",
        "state": state,
        "events": [{"at": "12:00", "kind": kind, "detail": {"agent": "alpha"}} for kind in kinds],
        "notices": [{"audience": "agent:alpha", "state": "applied" if done else "sent"}],
        "receipt": {"body": {"what": "the role airline"}} if state == "complete" else None,
    }


class Server:
    """Answers in order, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    def send(self, call: Call, progress: Progress | None = None) -> Answer:
        body = json.loads(call.body) if call.body else None
        self.asked.append((call.method, call.path, body))
        return self._answers.pop(0)


def asked_for(wait: float, receipt: Path | None = None) -> argparse.Namespace:
    return argparse.Namespace(
        kind="role", domain="flights", role="airline", attribute=None, side=None, principal=None,
        appointment=None, agreement=None, agent=None, trust_group=None,
        impact=False, reason="over", wait=wait, receipt=receipt,
    )  # fmt: skip


def test_it_looks_on_until_the_receipt_is_there(tmp_path: Path) -> None:
    server = Server(
        answer(202, shown("noticed", "revoked")),
        answer(200, shown("applying", "revoked", "notice-applied")),
        answer(200, shown("complete", "revoked", "notice-applied", "complete")),
    )
    text, pauses = io.StringIO(), []
    args = asked_for(wait=60.0, receipt=tmp_path / "receipt.json")
    out = Output(out=text, err=io.StringIO())
    code = revoke.run(Api(server), out, args, sleep=pauses.append, clock=lambda: 0.0)
    assert code == Exit.OK
    asked = {"kind": "role", "domain": "flights", "role": "airline", "reason": "over"}
    assert server.asked[0] == ("POST", "/revocations", asked)
    assert server.asked[1:] == [("GET", "/revocations/7", None)] * 2
    assert pauses == [revoke.PAUSE] * 2
    lines = text.getvalue().splitlines()
    assert lines[1:] == [
        "12:00  revoked; notices are on their way",
        "12:00  alpha stopped serving it",
        "12:00  complete; the receipt is signed",
        f"all is done and the receipt is signed; it is in {tmp_path / 'receipt.json'}",
    ]
    kept = json.loads((tmp_path / "receipt.json").read_text())
    assert kept == {"body": {"what": "the role airline"}}


def test_time_is_up() -> None:
    server = Server(answer(202, shown("noticed", "revoked")), answer(200, shown("noticed")))
    times = iter((100.0, 100.5, 102.0))
    text = io.StringIO()
    out = Output(out=text, err=io.StringIO())
    code = revoke.run(
        Api(server), out, asked_for(wait=2.0), sleep=lambda _: None, clock=lambda: next(times)
    )
    assert code == Exit.PENDING
    assert [method for method, _, _ in server.asked] == ["POST", "GET"]
    assert "not complete yet (noticed)" in text.getvalue()


def test_without_waiting_it_says_what_it_started() -> None:
    server = Server(answer(202, shown("noticed", "revoked")))
    ended = policyctl(
        "revoke", "agent", "--agent", "3", "--reason", "stolen", "--wait", "0", "-o", "json",
        transport=server,
    )  # fmt: skip
    assert ended.code == Exit.PENDING
    assert server.asked == [
        ("POST", "/revocations", {"kind": "agent", "agent": 3, "reason": "stolen"})
    ]


def test_people_are_told_who_has_not_answered() -> None:
    server = Server(answer(202, shown("noticed", "revoked")))
    ended = policyctl(
        "revoke", "agent", "--agent", "3", "--reason", "stolen", "--wait", "0",
        transport=server,
    )  # fmt: skip
    assert ended.code == Exit.PENDING
    assert "not complete yet (noticed); no answer yet from agent:alpha" in ended.out


def test_the_impact_alone_changes_nothing() -> None:
    server = Server(answer(200, IMPACT))
    ended = policyctl("revoke", "appointment", "--appointment", "5", "--impact", transport=server)
    assert ended.code == Exit.OK
    assert server.asked == [
        ("POST", "/revocations/impact", {"kind": "appointment", "appointment": 5})
    ]
    for words in ("Anna", "1 principal loses 1 right", "roles: airline", "agents: alpha"):
        assert words in ended.out


@pytest.mark.parametrize("arguments", [("role",), ("nothing", "--reason", "r")])
def test_wrong_usage_asks_nothing(arguments: tuple[str, ...]) -> None:
    server = Server()
    assert policyctl("revoke", *arguments, transport=server).code == Exit.ERROR
    assert server.asked == []
