"""`alias`: which attributes stand in encodings, and another alias for one that is burnt."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Sequence
from typing import Any

import pytest

from brokers.policyctl import aliases
from brokers.policyctl.api import Api
from brokers.policyctl.errors import Exit
from brokers.policyctl.http import Answer, Call, Progress
from brokers.policyctl.output import Output
from tests.support.policyctl import answer, policyctl

DOMAINS = answer(200, {"results": [{"id": 4, "name": "flights-2"}, {"id": 3, "name": "flights"}]})
IMPACT = {
    "attribute": "carrier",
    "policies": ["own flights"],
    "agents": [{"agent": "alpha", "clients": 3, "rules": 2}],
    "encodings": 5,
    "kept": 7,
    "epoch": 1,
    "burnt": 0,
}


def job(state: str, done: int) -> Answer:
    return answer(200, {"id": 9, "state": state, "rows_done": done, "rows_total": 5})


class Server:
    """Answers in order, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, str, Any]] = []

    def send(self, call: Call, progress: Progress | None = None) -> Answer:
        body = json.loads(call.body) if call.body else None
        self.asked.append((call.method, call.path, body))
        return self._answers.pop(0)


def burn(server: Server, moments: Sequence[float], **more: Any) -> tuple[Exit, str]:
    given = {"domain": "flights", "attribute": "carrier", "reason": "seen", "wait": 60.0}
    args = argparse.Namespace(**given | {"impact": False} | more)
    text, clock = io.StringIO(), iter(moments)
    out = Output(out=text, err=io.StringIO())
    code = aliases.run(Api(server), out, args, sleep=lambda _: None, clock=lambda: next(clock))
    return code, text.getvalue()


def test_it_looks_on_until_the_run_has_ended() -> None:
    server = Server(DOMAINS, job("pending", 0), job("running", 2), job("done", 5))
    code, text = burn(server, [0, 1, 2, 3])
    assert code == Exit.OK
    assert server.asked[1] == (
        "POST", "/domains/3/burn-alias", {"attribute": "carrier", "reason": "seen"},
    )  # fmt: skip
    assert [each[1] for each in server.asked[2:]] == ["/jobs/9", "/jobs/9"]
    assert "5 of 5 encodings: done" in text


@pytest.mark.parametrize(
    ("state", "code"), [("running", Exit.PENDING), ("failed", Exit.REFUSED), ("done", Exit.OK)]
)
def test_how_it_ends_is_its_exit_code(state: str, code: Exit) -> None:
    server = Server(DOMAINS, job("pending", 0), job(state, 1))
    assert burn(server, [0, 1, 61])[0] == code


def test_what_it_would_touch_is_told_and_nothing_is_done() -> None:
    server = Server(DOMAINS, answer(200, IMPACT))
    code, text = burn(server, [], impact=True)
    assert code == Exit.OK
    assert [each[0] for each in server.asked] == ["GET", "GET"]
    assert "encodings computed anew: 5, kept: 7" in text
    assert "nobody loses" in text


def test_programs_get_what_the_server_said() -> None:
    common = ["--domain", "flights", "-o", "json"]
    burnt = ["alias", "burn", "--attribute", "carrier", *common]
    done = policyctl(*burnt, "--impact", transport=Server(DOMAINS, answer(200, IMPACT)))
    assert json.loads(done.out) == IMPACT
    done = policyctl(*burnt, "--reason", "seen", transport=Server(DOMAINS, job("done", 5)))
    assert json.loads(done.out)["state"] == "done"
    held = [{"attribute": "carrier", "policies": ["own flights"], "burnt": 1}]
    done = policyctl("alias", "list", *common, transport=Server(DOMAINS, answer(200, held)))
    assert json.loads(done.out) == held
    done = policyctl(
        "alias",
        "list",
        "--domain",
        "flights",
        "-o",
        "table",
        transport=Server(DOMAINS, answer(200, held)),
    )
    assert "carrier" in done.out


def test_it_asks_for_a_reason_and_for_a_domain_that_there_is() -> None:
    burnt = ["alias", "burn", "--attribute", "carrier", "--domain"]
    done = policyctl(*burnt, "flights", transport=Server(DOMAINS))
    assert (done.code, "--reason" in done.err) == (Exit.ERROR, True)
    done = policyctl(*burnt, "flight", "--reason", "x", transport=Server(DOMAINS))
    assert (done.code, "no domain `flight`" in done.err) == (Exit.ERROR, True)
