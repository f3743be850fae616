"""Commands against a scripted server: what they ask, what they say, how they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.http import Answer
from tests.support.policyctl import Scripted, answer, policyctl, problem

CHANGE = {
    "domain": "flights",
    "kind": "role",
    "key": "airline",
    "op": "update",
    "diff": [{"path": "/title", "before": "", "after": "Airline"}],
}
EFFECTS = {
    "gains": [
        {
            "domain": "flights",
            "principal": "United",
            "action": "subscribe",
            "type": "Flight",
            "attributes": ["carrier"],
            "condition": "where event.delay is above 120",
        }
    ],
    "losses": [],
    "gained": 3,
    "lost": 0,
    "subscriptions": [],
    "keys": ["flights: tail"],
    "agents": ["alpha"],
    "encodings": 2,
}


def result(*changes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "changes": list(changes),
        "effects": EFFECTS if changes else {},
        "problems": [],
        "change_sets": [],
        "pending": bool(changes),
        "revisions": {"flights": 4},
        **more,
    }


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "flights.yaml"
    path.write_text("object: domain\nname: flights\n")
    return str(path)


def test_a_plan_with_changes_ends_with_two(file: str) -> None:
    server = Scripted([answer(200, result(CHANGE))])
    ended = policyctl("plan", file, transport=server)
    assert ended.code == Exit.PENDING == 2
    (call,) = server.calls
    assert (call.method, call.path, call.query) == ("POST", "/plan", [("partial", "true")])
    assert b"object: domain\nname: flights\n" in (call.body or b"")
    assert b'filename="' + file.encode() in (call.body or b"")
    assert "~ flights: role airline" in ended.out
    assert '/title: "" -> "Airline"' in ended.out
    assert "United may subscribe Flight (carrier) where event.delay is above 120\n" in ended.out
    assert "and 2 more" in ended.out
    assert "to apply: 0 created, 1 updated, 0 deleted" in ended.out


def test_a_plan_without_changes_ends_with_zero(file: str) -> None:
    ended = policyctl("plan", "--whole", file, transport=Scripted([answer(200, result())]))
    assert ended.code == Exit.OK
    assert ended.out == "nothing to do: the model is as the files say\n"


def test_a_plan_with_problems_is_an_error(file: str) -> None:
    wrong = {"pointer": "flights.yaml:3: /title", "detail": "too long"}
    ended = policyctl(
        "plan", file, transport=Scripted([answer(200, result(CHANGE, problems=[wrong]))])
    )
    assert ended.code == Exit.ERROR
    assert "flights.yaml:3: /title too long" in ended.err


@pytest.mark.parametrize("place", [0, 2])
def test_programs_get_json(place: int, file: str) -> None:
    words = ["plan", file]
    words[place:place] = ["-o", "json"]
    ended = policyctl(*words, transport=Scripted([answer(200, result(CHANGE))]))
    assert ended.json() == result(CHANGE)
    assert ended.err == ""


def test_apply_says_what_it_did(file: str) -> None:
    server = Scripted([answer(200, result(CHANGE, change_sets=[7]))])
    ended = policyctl("apply", "--yes", "--whole", "-m", "new season", file, transport=server)
    assert ended.code == Exit.OK
    assert ended.out.endswith("0 created, 1 updated, 0 deleted; change 7\n")
    (call,) = server.calls
    assert call.query == [("partial", "false"), ("message", "new season")]
    assert len(call.headers["Idempotency-Key"]) == 36


@pytest.mark.parametrize(
    "body",
    [
        result(CHANGE, change_sets=[7]),
        {"change_set": 7, "domain": "flights", "state": "submitted", "detail": "waits"},
    ],
)
def test_apply_that_waits_for_a_second_person(body: dict[str, Any], file: str) -> None:
    ended = policyctl("apply", "--yes", file, transport=Scripted([answer(202, body)]))
    assert ended.code == Exit.WAITING == 4
    assert "waits for a second person as change 7" in ended.out


def test_apply_asks_and_a_program_cannot_answer(file: str) -> None:
    server = Scripted([])
    ended = policyctl("apply", file, transport=server)
    assert ended.code == Exit.ERROR
    assert "--yes" in ended.err
    assert not server.calls


@pytest.mark.parametrize(
    ("said", "code", "calls"), [("y", Exit.OK, 2), ("", Exit.PENDING, 1), ("no", Exit.PENDING, 1)]
)
def test_apply_shows_the_plan_first(
    said: str, code: Exit, calls: int, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _question: said)
    answers = [answer(200, result(CHANGE)), answer(200, result(CHANGE, change_sets=[7]))]
    server = Scripted(answers)
    ended = policyctl("apply", file, transport=server)
    assert (ended.code, len(server.calls)) == (code, calls)
    if calls == 2:
        assert ("expect", "flights:4") in server.calls[1].query
    assert "to apply: 0 created, 1 updated" in ended.out


def test_files_folders_and_what_is_not_there(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yml", "c.txt"):
        (tmp_path / name).write_text(f"# {name}\n")
    server = Scripted([answer(200, result())])
    assert policyctl("plan", str(tmp_path), transport=server).code == Exit.OK
    body = server.calls[0].body or b""
    assert body.index(b"# a.yml") < body.index(b"# b.yaml")
    assert b"c.txt" not in body
    (tmp_path / "empty").mkdir()
    for wrong in ("nothing.yaml", "empty"):
        assert policyctl("plan", str(tmp_path / wrong), transport=Scripted([])).code == Exit.ERROR


def test_export_to_a_file_and_to_the_output(tmp_path: Path) -> None:
    text = "object: domain\nname: fl\u00fcge\n"
    path = tmp_path / "model.yaml"
    server = Scripted([answer(200, text.encode()), answer(200, text.encode())])
    assert policyctl("export", "flights", "heating", transport=server).out == text
    assert server.calls[0].query == [("domain", "flights"), ("domain", "heating")]
    assert policyctl("export", "-f", str(path), transport=server).code == Exit.OK
    assert path.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["model.yaml"]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, Exit.ERROR),
        (401, Exit.SIGNED_OUT),
        (403, Exit.REFUSED),
        (404, Exit.ERROR),
        (409, Exit.ERROR),
        (412, Exit.STALE),
        (413, Exit.ERROR),
        (429, Exit.ERROR),
        (500, Exit.ERROR),
        (502, Exit.UNREACHABLE),
        (503, Exit.UNREACHABLE),
    ],
)
def test_problems_and_their_exit_codes(status: int, code: Exit) -> None:
    ended = policyctl("export", transport=Scripted([problem(status, "that went wrong")]))
    assert ended.code == code
    assert "that went wrong" in ended.err
    assert ended.out == ""


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"\xff", b""])
def test_answers_that_are_no_problems(body: bytes) -> None:
    ended = policyctl("export", transport=Scripted([answer(502, body)]))
    assert ended.code == Exit.UNREACHABLE
    assert "status 502" in ended.err
    ended = policyctl("access", transport=Scripted([answer(200, b"<html>")]))
    assert ended.code == Exit.ERROR


def test_what_is_wrong_is_said_line_by_line(file: str) -> None:
    errors = (
        {"pointer": "/role", "detail": "unknown", "suggestion": "airline"},
        {"pointer": "/title", "detail": "too long", "suggestion": None},
    )
    ended = policyctl("plan", file, transport=Scripted([problem(400, "both", *errors)]))
    assert ended.code == Exit.ERROR
    lines = ended.err.splitlines()
    assert lines[1:] == ["  /role: unknown (did you mean `airline`?)", "  /title: too long"]


def test_a_stale_change_shows_the_difference(file: str) -> None:
    changes = [{"pointer": "/title", "yours": "a", "theirs": "b"}]
    stale = problem(412, "changed meanwhile", changes=changes)
    ended = policyctl("apply", "-y", file, transport=Scripted([stale]))
    assert ended.code == Exit.STALE
    assert '/title: yours "a", now "b"' in ended.err


LINE = {
    "domain": "flights",
    "principal": "United",
    "handle": "p-1",
    "action": "subscribe",
    "right": "read",
    "type": "Flight",
    "attributes": ["carrier", "origin"],
    "condition": "",
    "policies": ["own flights"],
}


def page(following: str | None, *lines: dict[str, Any]) -> Answer:
    return answer(200, {"next": following, "results": list(lines)})


def test_access_reads_every_page() -> None:
    server = Scripted(
        [page("abc", LINE), page("http://x/api?cursor=d%3D&limit=200", LINE), page(None)]
    )
    ended = policyctl(
        "access", "--domain", "flights", "--at", "2030-01-01T00:00:00Z", transport=server
    )
    assert ended.code == Exit.OK
    assert [dict(call.query).get("cursor") for call in server.calls] == [None, "abc", "d="]
    assert dict(server.calls[0].query) == {
        "domain": "flights",
        "at": "2030-01-01T00:00:00Z",
        "limit": "200",
    }
    head, *lines = ended.out.splitlines()
    assert head.split("\t")[:3] == ["domain", "principal", "right"]
    assert lines == ["flights\tUnited\tread\tFlight\tcarrier, origin\t\town flights"] * 2


def test_access_stops_where_it_is_told() -> None:
    server = Scripted([page("abc", LINE, LINE, LINE)])
    ended = policyctl("access", "--limit", "2", "-o", "json", transport=server)
    assert len(ended.json()) == 2


def test_yaml_for_those_who_like_it() -> None:
    ended = policyctl("access", "-o", "yaml", transport=Scripted([page(None, LINE)]))
    assert yaml.safe_load(ended.out) == [LINE]


def test_names_command_no_terminal() -> None:
    evil = LINE | {"principal": "a\x1b[31m\tb\nc\u202e"}
    ended = policyctl("access", transport=Scripted([page(None, evil)]))
    assert "\x1b" not in ended.out
    assert "\u202e" not in ended.out
    assert len(ended.out.splitlines()) == 2


QUESTION = ("--domain", "flights", "--principal", "United", "--action", "subscribe", "--type", "F")


@pytest.mark.parametrize(("allowed", "code"), [(True, Exit.OK), (False, Exit.REFUSED)])
def test_explain_says_why_and_why_not(allowed: bool, code: Exit) -> None:
    found = {
        "allowed": allowed,
        "summary": "United may" if allowed else "United may not",
        "chain": [
            {"depth": 0, "kind": "policy", "text": "policy `own flights` permits", "name": ""},
            {"depth": 1, "kind": "role", "text": "as airline", "name": "airline"},
        ],
        "missing": []
        if allowed
        else [{"kind": "role", "text": "the role `airline`", "steps": [{"text": "appoint it"}]}],
        "alternatives": [],
    }
    server = Scripted([answer(200, found), answer(200, found)])
    ended = policyctl("explain", *QUESTION, transport=server)
    assert ended.code == code
    lines = ended.out.splitlines()
    assert lines[1:3] == ["  policy `own flights` permits", "    as airline"]
    assert ("  missing: the role `airline`" in lines) == (not allowed)
    assert policyctl("explain", *QUESTION, "-o", "json", transport=server).json() == found


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("nonsense",),
        ("plan",),
        ("explain", "--domain", "flights"),
        ("access", "--limit", "0"),
        ("audit",),
        ("-o", "xml", "access"),
        ("--timeout", "-1", "access"),
    ],
)
def test_wrong_usage_is_an_error_and_not_a_pending_change(words: tuple[str, ...]) -> None:
    ended = policyctl(*words, transport=Scripted([]))
    assert ended.code == Exit.ERROR
    assert "usage: policyctl" in ended.err


def test_a_server_that_is_gone() -> None:
    class Gone:
        def send(self, *_: Any) -> Answer:
            raise Stop(Exit.UNREACHABLE, "it does not answer")

    assert policyctl("access", transport=Gone()).code == Exit.UNREACHABLE == 7


def test_the_audit_as_a_list() -> None:
    entry = {"sequence": 3, "at": "2030-01-01T00:00:00Z", "actor": "mona", "action": "role.created"}
    server = Scripted([page(None, entry), page(None, entry)])
    ended = policyctl("audit", "list", "--domain", "flights", "--person", "p-1", transport=server)
    assert ended.out.splitlines()[1].startswith("3\t2030-01-01T00:00:00Z\tmona\trole.created")
    assert dict(server.calls[0].query)["person"] == "p-1"
    assert policyctl("audit", "list", "-o", "json", transport=server).json() == [entry]


def test_json_lines_are_kept_as_they_come(tmp_path: Path) -> None:
    text = json.dumps({"sequence": 1}) + "\n"
    path = tmp_path / "audit.jsonl"
    server = Scripted([answer(200, text.encode())])
    assert policyctl("audit", "export", "-f", str(path), transport=server).code == Exit.OK
    assert path.read_text() == text
