"""`policyctl rollout` against a scripted server."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from brokers.policyctl import rollouts
from brokers.policyctl.errors import Exit
from brokers.policyctl.output import Output
from tests.support.policyctl import Scripted, answer, policyctl, problem

STAGES = [
    {"agents": ["beta"], "wait_seconds": 5},
    {"agents": ["alpha"], "wait_seconds": 0},
]


def rollout(state: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "id": 4,
        "version": 2,
        "domain": "heating",
        "state": state,
        "revision": 41,
        "stage": 0,
        "stages": STAGES,
        "created": "2030-01-01T00:00:00Z",
        "reason": "",
        **more,
    }


def agents(beta: str, alpha: str = "held") -> list[dict[str, Any]]:
    return [
        {"agent": "beta", "stage": 0, "state": beta, "revision": 41, "reason": ""},
        {"agent": "alpha", "stage": 1, "state": alpha, "revision": 40, "reason": ""},
    ]


def page(*found: dict[str, Any]) -> dict[str, Any]:
    return {"results": list(found), "next": None}


def test_watch_says_what_changed_and_ends_with_it() -> None:
    server = Scripted(
        [
            answer(200, page(rollout(), rollout("complete", id=3))),
            answer(200, rollout()),
            answer(200, agents("waiting")),
            answer(200, rollout()),
            answer(200, agents("waiting")),
            answer(200, rollout("complete", stage=1)),
            answer(200, agents("applied", "applied")),
        ]
    )
    ended = policyctl(
        "rollout", "watch", "--domain", "heating", "--interval", "0.01", transport=server
    )
    assert ended.code == Exit.OK
    assert server.calls[0].query == [("limit", "50"), ("domain", "heating")]
    assert ended.out.splitlines() == [
        "rollout=4 domain=heating revision=41 state=running stage=1/2 reason=",
        "rollout=4 agent=beta stage=1 state=waiting revision=41 reason=",
        "rollout=4 agent=alpha stage=2 state=held revision=40 reason=",
        "rollout=4 domain=heating revision=41 state=complete stage=2/2 reason=",
        "rollout=4 agent=beta stage=1 state=applied revision=41 reason=",
        "rollout=4 agent=alpha stage=2 state=applied revision=40 reason=",
    ]


def test_watch_of_one_that_stopped_ends_with_three_and_says_why() -> None:
    why = "agent beta refused it: malformed"
    server = Scripted(
        [
            answer(200, page(rollout("stopped", reason=why))),
            answer(200, rollout("stopped", reason=why)),
            answer(200, agents("rejected")),
        ]
    )
    ended = policyctl("-o", "json", "rollout", "watch", transport=server)
    assert ended.code == Exit.REFUSED == 3
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert lines[0] == {
        "rollout": 4,
        "domain": "heating",
        "revision": 41,
        "state": "stopped",
        "stage": "1/2",
        "reason": why,
    }
    assert [line["state"] for line in lines[1:]] == ["rejected", "held"]


def test_watch_with_nothing_on_its_way() -> None:
    ended = policyctl("rollout", "watch", transport=Scripted([answer(200, page())]))
    assert (ended.code, ended.out) == (Exit.OK, "nothing is on its way\n")


def test_a_terminal_gets_a_picture_that_changes_in_its_place() -> None:
    text = io.StringIO()
    out = Output(out=text)
    out._console = Console(file=text, force_terminal=True, width=100, highlight=False)
    with rollouts._display(out) as display:
        assert isinstance(display, rollouts.Screen)
        display.show(rollout(), agents("waiting"))
        display.shown()
        display.show(rollout("stopped", reason="beta is \x1b[2J silent"), agents("silent"))
        display.shown()
    drawn = text.getvalue()
    assert "heating revision 41" in drawn
    assert "0 of 1" in drawn
    assert "beta: silent" in drawn
    assert "\x1b[2J silent" not in drawn


def test_list_shows_the_newest_first() -> None:
    server = Scripted([answer(200, page(rollout(stage=1), rollout("complete", id=3)))])
    ended = policyctl("rollout", "list", "--limit", "2", transport=server)
    assert ended.code == Exit.OK
    rows = [line.split("\t") for line in ended.out.splitlines()]
    assert rows[0] == ["id", "domain", "revision", "state", "stage", "of", "since", "reason"]
    assert rows[1][:6] == ["4", "heating", "41", "running", "2", "2"]
    assert server.calls[0].query == [("limit", "2")]


@pytest.mark.parametrize(
    ("words", "path", "body"),
    [
        (["continue", "4"], "/rollouts/4/continue", {}),
        (["stop", "4", "-m", "too many"], "/rollouts/4/abort", {"reason": "too many"}),
    ],
)
def test_a_person_decides_about_the_version_that_stands(
    words: list[str], path: str, body: dict[str, Any]
) -> None:
    server = Scripted([answer(200, rollout("stopped")), answer(200, rollout("aborted"))])
    ended = policyctl("rollout", *words, transport=server)
    assert (ended.code, ended.out) == (Exit.OK, "rollout 4 of heating: aborted\n")
    call = server.calls[1]
    assert (call.method, call.path, json.loads(call.body or b"")) == ("POST", path, body)
    assert call.headers["If-Match"] == '"2"'
    assert len(call.headers["Idempotency-Key"]) == 36


def test_what_somebody_else_changed_is_told() -> None:
    server = Scripted([answer(200, rollout("stopped")), problem(412, "it was changed")])
    ended = policyctl("rollout", "continue", "4", transport=server)
    assert ended.code == Exit.STALE
    assert "it was changed" in ended.err


def test_stop_wants_a_reason() -> None:
    ended = policyctl("rollout", "stop", "4", transport=Scripted([]))
    assert ended.code == Exit.ERROR
