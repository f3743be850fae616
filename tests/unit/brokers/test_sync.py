"""Bundles and notices: what is accepted, and what is told."""

from __future__ import annotations

from functools import partial

import pytest

from brokers.control.sync import (
    Identity,
    epochs_of,
    held_report,
    judge_bundle,
    judge_kept,
    judge_notice,
    open_verified,
)
from policyengine.bundles import Notice, TrustAnchors, TrustedState, seal_notice
from policyengine.errors import RejectedError
from policyengine.primitives.signatures import generate_signing_key, sign
from tests.support.data_plane import Organisation, airport

ALPHA = "agent:alpha"


@pytest.fixture(scope="module")
def organisation() -> Organisation:
    return airport()


def _identity(organisation: Organisation, address: str = ALPHA) -> Identity:
    keys = organisation.public_keys(address)
    return Identity(address, keys.sealing, organisation.authority.anchors())


def _reason(organisation: Organisation, message: bytes, state: TrustedState, now: float) -> str:
    try:
        judge_bundle(
            message, domain="flights", identity=_identity(organisation), state=state, now=now
        )
    except RejectedError as error:
        return error.reason
    return "accepted"


def test_bundles_only_go_forward(organisation: Organisation) -> None:
    empty = TrustedState(ALPHA)
    first = organisation.bundle(ALPHA, 3)
    now = 0.0
    accepted = judge_bundle(
        first.message, domain="flights", identity=_identity(organisation), state=empty, now=now
    )
    held = accepted.state
    assert (held.revisions["flights"].revision, held.revisions["flights"].digest) == (
        3,
        first.digest,
    )
    follows = organisation.bundle(ALPHA, 7, previous=first.digest)
    cases = {
        "accepted": (follows.message, now),
        "replay": (first.message, now),
        "rollback": (organisation.bundle(ALPHA, 2).message, now),
        "expired": (follows.message, 1e12),
        "previous": (organisation.bundle(ALPHA, 4, previous="0" * 64).message, now),
        "audience": (organisation.bundle("agent:beta", 4).message, now),
        "signature": (organisation.bundle(ALPHA, 4, signer=generate_signing_key()).message, now),
        "malformed": (follows.message[:-1], now),
    }
    assert {name: _reason(organisation, *case[:1], held, case[1]) for name, case in cases.items()} \
        == {name: name for name in cases}  # fmt: skip


def test_a_bundle_sealed_to_somebody_else_does_not_open(organisation: Organisation) -> None:
    stolen = organisation.bundle(ALPHA, 1, recipient="agent:beta")
    assert _reason(organisation, stolen.message, TrustedState(ALPHA), 0.0) == "malformed"


def test_other_anchors_are_not_ours(organisation: Organisation) -> None:
    mine = organisation.authority.anchors()
    later = TrustAnchors(2, mine.policy, mine.notice, mine.lease, mine.receipt)
    identity = Identity(ALPHA, organisation.public_keys(ALPHA).sealing, later)
    with pytest.raises(RejectedError) as refused:
        open_verified(organisation.bundle(ALPHA, 1).message, domain="flights", identity=identity)
    assert refused.value.reason == "signature"


def test_a_kept_bundle_comes_back_even_expired_and_never_an_older_one(
    organisation: Organisation,
) -> None:
    identity, empty = _identity(organisation), TrustedState(ALPHA)
    first = organisation.bundle(ALPHA, 1, expires_in=-100)
    kept = judge_kept(first.message, domain="flights", identity=identity, state=empty)
    again = judge_kept(first.message, domain="flights", identity=identity, state=kept.state)
    assert again.state == kept.state
    # Killed between the two writes: the bundle is one step ahead of the state.
    second = organisation.bundle(ALPHA, 2, previous=first.digest)
    ahead = judge_kept(second.message, domain="flights", identity=identity, state=kept.state)
    assert ahead.state.revisions["flights"].revision == 2
    with pytest.raises(RejectedError) as refused:
        judge_kept(first.message, domain="flights", identity=identity, state=ahead.state)
    assert refused.value.reason == "rollback"


def _notice(organisation: Organisation, number: int, deny: str, domain: str = "flights") -> bytes:
    notice = Notice(number, ALPHA, domain, "r1", (deny,), "left", 1)
    return seal_notice(
        notice,
        sign=partial(sign, organisation.authority.notice),
        recipient=organisation.public_keys(ALPHA).sealing.public,
    )


def test_notices_deny_at_once_and_count_without_holes(organisation: Organisation) -> None:
    judge = partial(judge_notice, domain="flights", identity=_identity(organisation))
    second = judge(_notice(organisation, 2, "p-b"), state=TrustedState(ALPHA)).state
    assert second.denied["flights"] == {"p-b"}
    assert second.notices.get("flights", 0) == 0
    both = judge(_notice(organisation, 1, "p-a"), state=second).state
    assert (both.notices["flights"], both.denied["flights"]) == (2, {"p-a", "p-b"})
    assert judge(_notice(organisation, 1, "p-a"), state=both).state == both


def test_a_notice_in_another_domains_frame_is_refused(organisation: Organisation) -> None:
    with pytest.raises(RejectedError) as refused:
        judge_notice(
            _notice(organisation, 1, "p-a", domain="heating"),
            domain="flights",
            identity=_identity(organisation),
            state=TrustedState(ALPHA),
        )
    assert refused.value.reason == "audience"


def test_what_is_held_is_told(organisation: Organisation) -> None:
    sealed = organisation.bundle(ALPHA, 4)
    accepted = judge_bundle(
        sealed.message,
        domain="flights",
        identity=_identity(organisation),
        state=TrustedState(ALPHA),
        now=0.0,
    )
    epochs = {"flights": epochs_of(accepted.opened.content)}
    assert held_report(accepted.state, epochs) == {
        "flights": {
            "revision": 4,
            "digest": sealed.digest,
            "notice": 0,
            "epochs": {"1": "current"},
        }
    }
