"""Decision logs on their way: sealed rows, signed segments, nothing believed unchecked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policyengine.bundles import (
    DecisionReport,
    DecisionRow,
    DecisionSettings,
    decode_request,
    open_decisions,
    seal_decisions,
    sign_decision_report,
    verify_decision_report,
)
from policyengine.bundles.decisions import MAX_SEGMENT
from policyengine.errors import DecodeError, InputError, RejectedError
from policyengine.primitives import SealingKey
from tests.support import bundle_samples as samples

AGENT = samples.signing_key("alpha")
KEY = samples.sealing_key("control-plane")
STREAM = "0f" * 16


def row(**changes):
    members = {
        "at": 1_700_000_000_123,
        "revision": 7,
        "epoch": 1,
        "action": "deliver",
        "client": samples.HANDLE,
        "type": "Telemetry.Heat",
        "outcome": "suppressed",
        "reason": "not-permitted",
        "policies": ("policy-12", "policy-9-a3"),
        "subscriptions": ("s-1",),
        "count": 2,
    }
    return DecisionRow(**{**members, **changes})


def report(rows=(), **changes):
    place = {"domain": "heating", "audience": "agent:alpha", "stream": STREAM, "sequence": 3}
    place |= {name: changes[name] for name in place if name in changes}
    members = {
        **place,
        "begin": 10,
        "end": 20,
        "lost": 0,
        "records": len(rows),
        "sealed": seal_decisions([each.to_line() for each in rows], recipient=KEY.public, **place),
    }
    return DecisionReport(**{**members, **changes})


def refusal(*arguments):
    with pytest.raises(RejectedError) as caught:
        open_decisions(*arguments)
    return caught.value.reason


@pytest.mark.parametrize("rows", [(), (row(),), (row(), row(client="", count=9, policies=()))])
def test_a_segment_is_opened_as_it_was_sealed(rows):
    sent = sign_decision_report(report(rows), AGENT).encode()
    got = verify_decision_report(decode_request(sent), AGENT.public)
    assert got == report(rows, sealed=got.sealed)
    assert open_decisions(got, KEY) == rows


def test_a_row_is_one_line_and_read_strictly():
    line = row().to_line()
    assert b"\n" not in line
    assert DecisionRow.from_line(line) == row()
    for wrong in (b"", b"{}", b"[]", line[:-1], line + b" ", line[:-1] + b",1]"):
        with pytest.raises(DecodeError):
            DecisionRow.from_line(wrong)


@pytest.mark.parametrize(
    "changes",
    [
        {"action": "read"},
        {"outcome": "maybe"},
        {"client": "A Name"},
        {"type": "line\nbreak"},
        {"reason": "a sentence"},
        {"policies": ("",)},
        {"subscriptions": ("",)},
        {"count": 0},
        {"at": -1},
    ],
)
def test_a_row_out_of_range_cannot_be_made(changes):
    with pytest.raises(InputError):
        row(**changes)


def test_a_segment_opens_in_its_own_place_only():
    good = report((row(),))
    for changes in ({"sequence": 4}, {"stream": "0e" * 16}, {"domain": "b"}, {"records": 2}):
        assert refusal(replace(good, **changes), KEY) == "malformed"
    assert refusal(replace(good, audience="agent:beta"), KEY) == "malformed"
    assert refusal(replace(good, sealed=good.sealed[:-1]), KEY) == "malformed"
    assert refusal(good, SealingKey(bytes(31) + b"\x09")) == "malformed"


def test_a_sealed_line_that_is_no_row_is_refused():
    place = {"domain": "heating", "audience": "agent:alpha", "stream": STREAM, "sequence": 3}
    sealed = seal_decisions([b"[1]"], recipient=KEY.public, **place)
    assert refusal(report(sealed=sealed, records=1), KEY) == "malformed"


def test_a_segment_is_bounded_and_ends_after_it_begins():
    with pytest.raises(InputError):
        seal_decisions(
            [b"x" * (MAX_SEGMENT + 1)],
            recipient=KEY.public, domain="d", audience="agent:a", stream=STREAM, sequence=1,
        )  # fmt: skip
    with pytest.raises(InputError):
        report(begin=21)


def test_only_the_agent_itself_reports():
    request = sign_decision_report(report((row(),)), AGENT)
    other = samples.signing_key("beta")
    for wrong, key in (
        (request, other.public),
        (replace(request, body=request.body + b" "), AGENT.public),
        (replace(request, kind="ack"), AGENT.public),
        (replace(request, audience="agent:beta"), AGENT.public),
    ):
        with pytest.raises(RejectedError):
            verify_decision_report(wrong, key)


def test_a_bundle_says_how_decisions_are_kept():
    settings = DecisionSettings(KEY.public, 30)
    content = samples.agent_content(decisions=settings)
    assert content.from_json(content.to_json()).decisions == settings
    assert "decisions" not in samples.agent_content().to_json()
    for key, days in ((b"short", 30), (KEY.public, 0), (KEY.public, 4000)):
        with pytest.raises(InputError):
            DecisionSettings(key, days)
