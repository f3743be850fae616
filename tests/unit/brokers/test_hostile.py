"""What hostile clients may send to an agent: refused with a reason, and nothing comes of it."""

from __future__ import annotations

import json
import tracemalloc
from functools import partial
from typing import Any

import pytest

from brokers.data.handle import Effects
from brokers.simulation.chance import Chance
from policyengine.bundles import (
    SubscribeRequest,
    decode_framed,
    encode_framed,
    open_publication,
    seal_subscribe,
)
from policyengine.bundles.contexts import PUBLICATION, SUBSCRIBE
from policyengine.bundles.sealing import seal_body
from policyengine.primitives.canonical import pack
from policyengine.primitives.signatures import generate_signing_key, sign
from tests.support.data_plane import airport
from tests.support.pure_agents import NOW, PureAgent, deliveries, hops, publication, replies

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "NEWARK", "delay": 130, "tail": "N14228"}
ORGANISATION = airport()


def agent(name: str = "alpha") -> PureAgent:
    made = PureAgent(ORGANISATION, name)
    made.subscribe("p-ua", "Flight")
    made.subscribe("p-faa", "Flight")
    return made


ALPHA = agent()


def nothing_came_of_it(effects: Effects) -> str:
    """The reason, after a look at everything else that a message can cause."""
    assert effects.refusal is not None
    assert deliveries(ORGANISATION, effects.outgoing) == {}
    assert hops(effects.outgoing) == {}
    assert (effects.seen, effects.subscribed, effects.unsubscribed) == ((), (), ())
    assert effects.hold == ""
    for value in ("NEWARK", "N14228"):
        assert value not in repr(effects.refusal)
    return effects.refusal.reason


def sealed(payload: bytes, purpose: bytes = PUBLICATION, signer: str = "p-airport") -> bytes:
    """Anybody can seal anything to an agent, whose key is public; here in a publisher's name."""
    keys = ORGANISATION.clients["p-airport"].keys
    body = seal_body(
        purpose,
        payload,
        address="alpha",
        signer=signer,
        sign=partial(sign, keys.signing),
        recipient=ORGANISATION.agents["alpha"].keys.sealing.public,
        limit=2**24,
    )
    return encode_framed("publication" if purpose == PUBLICATION else "subscribe", body)


GOOD = publication(ORGANISATION, "p-airport", "Flight", FLIGHT)


def test_truncated_messages_are_refused_at_every_length() -> None:
    assert agent().client_message(GOOD).refusal is None
    for length in range(0, len(GOOD), 5):
        assert nothing_came_of_it(ALPHA.client_message(GOOD[:length])) == "malformed"


def test_changed_and_lengthened_messages_are_refused() -> None:
    chance = Chance("hostile")
    for _ in range(300):
        changed = bytearray(GOOD)
        changed[chance.below(len(changed))] ^= 1 << chance.below(8)
        assert nothing_came_of_it(ALPHA.client_message(bytes(changed))) == "malformed"
    for more in (b"\0", b"x" * 1000, GOOD):
        assert nothing_came_of_it(ALPHA.client_message(GOOD + more)) == "malformed"


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"version":1,"version":1}',
        b'{"version": 1}',
        b"1" * 100_000,
        b'"' + b"\\u0000" * 10_000 + b'"',
        json.dumps({"version": 10**400}).encode(),
        b'{"issued":1e999}',
        b'{"issued":NaN}',
    ],
    ids=range(14),
)
@pytest.mark.parametrize("purpose", [PUBLICATION, SUBSCRIBE], ids=["publication", "subscribe"])
def test_what_is_sealed_well_and_makes_no_sense_is_refused(payload: bytes, purpose: bytes) -> None:
    assert nothing_came_of_it(ALPHA.client_message(sealed(payload, purpose))) == "malformed"


def test_frames_that_promise_more_than_they_hold_cost_no_memory() -> None:
    promise = b"\xff\xff\xff\xff" + b"x" * 100
    frames = [
        promise,
        pack(b"publication", promise),
        pack(b"publication" * 1000, b""),
        b"\0" * (20 * 2**20),
        pack(b"publication", b"\0" * (20 * 2**20)),
    ]
    tracemalloc.start()
    try:
        for frame in frames:
            assert nothing_came_of_it(ALPHA.client_message(frame)) == "malformed"
        # One copy of the largest at most.
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()


def test_a_replayed_publication_is_handled_once() -> None:
    alpha = agent()
    first = alpha.client_message(GOOD)
    assert set(deliveries(ORGANISATION, first.outgoing)) == {"p-ua"}
    for _ in range(3):
        again = alpha.client_message(GOOD)
        assert deliveries(ORGANISATION, again.outgoing) == {}
        assert hops(again.outgoing) == {}
        assert again.seen == ()
    # To another agent it does not open, and after the window it is too old.
    assert nothing_came_of_it(agent("beta").client_message(GOOD)) == "malformed"
    later = agent()
    later.now, later.oldest = NOW + 7200, NOW + 3600
    assert nothing_came_of_it(later.client_message(GOOD)) == "stale"


def test_a_replayed_hop_is_handled_once_and_only_where_it_belongs() -> None:
    (body,) = hops(agent().client_message(GOOD).outgoing).values()
    beta = agent("beta")
    assert set(deliveries(ORGANISATION, beta.hop(body).outgoing)) == {"p-faa"}
    assert deliveries(ORGANISATION, beta.hop(body).outgoing) == {}
    assert nothing_came_of_it(beta.client_message(body)) == "malformed"
    for length in range(0, len(body), 9):
        assert nothing_came_of_it(beta.hop(body[:length])) == "malformed"


def test_forged_publications_are_refused() -> None:
    stranger = generate_signing_key()
    alpha = agent()
    forged = publication(ORGANISATION, "p-airport", "Flight", FLIGHT, signer="p-ua")
    effects = alpha.client_message(forged)
    assert nothing_came_of_it(effects) == "signature"
    assert [one.reason for one in replies(ORGANISATION, effects.outgoing)["p-airport"]] == [
        "signature"
    ]
    request = SubscribeRequest(
        domain="flights", request="a" * 32, client="p-ua", subscription="b" * 32,
        action="subscribe", type="Flight", filter="", issued=int(NOW),
    )  # fmt: skip
    body = seal_subscribe(
        request,
        signing_key=stranger,
        recipient=ORGANISATION.agents["alpha"].keys.sealing.public,
        agent="alpha",
    )
    assert nothing_came_of_it(alpha.client_message(encode_framed("subscribe", body))) == "signature"


@pytest.mark.parametrize(
    "name", ["p-ua.>", "*", ">", "p-ua,p-dl", "p-ua?consumer.exclusive=true", "p-ua\nx:y", "../x"]
)
def test_names_that_would_be_destinations_are_refused(name: str) -> None:
    alpha = agent()
    for field in ("publisher", "publication", "domain"):
        document = {**_part_document(), field: name}
        payload = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        signer = name if field == "publisher" else "p-airport"
        reason = nothing_came_of_it(alpha.client_message(sealed(payload, signer=signer)))
        assert reason == "malformed", field


def _part_document() -> dict[str, Any]:
    _, payload = decode_framed(GOOD)
    key = ORGANISATION.agents["alpha"].keys.sealing
    return dict(json.loads(open_publication(payload, key=key, agent="alpha").body))
