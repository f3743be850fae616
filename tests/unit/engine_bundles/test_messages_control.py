"""Notices, leases, acknowledgements, frames and receipts."""

from dataclasses import replace

import pytest

from policyengine.bundles import (
    Request,
    contexts,
    decode_control,
    decode_framed,
    decode_request,
    encode_control,
    encode_framed,
    encode_request,
    open_lease,
    open_notice,
    seal_lease,
    seal_notice,
    sign_ack,
    sign_lease_request,
    sign_receipt,
    verify_ack,
    verify_lease_request,
    verify_receipt,
)
from policyengine.bundles.limits import MAX_MESSAGE, MAX_SMALL
from policyengine.bundles.sealing import seal_body
from policyengine.errors import DecodeError, InputError, RejectedError
from policyengine.primitives import dumps, loads, pack, seal_to, sign
from tests.support import bundle_samples as samples

ALPHA = samples.sealing_key("alpha")
AGENT = samples.signing_key("alpha")
AUTHORITY = samples.AUTHORITY.public


def notice_of(message, *, key=ALPHA, audience="agent:alpha", notice_key=AUTHORITY):
    return open_notice(message, key=key, audience=audience, notice_key=notice_key)


def lease_of(message, *, key=ALPHA, audience="agent:alpha", lease_key=AUTHORITY, nonce=None):
    return open_lease(message, key=key, audience=audience, lease_key=lease_key, nonce=nonce)


OPENERS = {
    "notice": (contexts.NOTICE, samples.notice, seal_notice, notice_of),
    "lease": (contexts.LEASE, samples.lease, seal_lease, lease_of),
}


def reason(call, *args, **kwargs) -> str:
    with pytest.raises(RejectedError) as caught:
        call(*args, **kwargs)
    return caught.value.reason


@pytest.mark.parametrize("name", OPENERS)
def test_a_message_of_the_authority_opens_for_its_audience_only(name):
    _, make, seal, opened = OPENERS[name]
    message = seal(make(), sign=samples.signer("authority"), recipient=ALPHA.public)
    assert opened(message) == make()
    assert reason(opened, message, key=samples.sealing_key("beta")) == "malformed"
    assert reason(opened, message, audience="agent:beta") == "malformed"
    assert reason(opened, message + b"x") == "malformed"
    assert reason(opened, b"x" * (MAX_SMALL + 1)) == "malformed"


@pytest.mark.parametrize("name", OPENERS)
def test_a_message_needs_the_right_key_and_purpose(name):
    purpose, make, seal, opened = OPENERS[name]
    forged = seal(make(), sign=samples.signer("mallory"), recipient=ALPHA.public)
    assert reason(opened, forged) == "signature"
    body = dumps(make().to_json())
    payload = pack(b"agent:alpha", body)
    for signature in (
        b"",
        sign(samples.AUTHORITY, contexts.RECEIPT, payload),
        sign(samples.AUTHORITY, purpose, body),
        sign(samples.AUTHORITY, purpose, pack(b"agent:beta", body)),
    ):
        info = purpose + b"|agent:alpha"
        message = seal_to(ALPHA.public, pack(b"", body, signature), info=info)
        assert reason(opened, message) == "signature"


@pytest.mark.parametrize("name", OPENERS)
def test_a_signed_message_for_someone_else_or_not_strict_is_refused(name):
    purpose, make, _, opened = OPENERS[name]

    def message(body: bytes) -> bytes:
        return seal_body(
            purpose,
            body,
            address="agent:alpha",
            signer="",
            sign=samples.signer("authority"),
            recipient=ALPHA.public,
            limit=MAX_SMALL,
        )

    whole = make().to_json()
    assert reason(opened, message(dumps({**whole, "audience": "agent:beta"}))) == "audience"
    assert reason(opened, message(dumps({**whole, "more": 1}))) == "malformed"
    assert reason(opened, message(b"not json")) == "malformed"
    assert reason(opened, message(b"")) == "malformed"


@pytest.mark.parametrize("name", OPENERS)
def test_a_message_of_the_authority_names_no_signer(name):
    purpose, make, _, opened = OPENERS[name]
    message = seal_body(
        purpose,
        dumps(make().to_json()),
        address="agent:alpha",
        signer="alpha",
        sign=samples.signer("authority"),
        recipient=ALPHA.public,
        limit=MAX_SMALL,
    )
    assert reason(opened, message) == "malformed"


@pytest.mark.parametrize("fields", [(b"", b"x"), (b"\xff", b"{}", bytes(64)), (b"",) * 4])
def test_other_fields_inside_the_seal_are_malformed(fields):
    message = seal_to(ALPHA.public, pack(*fields), info=contexts.NOTICE + b"|agent:alpha")
    assert reason(notice_of, message) == "malformed"


def test_a_notice_that_is_too_large_is_not_sent():
    many = [f"p-{number:060d}" for number in range(10_000)]
    small = samples.notice(deny=many)
    assert (
        notice_of(seal_notice(small, sign=samples.signer("authority"), recipient=ALPHA.public))
        == small
    )
    with pytest.raises(InputError) as caught:
        seal_body(
            contexts.NOTICE,
            b"x" * MAX_SMALL,
            address="agent:alpha",
            signer="",
            sign=samples.signer("authority"),
            recipient=ALPHA.public,
            limit=MAX_SMALL,
        )
    assert caught.value.kind == "too-large"


@pytest.mark.parametrize(
    "change",
    [{"number": 0}, {"deny": ("P",)}, {"deny": ("p", "p")}, {"reason": "two\nlines"}],
)
def test_a_notice_out_of_range_cannot_be_made(change):
    with pytest.raises(InputError):
        samples.notice(**change)


def test_a_lease_answers_its_own_request():
    message = seal_lease(samples.lease(), sign=samples.signer("authority"), recipient=ALPHA.public)
    assert lease_of(message, nonce=samples.NONCE).time == samples.NOW + 0.25
    assert reason(lease_of, message, nonce="0" * 32) == "replay"


@pytest.mark.parametrize(
    "change",
    [
        {"seconds": {}},
        {"seconds": {"heating": 30, "flights": 30}},
        {"seconds": {"heating": 0}},
        {"domains": {"heating": {"minimum_revision": 7}}},
        {"domains": {"heating": {"minimum_revision": 7, "minimum_notice": 2, "more": 1}}},
        {"domains": {"heating": {"minimum_revision": -1, "minimum_notice": 2}}},
        {"domains": {"heating": 7}},
        {"time": -1.0},
        {"nonce": "0" * 31},
    ],
)
def test_a_lease_out_of_range_cannot_be_made(change):
    with pytest.raises(InputError):
        samples.lease(**change)


def test_a_whole_second_is_a_float_on_the_wire():
    lease = samples.lease(time=5)
    assert b'"time":5.0' in dumps(lease.to_json())


SIGNED = {
    "lease": (samples.lease_request, sign_lease_request, verify_lease_request),
    "ack": (samples.acknowledgement, sign_ack, verify_ack),
}


@pytest.mark.parametrize("kind", SIGNED)
def test_a_request_is_verified_with_its_audiences_key(kind):
    make, signed, verified = SIGNED[kind]
    request = decode_request(signed(make(), AGENT).encode())
    assert (request.kind, request.audience) == (kind, "agent:alpha")
    assert verified(request, AGENT.public) == make()
    assert reason(verified, request, samples.signing_key("beta").public) == "signature"
    assert reason(verified, replace(request, signature=bytes(64)), AGENT.public) == "signature"
    assert reason(verified, replace(request, body=request.body + b" "), AGENT.public) == "signature"


@pytest.mark.parametrize("kind", SIGNED)
def test_a_request_of_another_kind_or_for_another_audience_is_refused(kind):
    make, signed, verified = SIGNED[kind]
    request = signed(make(), AGENT)
    assert reason(verified, replace(request, kind="other"), AGENT.public) == "malformed"
    assert reason(verified, replace(request, audience="agent:beta"), AGENT.public) == "audience"


def test_a_signature_for_one_kind_is_none_for_the_other():
    request = sign_lease_request(samples.lease_request(), AGENT)
    assert reason(verify_ack, replace(request, kind="ack"), AGENT.public) == "signature"


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"audience":"agent:alpha"}'])
def test_a_signed_request_that_is_not_strict_is_refused(body):
    signature = sign(AGENT, contexts.LEASE_REQUEST, body)
    request = Request("lease", "agent:alpha", body, signature)
    assert reason(verify_lease_request, request, AGENT.public) == "malformed"


def test_epochs_may_be_reported_as_numbers():
    report = {"revision": 7, "digest": samples.DIGEST, "notice": 2, "epochs": {12: "current"}}
    request = samples.lease_request(held={"heating": report})
    assert request.held["heating"]["epochs"] == {"12": "current"}


@pytest.mark.parametrize(
    "report",
    [
        None,
        {},
        {**samples.held()["heating"], "more": 1},
        {**samples.held()["heating"], "digest": "x"},
        {**samples.held()["heating"], "epochs": {"01": "current"}},
        {**samples.held()["heating"], "epochs": {"1": "paused"}},
        {**samples.held()["heating"], "epochs": {-1: "current"}},
        {**samples.held()["heating"], "epochs": []},
        {**samples.held()["heating"], "notice": -1},
    ],
)
def test_a_report_out_of_range_cannot_be_made(report):
    with pytest.raises(InputError):
        samples.lease_request(held={"heating": report})


@pytest.mark.parametrize(
    "change", [{"what": "lease"}, {"status": "maybe"}, {"digest": "x"}, {"reason": "x" * 1001}]
)
def test_an_acknowledgement_out_of_range_cannot_be_made(change):
    with pytest.raises(InputError):
        samples.acknowledgement(**change)


def test_frames_round_trip():
    assert decode_request(encode_request("ack", "client:p-1", b"body", b"s" * 64)) == Request(
        "ack", "client:p-1", b"body", b"s" * 64
    )
    for kind, domain in (("bundle", "heating"), ("notice", "heating"), ("lease", "")):
        control = decode_control(encode_control(kind, domain, b"payload"))
        assert (control.kind, control.domain, control.payload) == (kind, domain, b"payload")
    for kind in ("publication", "subscribe", "delivery", "reply"):
        assert decode_framed(encode_framed(kind, b"payload")) == (kind, b"payload")


@pytest.mark.parametrize(
    ("kind", "build"),
    [
        ("invalid", lambda: encode_request("bundle", "agent:alpha", b"", b"s" * 64)),
        ("invalid", lambda: encode_request("ack", "alpha", b"", b"s" * 64)),
        ("invalid", lambda: encode_request("ack", "agent:alpha", b"", b"s" * 63)),
        ("too-large", lambda: encode_request("ack", "agent:a", bytes(MAX_SMALL + 1), b"s" * 64)),
        ("invalid", lambda: encode_control("ack", "heating", b"")),
        ("invalid", lambda: encode_control("bundle", "", b"")),
        ("invalid", lambda: encode_control("lease", "Heating", b"")),
        ("too-large", lambda: encode_control("bundle", "heating", bytes(MAX_MESSAGE + 1))),
        ("invalid", lambda: encode_framed("lease", b"")),
        ("too-large", lambda: encode_framed("delivery", bytes(MAX_MESSAGE + 1))),
    ],
)
def test_a_frame_out_of_range_is_not_built(kind, build):
    with pytest.raises(InputError) as caught:
        build()
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (decode_request, b""),
        (decode_request, pack(b"bundle", b"agent:alpha", b"", b"s" * 64)),
        (decode_request, pack(b"ack", b"agent:", b"", b"s" * 64)),
        (decode_request, pack(b"ack", b"agent:alpha", b"", b"")),
        (decode_request, pack(b"ack", b"agent:\xff", b"", b"s" * 64)),
        (decode_request, pack(b"ack", b"agent:alpha", bytes(MAX_SMALL + 1), b"s" * 64)),
        (decode_request, bytes(2 * MAX_SMALL)),
        (decode_control, pack(b"bundle", b"heating")),
        (decode_control, pack(b"other", b"heating", b"")),
        (decode_control, pack(b"bundle", b"", b"")),
        (decode_control, pack(b"bundle", b"\xff", b"")),
        (decode_control, pack(b"bundle", b"heating", bytes(MAX_MESSAGE + 1))),
        (decode_control, bytes(2 * MAX_MESSAGE)),
        (decode_framed, pack(b"delivery")),
        (decode_framed, pack(b"other", b"")),
        (decode_framed, pack(b"\xff", b"")),
        (decode_framed, pack(b"delivery", bytes(MAX_MESSAGE + 1))),
        (decode_framed, bytes(2 * MAX_MESSAGE)),
    ],
)
def test_what_is_no_frame_is_not_read(decode, data):
    with pytest.raises(DecodeError):
        decode(data)


RECEIPT = {"revocation": "r-1", "enforced": {"alpha": 1.5}, "text": "grün"}


def test_a_receipt_stands_alone_however_it_is_printed():
    doc = sign_receipt(RECEIPT, samples.signer("authority"))
    assert verify_receipt(doc, AUTHORITY) == RECEIPT
    assert verify_receipt(loads(dumps(doc)), AUTHORITY) == RECEIPT


def test_a_receipt_that_was_changed_is_refused():
    doc = sign_receipt(RECEIPT, samples.signer("authority"))
    mallory = samples.signing_key("mallory").public
    changed = {**doc, "body": {**RECEIPT, "revocation": "r-2"}}
    assert reason(verify_receipt, changed, AUTHORITY) == "signature"
    assert reason(verify_receipt, doc, mallory) == "signature"


@pytest.mark.parametrize(
    "change",
    [
        {"format": "portcullis/receipt/v2"},
        {"body": []},
        {"body": {"x": float("nan")}},
        {"signature": 1},
        {"signature": "="},
        {"more": 1},
    ],
)
def test_what_is_no_receipt_is_malformed(change):
    doc = sign_receipt(RECEIPT, samples.signer("authority"))
    assert reason(verify_receipt, {**doc, **change}, AUTHORITY) == "malformed"
    assert reason(verify_receipt, [], AUTHORITY) == "malformed"


def test_a_receipt_is_plain_json():
    with pytest.raises(InputError):
        sign_receipt({"x": b"bytes"}, samples.signer("authority"))
