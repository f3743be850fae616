"""Roots: who may lead whom where, and everything that may not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policyengine.bundles import TrustAnchors, TrustedState, roots
from policyengine.bundles.rootrequests import make_request, open_request
from policyengine.bundles.roots import (
    MAX_ROOTS,
    ROLES,
    RootSignature,
    SignedRoot,
    decode_root,
    decode_roots,
    draft,
    encode_root,
    encode_roots,
    open_root,
    verify_chain,
    verify_next,
)
from policyengine.bundles.state import Held
from policyengine.errors import InputError, PortcullisError, RejectedError
from policyengine.primitives import sign
from policyengine.primitives.canonical import dumps
from tests.support.roots import HOLDERS, ISSUED, YEAR, chain, holder, online, root, signed

FIRST = root()


def reason(call: object, *arguments: object, **named: object) -> str:
    with pytest.raises(RejectedError) as refused:
        call(*arguments, **named)  # type: ignore[operator]
    return refused.value.reason


def test_a_pinned_root_leads_to_the_newest() -> None:
    made = chain(5)
    pinned = open_root(made[0])
    assert pinned == FIRST
    assert verify_chain(pinned, made[1:]) == root(5, generation=5)
    assert verify_chain(pinned, []) == pinned
    assert verify_chain(root(3, generation=3), made[3:], now=ISSUED) == root(5, generation=5)


def test_anchors_are_the_online_keys() -> None:
    anchors = root(7).anchors()
    assert anchors.root_version == 7
    for role in set(ROLES) - {"audit"}:
        assert getattr(anchors, role) == online(role).public


def test_anchors_of_earlier_releases_read_back() -> None:
    anchors = root(7).anchors()
    older = replace(anchors, enrolment=b"")
    assert "enrolment" not in older.to_json()
    assert TrustAnchors.from_json(older.to_json()) == older
    assert TrustAnchors.from_json(anchors.to_json()) == anchors
    with pytest.raises(InputError, match="enrolment"):
        replace(anchors, enrolment=b"x" * 31)


def test_a_root_is_not_pinned_before_its_own_holders_signed() -> None:
    assert reason(open_root, signed(FIRST, ["ada"])) == "signature"
    assert reason(open_root, draft(FIRST)) == "signature"
    assert reason(open_root, SignedRoot(roots.FORMAT, b"{}", ())) == "malformed"


@pytest.mark.parametrize("by", [[], ["ada"], ["eve", "mal"], ["ada", "eve"], ["ada", "ada"]])
def test_one_signature_short_is_not_enough(by: list[str]) -> None:
    assert reason(verify_next, FIRST, signed(root(2, generation=2), by)) == "signature"


def test_further_signatures_by_one_key_count_once() -> None:
    lone = signed(root(2), ["ada"])
    twice = replace(lone, signatures=lone.signatures * 2)
    assert reason(verify_next, FIRST, twice) == "signature"
    padded = replace(signed(root(2)), signatures=(*lone.signatures, *signed(root(2)).signatures))
    assert verify_next(FIRST, padded) == root(2)


def test_a_signature_for_another_body_or_purpose_counts_for_nothing() -> None:
    other = signed(root(2, generation=9))
    assert reason(verify_next, FIRST, replace(other, body=draft(root(2)).body)) == "signature"
    bare = draft(root(2))
    wrong = tuple(
        RootSignature(holder(name).public, sign(holder(name), b"portcullis/bundle/v1", bare.body))
        for name in HOLDERS
    )
    assert reason(verify_next, FIRST, replace(bare, signatures=wrong)) == "signature"


def test_new_holders_need_the_thresholds_of_both_roots() -> None:
    names = ("dot", "eli", "fay")
    second = root(2, holders=tuple(holder(name).public for name in names))
    assert reason(verify_next, FIRST, signed(second, ["dot", "eli"])) == "signature"
    assert reason(verify_next, FIRST, signed(second, ["ada", "ben"])) == "signature"
    assert reason(verify_next, FIRST, signed(second, ["ada", "ben", "dot"])) == "signature"
    assert verify_next(FIRST, signed(second, ["ada", "ben", "dot", "eli"])) == second
    # Whoever stays counts for both.
    mixed = root(2, holders=tuple(holder(name).public for name in ("ben", "cyd", "dot")))
    assert verify_next(FIRST, signed(mixed, ["ben", "cyd"])) == mixed
    raised = root(2, threshold=3)
    assert reason(verify_next, FIRST, signed(raised)) == "signature"
    assert verify_next(FIRST, signed(raised, HOLDERS)) == raised


def test_no_version_is_skipped_and_none_comes_back() -> None:
    made = chain(4)
    assert reason(verify_chain, FIRST, made[2:]) == "previous"
    assert reason(verify_chain, FIRST, [made[1], made[3]]) == "previous"
    assert reason(verify_chain, root(2, generation=2), made[1:]) == "rollback"
    assert reason(verify_chain, root(3, generation=3), made[:1]) == "rollback"


def test_the_newest_is_fresh_where_it_must_be() -> None:
    late = [signed(root(2, expires=ISSUED + 1)), signed(root(3))]
    assert verify_chain(FIRST, late, now=ISSUED + 10) == root(3)
    assert reason(verify_chain, FIRST, late[:1], now=ISSUED + 1) == "expired"
    assert verify_chain(FIRST, late[:1]) == root(2, expires=ISSUED + 1)
    assert reason(verify_chain, FIRST, [], now=ISSUED + YEAR) == "expired"


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 0},
        {"threshold": 0},
        {"threshold": 4},
        {"expires": ISSUED},
        {"holders": ()},
        {"holders": (holder("ada").public,) * 2},
        {"lease": online("policy").public},
        {"lease": holder("ada").public},
        {"policy": b"short"},
        {"reset": ("Not A Domain",)},
        {"reset": ("flights", "flights")},
    ],
)
def test_what_no_root_may_say(changes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        root(**changes)


def test_a_root_that_holders_signed_all_the_same_is_refused() -> None:
    body = dumps(root(2).to_json() | {"threshold": 9})
    made = SignedRoot(roots.FORMAT, body, ())
    for name in HOLDERS:
        made = made.signed_by(holder(name))
    assert reason(verify_next, FIRST, made) == "malformed"


def test_caps() -> None:
    names = tuple(f"{n:064d}" for n in range(roots.MAX_RESET))
    whole = draft(root(2, reset=names))
    assert len(whole.body) < roots.MAX_BODY
    with pytest.raises(InputError):
        SignedRoot(roots.FORMAT, b"x" * (roots.MAX_BODY + 1), ())
    with pytest.raises(InputError):
        encode_roots([signed(FIRST)] * (MAX_ROOTS + 1))
    most = replace(whole, signatures=signed(FIRST).signatures * roots.MAX_HOLDERS)
    assert decode_roots(encode_roots([most] * MAX_ROOTS)) == (most,) * MAX_ROOTS
    with pytest.raises(InputError):
        most.signed_by(holder("one too many"))


def test_files_and_messages_read_back() -> None:
    made = chain(3)
    assert decode_root(encode_root(made[0])) == made[0]
    assert decode_roots(encode_roots(made)) == tuple(made)
    assert made[0].fingerprint != made[1].fingerprint
    assert len(made[0].fingerprint) == 64


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"[1]", b"nothing", b"1", b"[" * 100_000, b"[" + b"{}," * 40 + b"{}]"],
)
def test_what_is_no_root_is_refused(data: bytes) -> None:
    assert reason(decode_root, data) == "malformed"
    assert reason(decode_roots, data) == "malformed"


def test_a_holder_signs_once() -> None:
    again = signed(FIRST, ["ada", "ben", "ada"])
    assert len(again.signatures) == 2
    assert again.signers(FIRST.holders) == {holder("ada").public, holder("ben").public}


KEYS = {role: online(role) for role in ROLES}


def test_the_authority_asks_with_keys_that_it_holds() -> None:
    asked = open_request(make_request(KEYS))
    assert asked.online() == {role: online(role).public for role in ROLES}


def test_a_request_with_exchanged_or_missing_keys_is_refused() -> None:
    asked = open_request(make_request(KEYS))
    swapped = replace(asked, lease=asked.notice, notice=asked.lease)
    assert reason(open_request, dumps(swapped.to_json())) == "signature"
    short = replace(asked, proofs=asked.proofs[1:])
    assert reason(open_request, dumps(short.to_json())) == "malformed"
    with pytest.raises(RejectedError, match="no request"):
        open_request(b"{}")


def test_a_reset_forgets_numbers_and_nobody_who_was_denied() -> None:
    held = Held(9, "0" * 64)
    state = TrustedState(
        "agent:alpha",
        {"flights": held, "heating": held},
        {"flights": 3, "heating": 4},
        {"flights": frozenset({"p-1"})},
        {"flights": frozenset({7})},
    )
    after = state.reset(["flights"])
    assert after.revisions == {"heating": held}
    assert after.notices == {"heating": 4}
    assert after.early == {}
    assert after.denied == state.denied
    assert after.reset(["flights", "unheard-of"]) == after


def test_every_refusal_is_of_the_engine() -> None:
    with pytest.raises(PortcullisError):
        decode_root(b"\xff")
