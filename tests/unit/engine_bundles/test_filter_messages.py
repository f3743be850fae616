"""Asking for the key of a filter: who asks is known, and who answers, and what for."""

from __future__ import annotations

from typing import Any

import pytest

from policyengine.bundles import (
    EpochKey,
    FilterAnswer,
    FilterRequest,
    Request,
    decode_control,
    decode_request,
    encode_control,
    open_filter_answer,
    seal_filter_answer,
    seal_secret,
    sign_filter_request,
    sign_lease_request,
    verify_filter_request,
)
from policyengine.errors import InputError, RejectedError
from tests.support import bundle_samples as samples

CLIENT = samples.signing_key(samples.HANDLE)
KEY = samples.sealing_key(samples.HANDLE)
PLACE: dict[str, Any] = {
    "audience": samples.CLIENT,
    "domain": "heating",
    "request": "1" * 32,
    "type": "Telemetry",
    "attributes": ("degrees", "house"),
    "at": samples.NOW,
}


def asked(**changes: Any) -> FilterRequest:
    return FilterRequest(**{**PLACE, **changes})


def key(epoch: int = 3, **changes: Any) -> EpochKey:
    place = {"domain": "heating", "epoch": epoch, "name": "Telemetry", "audience": samples.CLIENT}
    sealed = seal_secret("filter", b"keys", recipient=KEY.public, **{**place, **changes})
    return EpochKey(epoch, sealed)


def answer(**changes: Any) -> FilterAnswer:
    return FilterAnswer(**{**PLACE, "keys": (key(),), **changes})


def sealed(made: FilterAnswer, signer: str = "authority") -> bytes:
    return seal_filter_answer(made, sign=samples.signer(signer), recipient=KEY.public)


def opened(data: bytes, **changes: Any) -> FilterAnswer:
    who = {"key": KEY, "audience": samples.CLIENT, "policy_key": samples.AUTHORITY.public}
    return open_filter_answer(data, **{**who, **changes})


def test_a_request_comes_as_it_was_signed() -> None:
    request = decode_request(sign_filter_request(asked(), CLIENT).encode())
    assert request.kind == "filter-key"
    assert verify_filter_request(request, CLIENT.public) == asked()


def test_a_request_is_believed_of_its_client_alone() -> None:
    honest = sign_filter_request(asked(), CLIENT)
    other = samples.signing_key(samples.OTHER)
    lease = sign_lease_request(samples.lease_request(), samples.signing_key("alpha"))
    for reason, request, public in (
        ("signature", honest, other.public),
        (
            "signature",
            Request("filter-key", honest.audience, honest.body, bytes(64)),
            CLIENT.public,
        ),
        (
            "audience",
            Request("filter-key", f"client:{samples.OTHER}", honest.body, honest.signature),
            CLIENT.public,
        ),
        ("malformed", lease, samples.signing_key("alpha").public),
    ):
        with pytest.raises(RejectedError) as refused:
            verify_filter_request(request, public)
        assert refused.value.reason == reason


@pytest.mark.parametrize(
    "changes",
    [
        {"attributes": ()},
        {"attributes": ("house", "degrees")},
        {"attributes": ("house", "house")},
        {"attributes": tuple(f"a{number:03d}" for number in range(257))},
        {"attributes": ("",)},
        {"type": ""},
        {"domain": "Heating"},
        {"audience": "somebody"},
        {"request": "1"},
        {"at": -1},
    ],
)
def test_requests_are_strict(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        asked(**changes)


def test_an_answer_opens_for_its_client_alone() -> None:
    made = answer(keys=(key(3), key(4)))
    found = opened(sealed(made))
    assert found == made
    assert found.granted
    assert found.opened(KEY) == {3: b"keys", 4: b"keys"}
    other = samples.sealing_key(samples.OTHER)
    for reason, data, changes in (
        ("malformed", sealed(made), {"key": other}),
        ("malformed", sealed(made), {"audience": f"client:{samples.OTHER}"}),
        ("signature", sealed(made, signer="alpha"), {}),
        ("signature", sealed(made), {"policy_key": samples.signing_key("alpha").public}),
        ("malformed", sealed(made)[:-1], {}),
    ):
        with pytest.raises(RejectedError) as refused:
            opened(data, **changes)
        assert refused.value.reason == reason


def test_a_refusal_says_why() -> None:
    found = opened(sealed(answer(keys=(), reason="no policy lets her", again=True)))
    assert (found.granted, found.reason, found.again) == (False, "no policy lets her", True)
    assert found.opened(KEY) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"keys": ()},
        {"reason": "both"},
        {"again": True},
        {"keys": (key(4), key(3))},
        {"keys": (key(3), key(3))},
        {"keys": tuple(key(number) for number in range(1, 18))},
        {"attributes": ()},
    ],
)
def test_answers_are_strict(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        answer(**changes)


@pytest.mark.parametrize(
    "place", [{"name": "Other"}, {"domain": "flights"}, {"audience": "client:p-eve"}]
)
def test_a_key_of_another_place_does_not_open(place: dict[str, Any]) -> None:
    with pytest.raises(RejectedError, match="does not open"):
        answer(keys=(key(**place),)).opened(KEY)
    with pytest.raises(RejectedError, match="does not open"):
        answer(keys=(EpochKey(4, key(3).key),)).opened(KEY)


def test_it_travels_framed_with_its_domain() -> None:
    control = decode_control(encode_control("filter-key", "heating", sealed(answer())))
    assert (control.kind, control.domain) == ("filter-key", "heating")
    with pytest.raises(InputError):
        encode_control("filter-key", "", b"")
