"""The data path as pure functions, against policies read as plain text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokers.data.handle import Effects, handle_client_message
from brokers.data.subscriptions import MOST_SUBSCRIPTIONS, Subscription
from brokers.snapshot import NO_RULES, index_of
from policyengine.bundles import (
    SubscribeRequest,
    encode_framed,
    open_hop,
    seal_hop,
    seal_subscribe,
)
from policyengine.primitives.rand import SYSTEM_RANDOM
from tests.support.data_plane import Organisation, airport
from tests.support.pure_agents import (
    NOW,
    PureAgent,
    client_policy,
    deliveries,
    hops,
    publication,
    replies,
)

FLIGHT: dict[str, Any] = {"carrier": "UA", "origin": "EWR", "delay": 130, "tail": "N14228"}
ORGANISATION = airport()
READERS = ("p-ua", "p-dl", "p-faa", "p-nobody")


def _agents(organisation: Organisation = ORGANISATION) -> dict[str, PureAgent]:
    agents = {name: PureAgent(organisation, name) for name in ("alpha", "beta")}
    for handle in READERS:
        agents[organisation.clients[handle].homes["a"]].subscribe(handle, "Flight")
    return agents


AGENTS = _agents()

VALUES = st.fixed_dictionaries(
    {},
    optional={
        "carrier": st.sampled_from(["UA", "DL", "AA"]),
        "origin": st.sampled_from(["EWR", "JFK"]),
        "delay": st.sampled_from([-5, 0, 119, 120, 121, 500]),
        "tail": st.sampled_from(["N1", "N2"]),
    },
)


@given(
    values=VALUES,
    kind=st.sampled_from(["Flight", "Departure"]),
    publisher=st.sampled_from(["p-airport", "p-kiosk"]),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_subscriber_gets_exactly_what_the_plain_policies_say(
    values: dict[str, Any], kind: str, publisher: str
) -> None:
    for agent in AGENTS.values():
        agent.seen.clear()
    home = ORGANISATION.clients[publisher].homes["a"]
    other = {"alpha": "beta", "beta": "alpha"}[home]
    effects = AGENTS[home].client_message(publication(ORGANISATION, publisher, kind, values))
    writable = ORGANISATION.writable(publisher, kind, values)
    reply = replies(ORGANISATION, effects.outgoing)[publisher][0]
    if writable is None:
        assert (reply.ok, reply.reason) == (False, "not-authorised")
        assert deliveries(ORGANISATION, effects.outgoing) == {}
        assert hops(effects.outgoing) == {}
        return
    assert reply.ok
    assert set(reply.dropped) == set(values) - writable
    outgoing = [*effects.outgoing]
    for name, body in hops(effects.outgoing).items():
        assert name == other
        outgoing += AGENTS[name].hop(body).outgoing
    got = deliveries(ORGANISATION, outgoing)
    written = {name: value for name, value in values.items() if name in writable}
    for handle in READERS:
        # Whether a rule is met is decided on the whole event, what is read on what is left.
        readable = ORGANISATION.readable(handle, kind, values)
        if readable is None:
            assert handle not in got
            continue
        (delivery,) = got[handle]
        assert delivery.attributes == {n: v for n, v in written.items() if n in readable}
        hidden = set(written) - readable
        assert delivery.withheld == dict.fromkeys(hidden, "not-permitted")


def _reason(agent: PureAgent, body: bytes) -> str:
    effects = agent.client_message(body)
    assert effects.refusal is not None
    assert effects.seen == ()
    assert deliveries(agent.organisation, effects.outgoing) == {}
    assert hops(effects.outgoing) == {}
    return effects.refusal.reason


def _sent(handle: str = "p-airport", kind: str = "Flight", **changes: Any) -> bytes:
    values = changes.pop("values", FLIGHT)
    return publication(ORGANISATION, handle, kind, values, **changes)


def test_refusals_say_why_and_the_publisher_is_told() -> None:
    alpha = _agents()["alpha"]
    cases = {
        "unknown-type": _sent(type="Zeppelin"),
        "signature": _sent(signer="p-ua"),
        "not-authorised": _sent("p-ua"),
        "stale": _sent(issued=NOW - 3601),
        "epoch-unknown": _sent(epoch=2),
        "epoch-retired": _sent(epoch=0),
    }
    for reason, body in cases.items():
        assert _reason(alpha, body) == reason
    for body in (_sent(issued=NOW + 500), _sent(issued=0)):
        assert _reason(alpha, body) == "stale"
    for change in (
        {"overlay": "b"},
        {"domain": "heating"},
        {"attributes": {"carrier": 5}},
        {"attributes": {"delay": 10**6}},
        {"attributes": {"unheard-of": "x"}},
    ):
        assert _reason(alpha, _sent(**change)) == "malformed"
    effects = alpha.client_message(_sent(type="Zeppelin"))
    (reply,) = replies(ORGANISATION, effects.outgoing)["p-airport"]
    assert (reply.ok, reply.reason, reply.request) == (False, "unknown-type", "0" * 32)
    assert effects.refusal is not None
    assert effects.refusal.answered


def test_what_cannot_be_answered_goes_aside() -> None:
    alpha = _agents()["alpha"]
    foreign = _sent("p-kiosk", agent="alpha")  # at home at beta
    effects = alpha.client_message(foreign)
    assert effects.refusal is not None
    assert (effects.refusal.reason, effects.refusal.answered) == ("unknown-publisher", False)
    for body in (b"", b"x" * 50, encode_framed("publication", b"x"), encode_framed("reply", b"")):
        effects = alpha.client_message(body)
        assert effects.outgoing == ()
        assert effects.refusal is not None
        assert (effects.refusal.reason, effects.refusal.answered) == ("malformed", False)
    # Sealed to another agent: nobody else can open it.
    assert _reason(_agents()["beta"], _sent()) == "malformed"


def test_a_malformed_value_is_not_quoted_in_the_reply() -> None:
    effects = _agents()["alpha"].client_message(_sent(attributes={"delay": 987654321}))
    (reply,) = replies(ORGANISATION, effects.outgoing)["p-airport"]
    assert "delay" in reply.message
    assert "987654321" not in reply.message


def test_the_revoked_neither_give_nor_get() -> None:
    agents = _agents()
    alpha, beta = agents["alpha"], agents["beta"]
    alpha.snapshot = replace(alpha.snapshot, denied=frozenset({"p-ua"}))
    effects = alpha.client_message(_sent())
    assert set(deliveries(ORGANISATION, effects.outgoing)) == set()
    assert set(deliveries(ORGANISATION, beta.hop(hops(effects.outgoing)["beta"]).outgoing)) == {
        "p-faa"
    }
    alpha.snapshot = replace(alpha.snapshot, denied=frozenset({"p-airport"}))
    assert _reason(alpha, _sent(identifier="1" * 32)) == "revoked"
    # beta denies the publisher already, alpha did not yet: nothing of it is delivered.
    beta.snapshot = replace(beta.snapshot, denied=frozenset({"p-airport"}))
    alpha.snapshot = replace(alpha.snapshot, denied=frozenset())
    body = hops(alpha.client_message(_sent(identifier="2" * 32)).outgoing)["beta"]
    effects = beta.hop(body)
    assert effects.refusal is not None
    assert (effects.refusal.reason, effects.outgoing) == ("revoked", ())


def test_doubles_are_answered_and_not_handled_again() -> None:
    agents = _agents()
    first = agents["alpha"].client_message(_sent("p-airport", values=FLIGHT))
    again = agents["alpha"].client_message(_sent("p-airport", values=FLIGHT))
    assert deliveries(ORGANISATION, again.outgoing) == hops(again.outgoing) == {}
    assert replies(ORGANISATION, again.outgoing)["p-airport"][0].ok
    assert again.counts == (("duplicates", 1),)
    body = hops(first.outgoing)["beta"]
    assert agents["beta"].hop(body).outgoing
    assert agents["beta"].hop(body).outgoing == ()
    # Another publisher that uses the same identifier takes nothing away.
    other = agents["beta"].client_message(_sent("p-kiosk", "Departure", values={"gate": "A"}))
    assert replies(ORGANISATION, other.outgoing)["p-kiosk"][0].ok
    assert other.seen


def test_hops_are_verified() -> None:
    agents = _agents()
    body = hops(agents["alpha"].client_message(_sent()).outgoing)["beta"]
    # Back at its origin.
    effects = agents["alpha"].hop(body)
    assert effects.refusal is not None
    assert effects.refusal.reason == "own-event"
    routed = open_hop(
        body,
        hop_keys={1: ORGANISATION.overlay_key("a", 1)},
        verify=lambda name: ORGANISATION.agents[name].keys.signing.public,
    )

    def sealed(key: bytes, signer: str, key_epoch: int = 1, **changes: Any) -> bytes:
        return seal_hop(
            replace(routed, **changes),
            signing_key=ORGANISATION.agents[signer].keys.signing,
            hop_key=key,
            epoch=key_epoch,
            random=SYSTEM_RANDOM,
        )

    right = ORGANISATION.overlay_key("a", 1)
    beta = agents["beta"]
    refused = {
        "signature": sealed(right, "gamma"),
        "malformed": sealed(b"k" * 32, "alpha"),
        "epoch-retired": sealed(right, "alpha", epoch=0),
        "stale": sealed(right, "alpha", issued=int(NOW) - 4000),
    }
    for reason, message in refused.items():
        effects = beta.hop(message)
        assert effects.refusal is not None, reason
        assert (effects.refusal.reason, effects.outgoing) == (reason, ())
    assert beta.hop(sealed(right, "alpha", overlay="b")).refusal is not None
    # Of a key before those that are held none will come: nothing behind it waits for that.
    newer = beta.snapshot.overlay_keys[1]
    beta.snapshot = replace(beta.snapshot, overlay_keys={3: replace(newer, epoch=3)})
    late = beta.hop(sealed(right, "alpha"))
    assert late.hold == ""
    assert late.refusal is not None
    assert late.refusal.reason == "epoch-retired"
    beta.snapshot = replace(beta.snapshot, overlay_keys={1: newer})
    # What a newer policy would lift is held, not refused.
    for message, reason in (
        (sealed(right, "alpha", key_epoch=9), "epoch"),
        (sealed(right, "alpha", epoch=9), "epoch-unknown"),
        (sealed(right, "alpha", type="Zeppelin"), "unknown-type"),
        (sealed(right, "gamma", origin="gamma"), "unknown-agent"),
    ):
        effects = beta.hop(message)
        assert (effects.hold, effects.refusal, effects.outgoing) == (reason, None, ())


def test_a_staged_epoch_is_not_matched_in_and_a_draining_one_is() -> None:
    organisation = airport()
    organisation.epochs = {1: "draining", 2: "current", 3: "staged"}
    organisation.key_states = {1: "current"}
    agents = _agents(organisation)

    def body(epoch: int, identifier: str) -> bytes:
        key = organisation.tag_key("a", epoch)
        policy = client_policy(organisation, "p-airport")
        named = replace(policy.tag_keys["a"], epoch=epoch, key=key)
        tags = replace(policy, tag_keys={"a": named}).tags("a", FLIGHT)[1]
        return publication(
            organisation, "p-airport", "Flight", FLIGHT,
            identifier=identifier, epoch=epoch, tags=tags,
        )  # fmt: skip

    for epoch in (1, 2):
        effects = agents["alpha"].client_message(body(epoch, f"{epoch}" * 32))
        assert set(deliveries(organisation, effects.outgoing)) == {"p-ua"}
    effects = agents["alpha"].client_message(body(3, "3" * 32))
    assert effects.refusal is not None
    assert effects.refusal.reason == "epoch-unknown"


def test_tags_of_one_epoch_never_meet_rules_of_another() -> None:
    organisation = airport()
    organisation.epochs = {1: "draining", 2: "current"}
    agents = _agents(organisation)
    policy = client_policy(organisation, "p-airport")
    assert policy.tags("a", FLIGHT)[0] == 2
    of_two = policy.tags("a", FLIGHT)[1]
    body = publication(organisation, "p-airport", "Flight", FLIGHT, epoch=1, tags=of_two)
    effects = agents["alpha"].client_message(body)
    # Admitted (the publish rule needs no tag), but no subscribe rule with tags is met.
    assert deliveries(organisation, effects.outgoing) == {}


def test_an_agent_without_the_key_withholds_and_never_shows() -> None:
    organisation = airport()
    organisation.key_holders = {"tail-key": ("alpha",)}
    agents = _agents(organisation)
    effects = agents["alpha"].client_message(
        publication(organisation, "p-airport", "Flight", FLIGHT)
    )
    body = hops(effects.outgoing)["beta"]
    assert b"N14228" not in body
    (near,) = deliveries(organisation, effects.outgoing)["p-ua"]
    assert near.attributes["tail"] == "N14228"
    (far,) = deliveries(organisation, agents["beta"].hop(body).outgoing)["p-faa"]
    assert far.attributes == {"carrier": "UA", "delay": 130}
    assert far.withheld == {"origin": "not-permitted", "tail": "no-key"}


def test_without_the_key_the_home_agent_drops_what_it_cannot_protect() -> None:
    organisation = airport()
    organisation.key_holders = {"tail-key": ("beta",)}
    agents = _agents(organisation)
    effects = agents["alpha"].client_message(
        publication(organisation, "p-airport", "Flight", FLIGHT)
    )
    assert replies(organisation, effects.outgoing)["p-airport"][0].dropped == ("tail",)
    (near,) = deliveries(organisation, effects.outgoing)["p-ua"]
    assert "tail" not in {**near.attributes, **near.withheld}


def test_without_the_overlay_key_an_event_is_refused_rather_than_half_delivered() -> None:
    organisation = airport()
    organisation.key_states = {1: "retired"}
    assert _reason(
        _agents(organisation)["alpha"], publication(organisation, "p-airport", "Flight", FLIGHT)
    ) == "no-key"  # fmt: skip


def test_filters_see_only_what_their_subscriber_may_read() -> None:
    organisation = airport()
    filters = {
        'delay > 125 && carrier == "UA"': True,
        "delay > 130": False,
        'origin == "EWR"': False,  # may not be read: absent
        "!has(origin)": True,
        'tail == "N14228"': True,
    }
    for text, met in filters.items():
        beta = PureAgent(organisation, "beta")
        beta.subscribe("p-faa", "Flight", text)
        alpha = PureAgent(organisation, "alpha")
        effects = alpha.client_message(publication(organisation, "p-airport", "Flight", FLIGHT))
        got = deliveries(organisation, beta.hop(hops(effects.outgoing)["beta"]).outgoing)
        assert ("p-faa" in got) is met, text


def test_a_subscription_covers_its_sub_types_and_several_add_up() -> None:
    alpha = PureAgent(ORGANISATION, "alpha")
    alpha.subscribe("p-ua", "Departure", 'gate == "X"')
    effects = alpha.client_message(_sent(kind="Departure"))
    assert deliveries(ORGANISATION, effects.outgoing) == {}
    alpha.subscribe("p-ua", "Flight", "delay > 0")
    effects = alpha.client_message(_sent(kind="Departure", identifier="1" * 32))
    assert len(deliveries(ORGANISATION, effects.outgoing)["p-ua"]) == 1
    alpha.subscriptions.append(Subscription("flights", "p-ua", "gone", "Zeppelin", ""))
    assert len(alpha.bench().subscriptions.broken) == 1


def _request(action: str = "subscribe", **changes: Any) -> bytes:
    made: dict[str, Any] = {
        "domain": "flights",
        "client": "p-ua",
        "request": "a" * 32,
        "subscription": "mine",
        "action": action,
        "type": "Flight",
        "filter": "delay > 5",
        "issued": int(NOW),
    }
    signer = changes.pop("signer", "p-ua")
    sealed = seal_subscribe(
        SubscribeRequest(**{**made, **changes}),
        signing_key=ORGANISATION.clients[signer].keys.signing,
        recipient=ORGANISATION.agents["alpha"].keys.sealing.public,
        agent="alpha",
    )
    return encode_framed("subscribe", sealed)


def test_subscriptions_begin_and_end() -> None:
    alpha = PureAgent(ORGANISATION, "alpha")
    effects = alpha.client_message(_request())
    assert effects.subscribed == (Subscription("flights", "p-ua", "mine", "Flight", "delay > 5"),)
    assert replies(ORGANISATION, effects.outgoing)["p-ua"][0].ok
    again = alpha.client_message(_request())
    assert again.subscribed == ()
    assert replies(ORGANISATION, again.outgoing)["p-ua"][0].ok
    effects = alpha.client_message(_request("unsubscribe", request="b" * 32))
    assert effects.unsubscribed == (("flights", "p-ua", "mine"),)


def test_wrong_subscriptions_are_refused() -> None:
    alpha = PureAgent(ORGANISATION, "alpha")
    for reason, change in {
        "unknown-type": {"type": "Zeppelin"},
        "invalid-filter": {"filter": "delay >"},
        "signature": {"signer": "p-dl"},
        "unknown-client": {"client": "p-dl", "signer": "p-dl"},
        "stale": {"issued": 5},
        "malformed": {"domain": "heating"},
    }.items():
        effects = alpha.client_message(_request(**change))
        assert effects.refusal is not None
        assert effects.refusal.reason == reason
        assert effects.subscribed == effects.seen == ()
    alpha.snapshot = replace(alpha.snapshot, denied=frozenset({"p-ua"}))
    effects = alpha.client_message(_request())
    assert effects.refusal is not None
    assert effects.refusal.reason == "revoked"


def test_no_client_has_more_subscriptions_than_there_is_room_for() -> None:
    alpha = PureAgent(ORGANISATION, "alpha")
    for _ in range(MOST_SUBSCRIPTIONS - 1):
        alpha.subscribe("p-ua", "Flight", "delay > 5")
    # All in one batch, before any of it is in force.
    bench = alpha.bench()

    def ask(number: int, **changes: Any) -> Effects:
        named = {"subscription": f"new{number}", **changes}
        return handle_client_message(bench, _request(request=f"{number:032x}", **named))

    assert ask(1).subscribed
    refused = ask(2)
    assert refused.refusal is not None
    assert refused.refusal.reason == "too-many-subscriptions"
    assert refused.subscribed == refused.seen == ()
    assert "at most 1000" in replies(ORGANISATION, refused.outgoing)["p-ua"][0].message
    assert ask(3, subscription="new1", filter="delay > 6").subscribed  # in its own place
    assert ask(4, subscription="s0", action="unsubscribe").unsubscribed
    assert ask(5).subscribed
    assert ask(6).refusal is not None
    # Another client has room of its own.
    assert ask(7, client="p-nobody", signer="p-nobody").subscribed


def test_a_clients_filters_have_a_bound_together() -> None:
    alpha = PureAgent(ORGANISATION, "alpha")
    alpha.subscriptions = [
        Subscription("flights", "p-ua", f"s{n}", "Flight", "x" * 65_536) for n in range(63)
    ]
    effects = alpha.client_message(_request(filter=f'carrier == "{"x" * 60_000}"'))
    assert effects.subscribed
    alpha.subscriptions.append(*effects.subscribed)
    effects = alpha.client_message(
        _request(filter=f'carrier == "{"x" * 60_000}"', subscription="more", request="c" * 32)
    )
    assert effects.refusal is not None
    assert effects.refusal.reason == "too-many-subscriptions"


def test_parts_of_a_split_event_are_decided_alike_on_every_overlay() -> None:
    parts = [
        {"overlay": "a", "attributes": ["carrier"]},
        {"overlay": "b", "attributes": ["origin", "tail"]},
    ]
    organisation = airport(splits={"Flight": parts})
    alpha, gamma = PureAgent(organisation, "alpha"), PureAgent(organisation, "gamma")
    for handle in READERS:
        gamma.subscribe(handle, "Flight", "delay > 1000")  # a filter for the client alone
    alpha.subscribe("p-ua", "Flight")
    first = alpha.client_message(publication(organisation, "p-airport", "Departure", FLIGHT))
    second = gamma.client_message(
        publication(organisation, "p-airport", "Departure", FLIGHT, part=1)
    )
    (one,) = deliveries(organisation, first.outgoing)["p-ua"]
    assert (one.part, one.parts, one.attributes) == (0, 2, {"carrier": "UA", "delay": 130})
    got = deliveries(organisation, second.outgoing)
    # The late flight's delay travels on overlay a; gamma decides by tags all the same.
    assert set(got) == {"p-ua", "p-faa"}
    assert got["p-ua"][0].attributes == {"origin": "EWR", "tail": "N14228"}
    assert got["p-faa"][0].attributes == {"tail": "N14228"}
    assert got["p-faa"][0].withheld == {"origin": "not-permitted"}


def test_a_whole_event_is_no_part_of_one() -> None:
    parts = [
        {"overlay": "a", "attributes": ["carrier"]},
        {"overlay": "b", "attributes": ["origin", "tail"]},
    ]
    organisation = airport(splits={"Departure": parts})
    alpha = PureAgent(organisation, "alpha")
    sent = publication(organisation, "p-airport", "Departure", FLIGHT)
    assert alpha.client_message(sent).refusal is None
    # Made by the client of an organisation in which more is split, or split otherwise.
    more = replace(organisation, splits={"Flight": parts})
    flight = publication(more, "p-airport", "Flight", FLIGHT, identifier="2" * 32)
    assert _reason(alpha, flight) == "stale"
    fewer = [{"overlay": "a", "attributes": ["origin"]}, {"overlay": "b", "attributes": ["tail"]}]
    departure = publication(
        replace(organisation, splits={"Departure": fewer}),
        "p-airport", "Departure", FLIGHT, identifier="3" * 32,
    )  # fmt: skip
    assert _reason(alpha, departure) == "stale"
    # A bundle of an earlier release does not say what is split.
    alpha.snapshot = replace(alpha.snapshot, splits=None)
    assert alpha.client_message(flight).refusal is None


@pytest.mark.parametrize("handle", READERS)
def test_a_delivery_opens_for_its_client_alone(handle: str) -> None:
    effects = _agents()["alpha"].client_message(_sent())
    framed = [message for message in effects.outgoing if message.queue == "pc.deliver.p-ua"]
    assert len(framed) == 1
    if handle != "p-ua":
        stolen = replace(framed[0], queue=f"pc.deliver.{handle}")
        with pytest.raises(Exception, match="does not open"):
            deliveries(ORGANISATION, [stolen])


def _with_rules(agent: PureAgent, **changed: dict[str, Any]) -> None:
    """Change rules of the agent's snapshot by policy, as a newer bundle would."""
    epoch = agent.snapshot.epochs[1]
    rules = {
        (changed.get(rule.policy, {}).get("action", action), kind, rule.policy): replace(
            rule, **{k: v for k, v in changed.get(rule.policy, {}).items() if k != "action"}
        )
        for (action, kind), index in epoch.rules.items()
        for rule in (*index.always, *(one for found in index.by_tag.values() for one in found))
    }
    indexed: dict[tuple[str, str], list[Any]] = {}
    for (action, kind, _), rule in rules.items():
        indexed.setdefault((action, kind), []).append(rule)
    held = {place: index_of(found) for place, found in indexed.items()}
    epochs = {**agent.snapshot.epochs, 1: replace(epoch, rules=held)}
    agent.snapshot = replace(agent.snapshot, epochs=epochs)


def test_the_place_of_a_suppressed_attribute_is_kept_for_those_who_may_read_it() -> None:
    agents = _agents()
    alpha, beta = agents["alpha"], agents["beta"]
    written = frozenset({"carrier", "delay"})
    _with_rules(
        alpha, **{"airports-publish": {"attributes": written, "suppresses": frozenset({"tail"})}}
    )
    _with_rules(beta, late={"attributes": frozenset({"tail"}), "suppresses": frozenset({"delay"})})
    effects = alpha.client_message(_sent())
    (reply,) = replies(ORGANISATION, effects.outgoing)["p-airport"]
    assert reply.dropped == ("origin", "tail")
    outgoing = [*effects.outgoing, *beta.hop(hops(effects.outgoing)["beta"]).outgoing]
    got = deliveries(ORGANISATION, outgoing)
    assert got["p-ua"][0].attributes == {"carrier": "UA", "delay": 130}
    assert got["p-ua"][0].withheld == {"tail": "condition"}
    # Of what it may not read it learns nothing more, but for what its own rule suppresses.
    assert got["p-faa"][0].attributes == {}
    assert got["p-faa"][0].withheld == {
        "carrier": "not-permitted", "delay": "condition", "tail": "condition"
    }  # fmt: skip


def test_a_lowered_event_reaches_subscribers_of_the_super_type_alone() -> None:
    organisation = airport()
    agents = _agents(organisation)
    beta = agents["beta"]
    # The kiosk may publish departures only as flights, and flights it may publish.
    _with_rules(beta, **{"kiosk-publish": {"action": "lower", "lowers": frozenset({"gate"})}})
    epoch = beta.snapshot.epochs[1]
    (lowering,) = epoch.index("lower", "Departure").always
    permitting = index_of([replace(lowering, lowers=None, attributes=None)])
    rules = {**epoch.rules, ("publish", "Flight"): permitting, ("publish", "Departure"): NO_RULES}
    epochs = {1: replace(epoch, rules=rules)}
    beta.snapshot = replace(beta.snapshot, epochs=epochs)
    beta.subscriptions.clear()
    beta.subscribe("p-dl", "Departure")
    beta.subscribe("p-faa", "Flight")
    values = {"carrier": "DL", "delay": 130, "gate": "A1"}
    effects = beta.client_message(publication(organisation, "p-kiosk", "Departure", values))
    (reply,) = replies(organisation, effects.outgoing)["p-kiosk"]
    assert (reply.ok, reply.dropped) == (True, ("gate",))
    got = deliveries(organisation, effects.outgoing)
    assert set(got) == {"p-faa"}
    assert (got["p-faa"][0].type, got["p-faa"][0].attributes) == (
        "Flight", {"carrier": "DL", "delay": 130}
    )  # fmt: skip


def test_what_a_rule_that_has_ended_decided_waits_for_the_next_policy() -> None:
    agents = _agents()
    alpha, beta = agents["alpha"], agents["beta"]
    end = int(NOW) + 10
    for agent in (alpha, beta):
        _with_rules(agent, **{"airports-publish": {"until": end + 5}, "own-ua": {"until": end}})
    effects = alpha.client_message(_sent())
    assert "p-ua" in deliveries(ORGANISATION, effects.outgoing)
    # An event that meets no rule which has ended goes on.
    alpha.now = beta.now = end
    (hop,) = [one for one in effects.outgoing if one.queue.startswith("pc.hop.")]
    assert not beta.hop(hop.body).hold
    held = alpha.client_message(_sent(identifier="5" * 32))
    assert held == Effects(hold="policy-ended")
    _with_rules(alpha, **{"own-ua": {"until": end + 20}})
    assert not alpha.client_message(_sent(identifier="5" * 32)).hold
    # Who publishes by a rule that has ended waits too, and somebody else does not.
    alpha.now = end + 5
    assert alpha.client_message(_sent(identifier="6" * 32)).hold == "policy-ended"
    _with_rules(alpha, **{"airports-publish": {"until": 0}})
    effects = alpha.client_message(_sent(identifier="6" * 32))
    assert "p-ua" in deliveries(ORGANISATION, effects.outgoing)
