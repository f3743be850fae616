"""The judge of fault tests sees what is planted: a history or a receipt that does not agree."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from policyengine.bundles import TrustAnchors
from policyengine.bundles.receipts import sign_receipt
from policyengine.primitives.signatures import SigningKey, generate_signing_key, sign
from tests.support.fault_domain import DOMAIN, TYPE, Cast
from tests.support.fault_verdict import (
    agent_lines,
    converged_after,
    disk_revision,
    judged_receipts,
    latest_delivery,
    unproven,
    verdict,
)

CAST = Cast()
Lines = list[dict[str, Any]]


def applied(at: float, number: int, by: str, *, who: str = "alpha", kind: str = "bundle") -> Any:
    return {
        "at": at, "what": "applied", "who": who, "domain": DOMAIN, "kind": kind,
        "number": number, "by": by,
    }  # fmt: skip


def story() -> Lines:
    """One reading of zone 1, for its tenant and a guard who is revoked later."""
    values = {"id": "meter-0/1", "zone": "zone-1", "value": 7}
    return [
        {"at": 1.0, "what": "subscribed", "who": "tenant-1", "type": TYPE},
        {"at": 1.0, "what": "subscribed", "who": "guard-0", "type": TYPE},
        {"at": 2.0, "what": "published", "who": "meter-0", "event": values["id"], "type": TYPE,
         "values": values},
        {"at": 2.1, "what": "accepted", "event": values["id"], "publication": "p1"},
        {"at": 2.2, "what": "delivered", "who": "tenant-1", "event": values["id"],
         "values": values},
        {"at": 2.3, "what": "delivered", "who": "guard-0", "event": values["id"],
         "values": values},
        {"at": 2.0, "what": "revoked", "who": "guard-0"},
        applied(1.5, 3, "log"), applied(1.6, 3, "page"), applied(1.7, 2, "disk"),
        {"at": 5.0, "what": "repaired", "domain": DOMAIN, "revision": 4, "agents": ["alpha"]},
        applied(6.5, 4, "page"),
        {"at": 70.0, "what": "settled"},
    ]  # fmt: skip


def judged(lines: Lines) -> list[str]:
    return verdict(lines, CAST, limit=30, handles={"tenant-1": "t1", "guard-1": "g1"})


def test_a_story_in_which_all_is_well() -> None:
    assert judged(story()) == []
    assert latest_delivery(story()) == pytest.approx(0.3)
    assert converged_after(story()) == pytest.approx(1.5)


def test_what_each_history_shows() -> None:
    assert judged(lost()) == LACKS
    for by in ("log", "page", "disk"):
        assert judged([*story(), applied(9, 1, by)])[0].startswith("`alpha` went back")
    never = [line for line in story() if line.get("number") != 4]
    assert "alpha had not applied revision 4" in judged(never)[0]
    late = [*story()]
    late[5] = {**late[5], "at": 33.0}
    assert judged(late) == ["`guard-0` got `meter-0/1` 31.0 s after its revocation"]


LACKS = ["`tenant-1` lacks `meter-0/1`, accepted at 2.1"]


def lost() -> Lines:
    """The story without the delivery to the tenant, whose home is beta."""
    return [line for line in story() if line.get("who") != "tenant-1" or "event" not in line]


def ended(at: float, **notices: int) -> Any:
    return {"at": at, "what": "revoked", "who": "meter-0", "notices": notices}


def dropped(at: float, **changed: Any) -> Any:
    told = {
        "who": "beta", "kind": "hop", "reason": "revoked", "publication": "p1", "client": "",
    }  # fmt: skip
    return {"at": at, "what": "dropped", **told, **changed}


def test_what_an_agent_dropped_of_a_revoked_publisher_stands_in_its_log() -> None:
    assert judged([*lost(), ended(3.0)]) == LACKS
    assert judged([*lost(), ended(3.0), dropped(4.0)]) == []
    assert judged([*lost(), ended(3.0), dropped(4.0, client="t1")]) == []
    assert judged([*lost(), ended(3.0), dropped(4.0, who="gamma", kind="carried")]) == []
    for wrong in (
        dropped(1.5),  # before its rights ended
        dropped(4.0, who="alpha"),  # the tenant is not at home there
        dropped(4.0, publication="p2"),
        dropped(4.0, reason="malformed"),
        dropped(4.0, client="g1"),
    ):
        assert judged([*lost(), ended(3.0), wrong]) == LACKS
    assert judged([*lost(), dropped(4.0)]) == LACKS
    late = judged([*story(), ended(-30.0)])
    assert "`meter-0/1` of `meter-0` was taken after its revocation" in late


def aside(at: float, **changed: Any) -> Any:
    return dropped(at, what="aside", reason="epoch-retired", **changed)


def stood(at: float, standing: str, who: str = "beta") -> Any:
    return {"at": at, "what": "stood", "who": who, "standing": standing}


def test_what_waited_at_an_agent_without_a_lease_lies_in_its_dead_letters() -> None:
    away = [stood(0.0, "serving"), stood(5.0, "lease-over"), stood(20.0, "serving")]
    assert judged([*lost(), *away]) == LACKS
    assert judged([*lost(), *away, aside(21.0)]) == []
    assert judged([*lost(), stood(0.0, "away"), aside(21.0)]) == []
    assert judged([*lost(), aside(21.0)]) == LACKS
    for wrong in (
        [*away[:1], aside(21.0)],  # it served all the time
        [stood(0.0, "away"), stood(0.5, "serving"), aside(21.0)],
        [stood(0.0, "serving"), stood(23.0, "away"), aside(21.0)],
        [stood(0.0, "away", who="alpha"), aside(21.0)],
        [*away, aside(21.0, who="alpha")],
        [*away, aside(21.0, publication="p2")],
        [*away, aside(21.0, client="g1")],
    ):
        assert judged([*lost(), *wrong]) == LACKS
    other = [*lost(), *away, {**aside(21.0), "reason": "failed"}]
    assert judged(other) == [*LACKS, "beta put something aside as failed"]


def test_a_second_answer_to_a_revoked_publisher_says_nothing_of_the_first() -> None:
    unsure = [line for line in story() if line["what"] != "accepted"]
    got = ["`tenant-1` got `meter-0/1`, which was refused"]

    def told(no: float, reason: str, *more: Any) -> list[str]:
        refused = {"at": no, "what": "refused", "event": "meter-0/1", "reason": reason}
        return [each for each in judged([*unsure, refused, *more]) if "tenant-1" in each]

    assert told(9.0, "revoked") == got
    assert told(9.0, "revoked", ended(3.0)) == []
    assert told(9.0, "malformed", ended(3.0)) == got  # no end of rights says that
    assert told(2.1, "revoked", ended(9.0)) == got  # before they ended
    # Published after its home knew: no agent may have taken it, and nobody may have got it.
    knew = applied(0.5, 7, "log", kind="notice")
    assert told(9.0, "revoked", ended(0.0, alpha=7), knew) == got
    assert told(9.0, "revoked", ended(0.0, alpha=8), knew) == []
    assert told(9.0, "revoked", ended(0.0, beta=7), knew) == []
    assert told(9.0, "revoked", ended(-30.0)) == got


def test_what_counts_as_applied_must_stand_in_a_record_of_the_agent() -> None:
    assert unproven({"alpha": {"bundle": [3, 4]}}, story()) == []
    assert unproven({"alpha": {"bundle": [5]}}, story()) == [
        "bundle 5 counts as applied at alpha, which nothing of alpha shows"
    ]


def test_logs_and_disks_as_a_kill_leaves_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        '{"at": "1970-01-01T00:00:02.500Z", "event": "bundle applied", "domain": "plant", '
        '"revision": 7}\n{"at": "1970-01-01T00:00:03.000Z", "event": "notice applied", '
        '"domain": "plant", "number": 2}\n"text"\n{"event": "else"}\n'
        '{"at": "1970-01-01T00:00:04.000Z", "event": "refused", "domain": "plant", "kind": "hop", '
        '"reason": "revoked", "sender": "beta", "publication": "p1", "client": ""}\n'
        '{"at": "1970-01-0'
    )
    assert agent_lines("alpha", log) == [
        applied(2.5, 7, "log"), applied(3.0, 2, "log", kind="notice"),
        dropped(4.0, who="alpha", domain=DOMAIN),
    ]  # fmt: skip
    state = tmp_path / "trusted.json"
    assert disk_revision(state) == 0
    state.write_text('{"revisions": {}}')
    assert disk_revision(state) == 0
    state.write_text('{"revisions": {"plant": {"revision": 9}}}')
    assert disk_revision(state) == 9


def receipt(key: SigningKey, **changed: Any) -> dict[str, Any]:
    told = datetime.fromtimestamp(3.0, UTC).isoformat()
    body = {
        "revocation": "u1",
        "principal": {"name": "guard-0", "handle": "p-1"},
        "notices": [{"agent": "alpha", "number": 2, "acknowledged": told}],
        "unreachable": [],
        **changed,
    }
    return sign_receipt(body, partial(sign, key))


def test_receipts_are_held_against_the_agents_logs(tmp_path: Path) -> None:
    key, other = generate_signing_key(), generate_signing_key()
    anchors = TrustAnchors(1, other.public, other.public, other.public, key.public)
    path = tmp_path / "anchors.json"
    path.write_text(json.dumps(anchors.to_json()))
    lines = [*story(), applied(2.9, 2, "log", kind="notice")]

    def judge(found: dict[str, Any] | None, state: str = "complete") -> list[str]:
        row = {"uid": "u1", "principal": "guard-0", "state": state, "receipt": found}
        return judged_receipts([row], path, lines)

    assert judge(receipt(key)) == []
    assert judge(None, "noticed") == ["the revocation of guard-0 is noticed"]
    assert "does not verify" in judge(receipt(other))[0]
    assert "something else" in judge(receipt(key, revocation="u2"))[0]
    silent = [{"agent": "beta", "number": 1, "acknowledged": None}]
    assert "not among the unreachable" in judge(receipt(key, notices=silent))[0]
    assert judge(receipt(key, notices=silent, unreachable=["beta"])) == []
    early = datetime.fromtimestamp(1.0, UTC).isoformat()
    before = [{"agent": "alpha", "number": 2, "acknowledged": early}]
    assert "no such notice by then" in judge(receipt(key, notices=before))[0]
    assert judged_receipts([], path, lines) == ["nothing is kept of the revocation of guard-0"]
