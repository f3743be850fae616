"""Session keys of an agent's deliveries: when one ends, who gets them, and what they cost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from brokers.data.handle import Effects
from brokers.data.sessions import LONGEST_SECONDS, SessionKeys
from policyengine.bundles import (
    Delivery,
    OpenedSessions,
    SealedSession,
    SubscribeRequest,
    decode_framed,
    delivery_queue,
    encode_framed,
    open_delivery,
    seal_subscribe,
)
from policyengine.errors import RejectedError
from policyengine.primitives.hpke import generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import generate_signing_key
from tests.support.data_plane import airport
from tests.support.pure_agents import NOW, PureAgent, agent_snapshot, deliveries, publication

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
ORGANISATION = airport()
SNAPSHOT = agent_snapshot(ORGANISATION, "alpha")
SIGNING = ORGANISATION.agents["alpha"].keys.signing
EPOCH = SNAPSHOT.newest_epoch
HANDLE = "p-ua"


def keys(**limits: Any) -> SessionKeys:
    return SessionKeys(**limits)


def taken(held: SessionKeys, **changes: Any) -> SealedSession:
    """The session of one more delivery."""
    made: dict[str, Any] = {
        "snapshot": SNAPSHOT,
        "handle": HANDLE,
        "epoch": EPOCH,
        "signing_key": SIGNING,
        "now": NOW,
        "random": SYSTEM_RANDOM,
    }
    return held.of(**{**made, **changes})


def test_one_key_serves_many_deliveries_and_then_no_more() -> None:
    held = keys(deliveries=3)
    found = [taken(held) for _ in range(7)]
    assert found[0] is found[1] is found[2]
    assert found[3] is found[4] is found[5]
    assert len({id(one) for one in found}) == 3
    assert len(held) == 1


def test_one_key_serves_for_a_while_and_a_clock_that_went_back_ends_it() -> None:
    held = keys()
    first = taken(held)
    assert taken(held, now=NOW + LONGEST_SECONDS - 1) is first
    second = taken(held, now=NOW + LONGEST_SECONDS)
    assert second is not first
    assert taken(held, now=NOW) is not second


def test_each_client_and_epoch_has_its_own() -> None:
    held = keys()
    epochs = {**SNAPSHOT.epochs, EPOCH + 1: SNAPSHOT.epochs[EPOCH]}
    snapshot = replace(SNAPSHOT, epochs=epochs)
    found = [
        taken(held, snapshot=snapshot, handle=handle, epoch=epoch)
        for handle in ("p-ua", "p-airport")
        for epoch in (EPOCH, EPOCH + 1)
    ]
    assert len({one.session.key for one in found}) == len(held) == 4


def test_a_new_key_of_the_client_or_of_the_agent_ends_it_at_once() -> None:
    held = keys()
    first = taken(held)
    client = replace(SNAPSHOT.clients[HANDLE], sealing_key=generate_sealing_key().public)
    moved = replace(SNAPSHOT, clients={**SNAPSHOT.clients, HANDLE: client})
    second = taken(held, snapshot=moved)
    third = taken(held, snapshot=moved, signing_key=generate_signing_key())
    assert len({one.sealed for one in (first, second, third)}) == 3
    assert len(held) == 1


def test_a_revocation_ends_every_session_of_the_domain_and_of_no_other() -> None:
    held = keys()
    first, other = taken(held), taken(held, snapshot=replace(SNAPSHOT, domain="heating"))
    denied = replace(SNAPSHOT, denied=frozenset({"p-airport"}))
    assert taken(held, snapshot=denied) is not first
    assert len(held) == 2
    assert taken(held, snapshot=replace(SNAPSHOT, domain="heating")) is other


def test_a_new_policy_keeps_what_it_does_not_end() -> None:
    held = keys()
    first = taken(held)
    taken(held, handle="p-airport")
    assert taken(held, snapshot=replace(SNAPSHOT, revision=2)) is first
    clients = {name: one for name, one in SNAPSHOT.clients.items() if name != "p-airport"}
    assert taken(held, snapshot=replace(SNAPSHOT, clients=clients)) is first
    assert len(held) == 1
    retired = replace(SNAPSHOT, epochs={EPOCH + 1: SNAPSHOT.epochs[EPOCH]})
    assert taken(held, snapshot=retired, epoch=EPOCH + 1) is not first
    assert len(held) == 1


def test_memory_is_bounded_and_what_is_used_stays() -> None:
    held = keys(most=2)
    clients = {f"p-{n}": SNAPSHOT.clients[HANDLE] for n in range(10)}
    snapshot = replace(SNAPSHOT, clients=clients)
    kept = taken(held, snapshot=snapshot, handle="p-0")
    for number in range(1, 10):
        taken(held, snapshot=snapshot, handle=f"p-{number}")
        assert taken(held, snapshot=snapshot, handle="p-0") is kept
        assert len(held) == 2


def test_a_restart_begins_anew_and_nothing_shows_a_key() -> None:
    first = taken(keys())
    held = keys()
    second = held.of(SNAPSHOT, HANDLE, EPOCH, signing_key=SIGNING, now=NOW, random=SYSTEM_RANDOM)
    assert first.session.key != second.session.key
    assert second.session.key.hex() not in repr(vars(held))
    assert repr(second.session.key) not in repr(vars(held))


# through an agent


def agent(*reads: str, **limits: Any) -> PureAgent:
    made = PureAgent(ORGANISATION, "alpha", sessions=keys(**limits))
    for text in reads:
        made.subscribe(HANDLE, "Flight", reads=text)
    return made


def sent(number: int) -> bytes:
    return publication(ORGANISATION, "p-airport", "Flight", FLIGHT, identifier=f"{number:032x}")


def payloads(effects: Effects) -> list[bytes]:
    queue = delivery_queue(HANDLE)
    return [decode_framed(one.body)[1] for one in effects.outgoing if one.queue == queue]


def opened(payload: bytes, handle: str = HANDLE, **changes: Any) -> Delivery:
    return open_delivery(
        payload,
        key=ORGANISATION.clients[handle].keys.sealing,
        handle=handle,
        verify=lambda name: ORGANISATION.agents[name].keys.signing.public,
        **changes,
    )


def test_events_reach_a_client_in_a_session_and_nobody_else_reads_them() -> None:
    alpha, remembered = agent("sessions", deliveries=4), OpenedSessions()
    bodies = [payloads(alpha.client_message(sent(number)))[0] for number in range(8)]
    for number, body in enumerate(bodies):
        assert body[:1] == b"\x80"
        assert b"N14228" not in body
        delivery = opened(body, sessions=remembered)
        assert delivery.publication == f"{number:032x}"
        assert delivery.attributes["tail"] == "N14228"
        for stranger in ("p-dl", "p-faa"):
            with pytest.raises(RejectedError):
                opened(body, stranger)
    # Three letters stand in a ciphertext by chance, and not in each of eight.
    assert not all(b"EWR" in body for body in bodies)
    assert len(remembered) == 2  # two keys for eight deliveries
    # nor does it say in clear which event it is
    assert f"{0:032x}".encode() not in bodies[0]


def test_a_client_of_an_earlier_release_gets_what_it_reads() -> None:
    for reads in (("",), ("sessions", "")):  # all of its subscriptions must say it
        alpha = agent(*reads)
        (body,) = payloads(alpha.client_message(sent(1)))
        assert body[:1] == b"\x01"
        assert opened(body).attributes["carrier"] == "UA"
        assert len(alpha.sessions or ()) == 0
    without = agent("sessions")
    without.sessions = None
    assert payloads(without.client_message(sent(1)))[0][:1] == b"\x01"


def test_a_revoked_client_gets_nothing_and_the_others_a_new_key() -> None:
    alpha = agent("sessions")
    (before,) = payloads(alpha.client_message(sent(1)))
    alpha.snapshot = replace(alpha.snapshot, denied=frozenset({"p-kiosk"}))
    (after,) = payloads(alpha.client_message(sent(2)))
    remembered = OpenedSessions()
    for body in (before, after):
        opened(body, sessions=remembered)
    assert len(remembered) == 2
    alpha.snapshot = replace(alpha.snapshot, denied=frozenset({HANDLE}))
    assert payloads(alpha.client_message(sent(3))) == []


def asked(**changes: Any) -> bytes:
    request = SubscribeRequest(
        domain="flights", client=HANDLE, request="a" * 32, subscription="mine",
        action="subscribe", type="Flight", filter="", issued=int(NOW), **changes,
    )  # fmt: skip
    sealed = seal_subscribe(
        request,
        signing_key=ORGANISATION.clients[HANDLE].keys.signing,
        recipient=ORGANISATION.agents["alpha"].keys.sealing.public,
        agent="alpha",
    )
    return encode_framed("subscribe", sealed)


@pytest.mark.parametrize(
    ("reads", "kept"),
    [((), ""), (("sessions",), "sessions"), (("later", "sessions"), "sessions"), (("later",), "")],
)
def test_what_a_client_reads_is_kept_with_its_subscription(
    reads: tuple[str, ...], kept: str
) -> None:
    alpha = PureAgent(ORGANISATION, "alpha", sessions=keys())
    (one,) = alpha.client_message(asked(reads=reads)).subscribed
    assert one.reads == kept
    alpha.subscriptions.append(one)
    effects = alpha.client_message(sent(1))
    assert payloads(effects)[0][:1] == (b"\x80" if kept else b"\x01")
    assert len(deliveries(ORGANISATION, effects.outgoing)[HANDLE]) == 1


def test_a_request_that_needs_nothing_new_is_written_as_before() -> None:
    made = partial(
        SubscribeRequest, domain="flights", client=HANDLE, request="a" * 32, subscription="mine",
        action="subscribe", type="Flight", filter="", issued=1,
    )  # fmt: skip
    assert "reads" not in made().to_json()
    assert made(reads=("sessions",)).to_json()["reads"] == ["sessions"]
