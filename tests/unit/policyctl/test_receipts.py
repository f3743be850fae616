"""A receipt is checked without the server; whatever is changed in it is found."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.policyctl.errors import Exit
from brokers.policyctl.http import Answer, Call, Progress
from policyengine.bundles import TrustAnchors, sign_receipt
from policyengine.primitives.signatures import generate_signing_key, sign
from tests.support.policyctl import Ended, answer, policyctl

BODY: dict[str, Any] = {
    "revocation": "0" * 32,
    "kind": "appointment",
    "what": "the appointment inspection of X-104212",
    "subject": {"appointment": "inspection"},
    "domain": "heating",
    "principal": {"name": "X-104212", "handle": "p-1"},
    "actor": "mona",
    "reason": "it is over",
    "t0": "2030-01-01T00:00:00+00:00",
    "lease_seconds": 30,
    "enforced_by": "2030-01-01T00:00:31+00:00",
    "revision": 7,
    "notices": [
        {
            "agent": "alpha",
            "domain": "heating",
            "number": 3,
            "acknowledged": "2030-01-01T00:00:00.250000+00:00",
            "seconds_after_t0": 0.25,
            "lease_ended": "2030-01-01T00:00:30+00:00",
        },
        {
            "agent": "beta",
            "domain": "heating",
            "number": 1,
            "acknowledged": None,
            "seconds_after_t0": None,
            "lease_ended": "2030-01-01T00:00:31+00:00",
        },
    ],
    "epochs": {"from": 1, "to": 2},
    "blind_epochs": {"from": None, "to": None},
    "keys_replaced": ["key:consumer 2"],
    "switches": [],
    "encodings_replaced": 12,
    "unreachable": ["beta"],
    "completed": "2030-01-01T00:01:00+00:00",
}
# As the release before wrote it.
EARLIER = {
    name: value
    for name, value in BODY.items()
    if name not in {"kind", "what", "subject", "enforced_by", "revision", "keys_replaced"}
} | {"notices": [{k: v for k, v in n.items() if k != "lease_ended"} for n in BODY["notices"]]}


class Office:
    """An authority's key for receipts, with files."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.key = folder, generate_signing_key()
        self.anchors = self.anchors_of(self.key.public, "anchors.json")

    def anchors_of(self, receipt: bytes, name: str) -> Path:
        others = {part: generate_signing_key().public for part in ("policy", "notice", "lease")}
        anchors = TrustAnchors(root_version=1, **others, receipt=receipt)
        path = self.folder / name
        path.write_text(json.dumps(anchors.to_json()))
        return path

    def signed(self, body: dict[str, Any]) -> dict[str, Any]:
        return sign_receipt(body, lambda context, data: sign(self.key, context, data))

    def verify(self, document: Any, *more: str, text: str | None = None) -> Ended:
        path = self.folder / "receipt.json"
        path.write_text(json.dumps(document, indent=2) if text is None else text)
        return policyctl("receipt", "verify", str(path), "--anchors", str(self.anchors), *more)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def test_a_receipt_says_what_it_proves(office: Office) -> None:
    ended = office.verify(office.signed(BODY))
    assert ended.code == Exit.OK, ended.err
    for words in (
        "genuine",
        "`the appointment inspection of X-104212` was revoked in the domain `heating`",
        "agent `alpha` signed that it enforces it, heard 0.25 s after",
        "agent `beta` did not answer; its last lease ended by 2030-01-01T00:00:31+00:00",
        "from 2030-01-01T00:00:31+00:00 on no honest agent",
        "lease is 30 seconds",
        "encodings replaced: 12",
        "epoch of encodings: from 1 to 2",
        "key `key:consumer` was replaced; its epoch is 2 now",
        "not reached by the end: `beta`",
        "not promised",
    ):
        assert words in ended.out


def test_a_receipt_of_the_release_before_is_read(office: Office) -> None:
    ended = office.verify(office.signed(EARLIER))
    assert ended.code == Exit.OK, ended.err
    assert "`X-104212` was revoked" in ended.out


def test_programs_get_the_body(office: Office) -> None:
    ended = office.verify(office.signed(BODY), "-o", "json")
    assert ended.json() == {"genuine": True, **BODY}


def test_one_that_nobody_had_to_be_told_of(office: Office) -> None:
    ended = office.verify(
        office.signed({**BODY, "notices": [], "unreachable": [], "encodings_replaced": 0})
    )
    assert "none had to be told" in ended.out
    assert "every agent that was asked has answered" in ended.out
    assert "no encoding had to be replaced" in ended.out


def mutations(value: Any) -> Iterator[Any]:
    """Every document that differs from `value` in one place."""
    if isinstance(value, dict):
        for name, held in value.items():
            for changed in mutations(held):
                yield {**value, name: changed}
            yield {other: kept for other, kept in value.items() if other != name}
        yield {**value, "more": 1}
    elif isinstance(value, list):
        for index, held in enumerate(value):
            for changed in mutations(held):
                yield [*value[:index], changed, *value[index + 1 :]]
        yield [*value, None]
    elif isinstance(value, str):
        yield value + "x"
        yield ("B" if value[:1] == "A" else "A") + value[1:]
    elif value is None:
        yield 0
    else:
        yield value + 1


def test_whatever_is_changed_is_refused(office: Office) -> None:
    document = office.signed(BODY)
    whole = copy.deepcopy(document)
    changed = list(mutations(document))
    assert len(changed) > 80
    for each in changed:
        ended = office.verify(each)
        assert ended.code == Exit.REFUSED, each
        assert ended.out == ""
    assert office.verify(whole).code == Exit.OK


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"format": 1, "format": 2}', "\0"])
def test_what_is_no_receipt_is_refused(office: Office, text: str) -> None:
    assert office.verify(None, text=text).code == Exit.REFUSED


def test_another_authoritys_receipt_is_refused(office: Office, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Office(tmp_path / "other")
    assert office.verify(other.signed(BODY)).code == Exit.REFUSED
    # Keys change; whoever keeps the anchors of both times can read both.
    both = office.verify(other.signed(BODY), "--anchors", str(other.anchors))
    assert both.code == Exit.OK


def test_files_that_are_not_there(office: Office, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone")
    ended = policyctl("receipt", "verify", gone, "--anchors", str(office.anchors))
    assert ended.code == Exit.ERROR
    assert "cannot be read" in ended.err
    office.verify(office.signed(BODY))
    ended = policyctl("receipt", "verify", str(tmp_path / "receipt.json"), "--anchors", gone)
    assert ended.code == Exit.ERROR
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{}")
    assert office.verify(office.signed(BODY), "--anchors", str(wrong)).code == Exit.ERROR


# -- held against logs ---------------------------------------------------------------------------

CHECK: dict[str, Any] = {
    "verdict": "none",
    "reasons": [],
    "until": "2030-01-01T00:00:30Z",
    "decisions": 12,
    "after": 0,
    "refused": 2,
    "contradicting": [],
    "agents": [{"agent": "alpha", "domain": "heating", "through": "2030-01-02", "reasons": []}],
}


class Logs:
    """A server that knows one revocation, and what logs say of it."""

    def __init__(self, **changes: Any) -> None:
        self.check = {**CHECK, **changes}

    def send(self, call: Call, progress: Progress | None = None) -> Answer:
        if call.path == "/revocations":
            known = ("uid", BODY["revocation"]) in call.query
            return answer(200, {"results": [{"id": 7}] if known else [], "next": None})
        assert call.path == "/revocations/7/check"
        return answer(200, self.check)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({}, Exit.OK, ("nothing is missing", "12", "known until 2030-01-02")),
        ({"verdict": "nothing", "decisions": 0}, Exit.OK, ("nothing that agents decide",)),
        (
            {"verdict": "broken", "after": 3, "contradicting": ["beta"]},
            Exit.REFUSED,
            ("3 events passed", "beta"),
        ),
        ({"verdict": "unknown", "reasons": ["holes"]}, Exit.PENDING, ("cannot be told: holes",)),
        ({"verdict": "waiting", "decisions": 0}, Exit.PENDING, ("counted yet",)),
        ({"verdict": "off", "decisions": 0}, Exit.PENDING, ("no decision logs",)),
    ],
)
def test_a_receipt_is_held_against_logs(
    tmp_path: Path, changes: dict[str, Any], code: Exit, words: tuple[str, ...]
) -> None:
    kept = tmp_path / "receipt.json"
    kept.write_text(json.dumps({"body": BODY, "signature": "AA"}))
    done = policyctl("receipt", "check", str(kept), transport=Logs(**changes))
    assert done.code == code, done.err
    assert all(word in done.out for word in words), done.out


def test_what_is_no_receipt_or_not_known_is_said(tmp_path: Path) -> None:
    kept = tmp_path / "receipt.json"
    for text, code in (("[]", Exit.REFUSED), ('{"body": {"revocation": "1"}}', Exit.ERROR)):
        kept.write_text(text)
        assert policyctl("receipt", "check", str(kept), transport=Logs()).code == code
