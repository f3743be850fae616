"""Blind profiles from a publisher's client over two agents to subscribers' clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokers.client.assembly import Event, Interests
from brokers.client.blind import AskedFor
from brokers.client.errors import NotReady
from brokers.client.policy import build_policy
from brokers.control.sync import Identity, open_verified
from policyengine.blind import BlindDelivery, RoutedBlind
from policyengine.bundles import (
    Delivery,
    open_hop,
)
from policyengine.errors import InputError, RejectedError
from tests.support.blind import (
    READING,
    TYPES,
    BlindOrganisation,
    blind_part,
    clinic,
    message_of,
    received,
    subscribe,
)
from tests.support.pure_agents import (
    PureAgent,
    agent_snapshot,
    client_policy,
    deliveries,
    hops,
    replies,
)

READERS = ("p-doctor", "p-nurse", "p-alarm", "p-archive", "p-visitor")
CLINIC = clinic()


def _travel(
    organisation: BlindOrganisation,
    values: dict[str, Any],
    reader: PureAgent,
    *,
    publisher: str = "p-device",
    identifier: str = "0" * 32,
    event_type: str = "Reading",
) -> dict[str, list[Delivery]]:
    """Publish at alpha and give the hop to a reader's agent: handle -> what clients have."""
    part = blind_part(organisation, publisher, values, identifier=identifier, event_type=event_type)
    admitted = PureAgent(organisation, "alpha").client_message(
        message_of(organisation, part, "alpha")
    )
    assert admitted.refusal is None
    effects = reader.hop(hops(admitted.outgoing)[reader.name])
    assert (effects.refusal, effects.hold) == (None, "")
    return received(organisation, effects)


@pytest.mark.parametrize("pulse", [120, 121])
@pytest.mark.parametrize("kind", ["Reading", "EcgReading"])
def test_each_client_opens_what_the_plain_policies_say(pulse: int, kind: str) -> None:
    beta = PureAgent(CLINIC, "beta")
    for handle in READERS:
        subscribe(beta, handle)
    values = {**READING, "pulse": pulse}
    got = _travel(CLINIC, values, beta, event_type=kind)
    for handle in READERS:
        readable = CLINIC.readable(handle, kind, values)
        assert (handle in got) == (readable is not None)
        if readable is None:
            continue
        (delivery,) = got[handle]
        # what is not sealed for anybody is matched and never read
        shown = readable - {"trial"}
        assert delivery.attributes == {name: values[name] for name in shown}
        assert delivery.withheld == {
            name: "match-only" if name in readable else "not-permitted"
            for name in values
            if name not in shown
        }


FILTERS = [
    ('patient == "Alice Asphodel"', True),
    ('patient == "alice asphodel"', False),
    ("pulse > 170", True),
    ("pulse > 171", False),
    ("pulse in [1, 171]", True),
    ('trial == "trial-zeta"', True),
    ('trial == "trial-eta"', False),
    ("has(trial)", True),
    ("!has(trial)", False),
    ('ward == "north" && pulse >= 171', True),
    ('ward == "south" && pulse >= 171', False),
    ('ward == "south" || pulse >= 171', True),
    ('ward == "south" || pulse >= 172', False),
    ('!(ward == "south" || pulse < 171)', True),
]


@pytest.mark.parametrize(("text", "met"), FILTERS)
def test_agents_match_filters_that_they_cannot_read(text: str, met: bool) -> None:
    beta = PureAgent(CLINIC, "beta")
    assert subscribe(beta, "p-doctor", text).refusal is None
    got = _travel(CLINIC, dict(READING), beta)
    assert ("p-doctor" in got) == met
    interests = Interests.build(client_policy(CLINIC, "p-doctor").types, [("Reading", text)])
    for delivery in got.get("p-doctor", ()):
        event = Event("Reading", "0" * 32, delivery.attributes, delivery.withheld, "p")
        assert interests.meet(event)  # the client believes its agent about what nobody reads


def test_what_is_absent_meets_no_filter_and_its_absence_can_be_asked_for() -> None:
    beta = PureAgent(CLINIC, "beta")
    subscribe(beta, "p-doctor", 'trial == "trial-zeta"')
    subscribe(beta, "p-nurse", "!has(trial)")
    values = {name: value for name, value in READING.items() if name != "trial"}
    assert _travel(CLINIC, values, beta).keys() == {"p-nurse"}


def test_a_filter_sees_only_what_its_subscriber_may_read() -> None:
    beta = PureAgent(CLINIC, "beta")
    for handle in ("p-doctor", "p-nurse"):
        subscribe(beta, handle, 'patient == "Alice Asphodel"')
    subscribe(beta, "p-alarm", "!has(patient)")  # to them it looks absent
    assert _travel(CLINIC, dict(READING), beta).keys() == {"p-doctor", "p-alarm"}


def test_what_a_publisher_may_not_write_is_left_out_for_everybody() -> None:
    beta = PureAgent(CLINIC, "beta")
    subscribe(beta, "p-doctor")
    subscribe(beta, "p-nurse", 'trial == "trial-zeta"')
    alpha = PureAgent(CLINIC, "alpha")
    part = blind_part(CLINIC, "p-scale", READING)
    effects = alpha.client_message(message_of(CLINIC, part, "alpha"))
    assert replies(CLINIC, effects.outgoing)["p-scale"][0].dropped == ("patient", "trial")
    got = received(CLINIC, beta.hop(hops(effects.outgoing)["beta"]))
    assert got.keys() == {"p-doctor"}
    assert got["p-doctor"][0].attributes == {"ward": "north", "pulse": 171}


# shares


def test_a_deleted_share_ends_reading_and_matching_but_not_what_is_in_clear() -> None:
    organisation = clinic()
    beta = PureAgent(organisation, "beta")
    subscribe(beta, "p-doctor")
    subscribe(beta, "p-nurse", "pulse > 100")
    got = _travel(organisation, dict(READING), beta)
    assert got["p-doctor"][0].attributes["patient"] == "Alice Asphodel"
    assert "p-nurse" in got
    organisation.unshared |= {"p-doctor", "p-nurse"}
    beta.snapshot = agent_snapshot(organisation, "beta")
    got = _travel(organisation, dict(READING), beta, identifier="1" * 32)
    assert got.keys() == {"p-doctor"}
    (delivery,) = got["p-doctor"]
    assert delivery.attributes == {"ward": "north"}
    assert delivery.withheld["patient"] == delivery.withheld["pulse"] == "no-key"


def test_who_is_denied_reads_nothing_although_the_share_is_there() -> None:
    beta = PureAgent(CLINIC, "beta")
    subscribe(beta, "p-doctor", "pulse > 100")
    beta.snapshot = replace(beta.snapshot, denied=frozenset({"p-doctor"}))
    assert _travel(CLINIC, dict(READING), beta) == {}


def test_without_a_share_nobody_publishes_or_filters() -> None:
    organisation = clinic(unshared={"p-device", "p-doctor"})
    part = blind_part(organisation, "p-device", READING)
    effects = PureAgent(organisation, "alpha").client_message(
        message_of(organisation, part, "alpha")
    )
    assert effects.refusal is not None
    assert effects.refusal.reason == "no-share"
    assert not hops(effects.outgoing)
    beta = PureAgent(organisation, "beta")
    refused = subscribe(beta, "p-doctor", "pulse > 100").refusal
    assert refused is not None
    assert refused.reason == "no-share"
    assert subscribe(beta, "p-doctor", 'ward == "north"').refusal is None


def test_the_clients_keys_alone_open_nothing_whatever_stands_for_the_agents_half() -> None:
    beta = PureAgent(CLINIC, "beta")
    subscribe(beta, "p-doctor")
    part = blind_part(CLINIC, "p-device", READING)
    effects = PureAgent(CLINIC, "alpha").client_message(message_of(CLINIC, part, "alpha"))
    hop = open_hop(
        hops(effects.outgoing)["beta"],
        hop_keys=beta.snapshot.opening_overlay_keys(),
        verify=lambda name: CLINIC.agents[name].keys.signing.public,
    )
    routed = RoutedBlind.from_bytes(hop.blind)
    (sealed,) = deliveries(CLINIC, beta.hop(hops(effects.outgoing)["beta"]).outgoing)["p-doctor"]
    half = BlindDelivery.from_bytes(sealed.blind).half
    policy = client_policy(CLINIC, "p-doctor")
    for wrong in (routed.values.lock, beta.snapshot.blind[1].public.lock):
        assert wrong != half
        without = BlindDelivery(routed.place, wrong, routed.values).to_bytes()
        opened = policy.blind.open(replace(sealed, blind=without))
        assert opened.attributes == {"ward": "north"}
        assert {"patient", "pulse"} <= opened.withheld.keys()


# epochs


def _with_epochs(**states: str) -> BlindOrganisation:
    return clinic(blind_epochs={int(name[1:]): state for name, state in states.items()})


def test_filters_of_every_open_epoch_are_told_and_events_meet_those_of_their_own() -> None:
    before, turning = _with_epochs(e1="current"), _with_epochs(e1="draining", e2="current")
    for organisation in (before, turning):
        organisation.__dict__.update(
            agents=CLINIC.agents, clients=CLINIC.clients, secret=CLINIC.secret,
            authority=CLINIC.authority,
        )  # fmt: skip
    beta = PureAgent(turning, "beta")
    # One that only knows the old epoch; its filter says nothing about events of the new one.
    only_old = client_policy(before, "p-nurse").blind.ask("Reading", "pulse > 100")
    assert subscribe(beta, "p-nurse", "pulse > 100", asked=only_old).refusal is None
    subscribe(beta, "p-doctor", "pulse > 100")
    assert _travel(turning, dict(READING), beta).keys() == {"p-doctor"}
    # An event of the old epoch still arrives while that drains.
    old = PureAgent(before, "alpha").client_message(
        message_of(before, blind_part(before, "p-device", READING, identifier="2" * 32), "alpha")
    )
    got = received(turning, beta.hop(hops(old.outgoing)["beta"]))
    assert got.keys() == {"p-doctor", "p-nurse"}
    assert got["p-doctor"][0].attributes["patient"] == "Alice Asphodel"


@pytest.mark.parametrize(
    ("states", "reason"),
    [({"e2": "current"}, "epoch-retired"), ({"e0": "current"}, "epoch-unknown")],
)
def test_events_and_filters_of_another_epoch_are_refused(
    states: dict[str, str], reason: str
) -> None:
    other = replace(CLINIC, blind_epochs=_with_epochs(**states).blind_epochs)
    part = blind_part(CLINIC, "p-device", READING)
    effects = PureAgent(other, "alpha").client_message(message_of(other, part, "alpha"))
    assert effects.refusal is not None
    assert effects.refusal.reason == reason
    beta = PureAgent(other, "beta")
    asked = client_policy(CLINIC, "p-doctor").blind.ask("Reading", "pulse > 1")
    refused = subscribe(beta, "p-doctor", asked=asked).refusal
    assert refused is not None
    assert refused.reason == reason
    # A hop of an epoch that comes is held, of one that is over it goes aside.
    sent = PureAgent(CLINIC, "alpha").client_message(message_of(CLINIC, part, "alpha"))
    subscribe(beta, "p-doctor")
    hop = beta.hop(hops(sent.outgoing)["beta"])
    if reason == "epoch-unknown":
        assert (hop.hold, hop.refusal) == (reason, None)
    else:
        assert hop.refusal is not None
        assert hop.refusal.reason == reason
    assert not hop.outgoing


def test_a_client_waits_for_keys_of_a_newer_epoch_and_opens_nothing_without_them() -> None:
    newer = replace(CLINIC, blind_epochs={1: "draining", 2: "current"})
    beta = PureAgent(newer, "beta")
    subscribe(beta, "p-doctor")
    part = blind_part(newer, "p-device", READING)
    sent = PureAgent(newer, "alpha").client_message(message_of(newer, part, "alpha"))
    effects = beta.hop(hops(sent.outgoing)["beta"])
    (sealed,) = deliveries(newer, effects.outgoing)["p-doctor"]
    old, new = (client_policy(one, "p-doctor").blind for one in (CLINIC, newer))
    assert old.awaits(sealed)
    assert not new.awaits(sealed)
    opened = old.open(sealed)
    assert opened.attributes == {"ward": "north"}
    assert opened.withheld["patient"] == "epoch-unknown"
    assert new.open(sealed).attributes["patient"] == "Alice Asphodel"


def test_a_publisher_without_a_current_epoch_sends_nothing() -> None:
    with pytest.raises(NotReady):
        blind_part(_with_epochs(e1="staged"), "p-device", READING)
    empty = _with_epochs()
    with pytest.raises(NotReady):
        blind_part(empty, "p-device", READING)
    with pytest.raises(NotReady):
        client_policy(empty, "p-doctor").blind.ask("Reading", "pulse > 1")


# forgeries


def _refused(organisation: BlindOrganisation, part: Any) -> str:
    effects = PureAgent(organisation, "alpha").client_message(
        message_of(organisation, part, "alpha")
    )
    assert effects.refusal is not None
    assert not hops(effects.outgoing)
    return effects.refusal.reason


def test_forged_and_damaged_shares_of_parts_are_refused() -> None:
    part = blind_part(CLINIC, "p-device", READING)
    other = blind_part(CLINIC, "p-scale", READING)
    assert _refused(CLINIC, replace(part, blind=other.blind)) == "malformed"
    for place in range(0, len(part.blind), 997):
        damaged = bytearray(part.blind)
        damaged[place] ^= 1
        assert _refused(CLINIC, replace(part, blind=bytes(damaged))) == "malformed"
    elsewhere = clinic(domain="hospital")
    foreign = blind_part(elsewhere, "p-device", READING)
    assert _refused(CLINIC, replace(part, blind=foreign.blind)) == "malformed"
    # Hidden as the type does not hide it: searchable in clear's place.
    ward = replace(TYPES[0].attributes[0], blind="searchable", sealed=True)
    declared = replace(TYPES[0], attributes=(ward, *TYPES[0].attributes[1:]))
    wrong = blind_part(clinic(types=(declared, TYPES[1])), "p-device", READING)
    assert _refused(CLINIC, replace(part, blind=wrong.blind, attributes={})) == "malformed"


def test_what_is_hidden_never_travels_in_clear_even_where_its_publisher_sends_it_so() -> None:
    part = blind_part(CLINIC, "p-device", READING)
    alpha, beta = PureAgent(CLINIC, "alpha"), PureAgent(CLINIC, "beta")
    subscribe(beta, "p-doctor")
    careless = replace(part, blind=b"", attributes=dict(READING))
    effects = alpha.client_message(message_of(CLINIC, careless, "alpha"))
    assert set(replies(CLINIC, effects.outgoing)["p-device"][0].dropped) == {
        "patient", "pulse", "trial",
    }  # fmt: skip
    got = received(CLINIC, beta.hop(hops(effects.outgoing)["beta"]))
    assert got["p-doctor"][0].attributes == {"ward": "north"}


def test_a_part_hides_only_what_it_is_to_carry() -> None:
    splits = {
        "Reading": [
            {"overlay": "a", "attributes": ["ward", "patient"]},
            {"overlay": "b", "attributes": ["pulse", "trial"]},
        ]
    }
    organisation = clinic(splits=splits)
    first, second = (
        blind_part(organisation, "p-device", READING, part=number) for number in (0, 1)
    )
    assert _refused(organisation, replace(first, blind=second.blind)) == "stale"
    accepted = PureAgent(organisation, "alpha").client_message(
        message_of(organisation, first, "alpha")
    )
    assert accepted.refusal is None


def test_values_open_in_their_own_event_and_part_only() -> None:
    beta = PureAgent(CLINIC, "beta")
    subscribe(beta, "p-doctor")
    part = blind_part(CLINIC, "p-device", READING)
    moved = replace(part, publication="9" * 32)
    sent = PureAgent(CLINIC, "alpha").client_message(message_of(CLINIC, moved, "alpha"))
    got = received(CLINIC, beta.hop(hops(sent.outgoing)["beta"]))
    assert got["p-doctor"][0].attributes == {"ward": "north"}
    assert got["p-doctor"][0].withheld["patient"] == "no-key"


def test_filters_of_others_damaged_or_in_clear_are_refused() -> None:
    beta = PureAgent(CLINIC, "beta")
    asked = client_policy(CLINIC, "p-doctor").blind.ask("Reading", "pulse > 1")
    bad = [
        asked,  # the doctor's
        AskedFor("", (asked.blind[0][:-1] + b"x",)),
        AskedFor("pulse > 1"),
        AskedFor('ward == "north" && pulse > 1', asked.blind),
        client_policy(clinic(domain="hospital"), "p-nurse").blind.ask("Reading", "pulse > 1"),
    ]
    for each in bad:
        refused = subscribe(beta, "p-nurse", asked=each).refusal
        assert refused is not None
        assert refused.reason == "invalid-filter"
    assert not beta.subscriptions


def test_clients_refuse_filters_that_agents_cannot_answer_and_values_that_do_not_fit() -> None:
    profile = client_policy(CLINIC, "p-doctor").blind
    for text in ("pulse >", "patient == 7", "patient == ward", "unheard == 1"):
        with pytest.raises(InputError):
            profile.ask("Reading", text)
    with pytest.raises(InputError):
        blind_part(CLINIC, "p-device", {**READING, "pulse": 301})


def test_keys_in_the_place_of_others_are_no_policy() -> None:
    ours, theirs = CLINIC.client_content("p-nurse"), CLINIC.client_content("p-doctor")
    bundle = CLINIC.bundle("client:p-nurse", 1)
    for blind in (
        theirs.blind,
        (replace(ours.blind[0], epoch=2),),
        (replace(ours.blind[0], keys=b"none"),),
    ):
        content = replace(ours, blind=blind)
        opened = replace(_opened(bundle), content=content)
        with pytest.raises(RejectedError, match="contradicts itself"):
            build_policy(opened)


def _opened(bundle: Any) -> Any:
    keys = CLINIC.clients["p-nurse"].keys
    identity = Identity("client:p-nurse", keys.sealing, CLINIC.authority.anchors())
    return open_verified(bundle.message, domain="clinic", identity=identity)
