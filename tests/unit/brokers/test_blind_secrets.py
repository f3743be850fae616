"""What agents and brokers learn of events in blind profiles, alone and together."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest

from brokers.adapters.files import SubscriptionFile
from brokers.client.blind import AskedFor
from brokers.client.unknowns import may_be_met
from brokers.data.interests import HeldInterest, Reducer, written
from brokers.data.subscriptions import Subscription
from policyengine.attributes import parse
from policyengine.blind import BlindPart
from policyengine.bundles import (
    Announcement,
    decode_framed,
    open_hop,
    open_publication,
)
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.blind import (
    READING,
    SECRETS,
    blind_part,
    clinic,
    forms_of,
    message_of,
    received,
    subscribe,
)
from tests.support.pure_agents import (
    NOW,
    PureAgent,
    agent_snapshot,
    client_policy,
    deliveries,
    hops,
)

CLINIC = clinic()


# what agents see


def _assert_free(data: bytes) -> None:
    for secret in SECRETS:
        for form in forms_of(secret):
            assert form not in data


def test_agents_see_no_hidden_value_and_no_filter_over_one(tmp_path: Path) -> None:
    alpha, beta = PureAgent(CLINIC, "alpha"), PureAgent(CLINIC, "beta")
    sent = message_of(CLINIC, blind_part(CLINIC, "p-device", READING), "alpha")
    text = 'patient == "Alice Asphodel" || (ward == "north" && trial == "trial-zeta")'
    subscribed = subscribe(beta, "p-doctor", text)
    _assert_free(json.dumps([one.__dict__ for one in subscribed.subscribed]).encode())
    effects = alpha.client_message(sent)
    hop = hops(effects.outgoing)["beta"]
    delivered = beta.hop(hop)
    assert received(CLINIC, delivered)["p-doctor"][0].attributes["patient"] == SECRETS[0]
    # What passes the broker, and the same opened with all keys that agents have.
    for message in (*effects.outgoing, *subscribed.outgoing, *delivered.outgoing):
        _assert_free(message.body)
    _assert_free(sent)
    keys = CLINIC.agents["alpha"].keys.sealing
    part = open_publication(decode_framed(sent)[1], key=keys, agent="alpha").part
    routed = open_hop(
        hop,
        hop_keys=beta.snapshot.opening_overlay_keys(),
        verify=lambda name: CLINIC.agents[name].keys.signing.public,
    )
    for seen in (part, routed, *deliveries(CLINIC, delivered.outgoing)["p-doctor"]):
        document = repr(seen.to_json()).encode()
        assert b"north" in document  # the search finds what is there
        _assert_free(document)
        _assert_free(seen.blind)
    # What it keeps.
    file = SubscriptionFile(tmp_path / "subscriptions.json")
    file.save(subscribed.subscribed)
    _assert_free((tmp_path / "subscriptions.json").read_bytes())
    assert file.load() == subscribed.subscribed


def test_the_request_itself_holds_no_filter_over_what_is_hidden() -> None:
    policy = client_policy(CLINIC, "p-doctor")
    asked = policy.blind.ask("Reading", 'ward == "north" && patient == "Alice Asphodel"')
    assert asked.clear == 'ward == "north"'
    _assert_free(b"".join(asked.blind))
    either = policy.blind.ask("Reading", 'ward == "north" || patient == "Alice Asphodel"')
    assert either.clear == ""
    assert policy.blind.ask("Reading", 'ward == "north"') == AskedFor('ward == "north"')


def test_equal_values_cannot_be_told_by_tags_or_ciphertexts() -> None:
    one, two = (
        blind_part(CLINIC, "p-device", READING, identifier=name * 32) for name in ("a", "b")
    )
    first, second = (BlindPart.from_bytes(each.blind) for each in (one, two))
    assert not {s.data for s in first.values.sealed} & {s.data for s in second.values.sealed}
    # Tags: of what is in clear, and of the one test that a policy makes of what is hidden.
    policy = client_policy(CLINIC, "p-device")
    shown = policy.tags("a", {"ward": "north"}, "Reading")[1]
    alarming = policy.tags("a", {"ward": "north", "pulse": 121}, "Reading")[1]
    assert set(one.tags) == set(alarming)
    assert len(alarming) == len(shown) + 1
    calm = policy.tags("a", {**READING, "pulse": 120}, "Reading")[1]
    assert set(calm) == set(shown)


@pytest.mark.parametrize("colluding", list(permutations(["alpha", "beta", "gamma"], 2)))
def test_agents_that_put_all_their_keys_together_open_nothing(colluding: tuple[str, str]) -> None:
    """Paper 004: parts of an event travel over two overlays whose agents collude."""
    organisation = clinic(
        splits={
            "Reading": [
                {"overlay": "a", "attributes": ["ward", "patient"]},
                {"overlay": "b", "attributes": ["pulse", "trial"]},
            ]
        }
    )
    parts = [blind_part(organisation, "p-device", READING, part=number) for number in (0, 1)]
    agents = [PureAgent(organisation, name) for name in ("alpha", "gamma")]
    routed = []
    for part, agent in zip(parts, agents, strict=True):
        effects = agent.client_message(message_of(organisation, part, agent.name))
        assert effects.refusal is None
        routed.append(part)
        _assert_free(repr(part.to_json()).encode() + part.blind)
    shares = [
        share
        for name in colluding
        for share in agent_snapshot(organisation, name).blind[1].shares.values()
    ]
    values = [BlindPart.from_bytes(part.blind).values for part in routed]
    group = shares[0].search.system.arithmetic
    public = agent_snapshot(organisation, "alpha").blind[1].public
    # No share, and no two of them, make up the exponent of the second lock: h = g^z.
    for one in shares:
        assert group.encode(group.generated(one.share)) != public.lock
        for two in shares:
            together = (one.share + two.share) % group.order
            assert group.encode(group.generated(together)) != public.lock
    # And the first lock asks for tokens that no agent has: the capsule opens for clients alone.
    assert all(each.capsules for each in values)


# routing


def test_an_agent_that_cannot_read_a_filter_forwards() -> None:
    alpha, beta = agent_snapshot(CLINIC, "alpha"), agent_snapshot(CLINIC, "beta")

    def told(text: str) -> HeldInterest:
        asked = client_policy(CLINIC, "p-doctor").blind.ask("Reading", text)
        kept = Subscription("clinic", "p-doctor", "s", "Reading", asked.clear, "kept")
        wanted = Reducer().wanted(beta, [kept])
        announcement = Announcement(
            domain="clinic", overlay="a", agent="beta", to="alpha", number=1, issued=int(NOW),
            expires=int(NOW) + 600, scope=("Reading", "EcgReading"),
            interests=written(beta, wanted, random=SYSTEM_RANDOM), asks=False,
        )  # fmt: skip
        _assert_free(repr(announcement.to_json()).encode())
        return HeldInterest.read(alpha, announcement)

    def forwarded(held: HeldInterest, ward: str) -> bool:
        return held.may_want("Reading", lambda: {"ward": ward}, whole=True)

    blind = told('patient == "Alice Asphodel"')
    assert forwarded(blind, "north")
    assert forwarded(blind, "south")
    both = told('ward == "north" && patient == "Alice Asphodel"')
    assert forwarded(both, "north")
    assert not forwarded(both, "south")
    either = told('ward == "north" || patient == "Alice Asphodel"')
    assert forwarded(either, "south")


# what nobody reads


@pytest.mark.parametrize(
    ("text", "possible"),
    [
        ('trial == "x"', True),
        ('!(trial == "x")', True),
        ('trial == "x" && ward == "south"', False),
        ('trial == "x" || ward == "south"', True),
        ('!(trial == "x" || ward == "north")', False),
        ('atLeast(2, [ward == "north", trial == "x", pulse > 500])', True),
        ('atLeast(2, [ward == "south", trial == "x", pulse > 500])', False),
        ('!(atLeast(2, [ward == "north", trial == "x", has(ward)]))', False),
        ("patient == trial", True),
        ("patient == ward", False),
    ],
)
def test_a_filter_over_what_nobody_reads_may_be_met(text: str, possible: bool) -> None:
    schema = {**client_policy(CLINIC, "p-doctor").types.schema("Reading")}
    schema["pulse"] = type(schema["pulse"])("int", 0, 1000)
    expression = parse(text, schema, joins=True)
    assert may_be_met(expression, {"ward": "north", "patient": "P", "pulse": 3}, ["trial"]) == (
        possible
    )
