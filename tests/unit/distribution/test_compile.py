"""Who gets what: bundles opened with the audiences' keys, against plain evaluation."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from adminapp.distribution import compile as compiling
from adminapp.distribution import epochs, services
from adminapp.distribution.contents import Snapshot
from adminapp.distribution.gather import gather
from adminapp.distribution.models import Bundle, EncodedItem, EncodingEpoch
from adminapp.identity.models import Domain, Principal
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from policyengine.anonset import Parameters, match, tags
from policyengine.attributes import AttributeType, evaluate, parse, tokens_of
from policyengine.attributes.tokens import Predicate
from policyengine.bundles.model import AgentContent, ClientContent, EncodedRule, EpochContent
from policyengine.trustgroups import open_wrap
from tests.support.audiences import Audience, Plane

SCHEMAS = {
    "flights": {
        "subject.type": "string",
        "subject.airport": "string",
        "subject.carrier": "string",
        "event.carrier": "string",
        "event.origin": "string",
        "event.dest": "string",
        "event.delay": "int",
        "event.hour": "int",
    },
    "heating": {
        "subject.type": "string",
        "subject.consumer": "string",
        "subject.service": "string",
        "event.consumer": "string",
    },
}
FLIGHTS = [
    {"carrier": carrier, "origin": origin, "dest": "IAH", "hour": 5, **delay}
    for carrier, origin, delay in itertools.product(
        ("UA", "AA", "F9"), ("JFK", "EWR"), ({"delay": 2}, {"delay": 121}, {})
    )
]


def oracle(domain: Domain, action: str, principal: Principal, event: dict[str, Any]) -> set[str]:
    """Policies that permit it, by evaluating their text; nothing of the compiler is used."""
    schema = {name: AttributeType(kind) for name, kind in SCHEMAS[domain.name].items()}
    values = {f"subject.{name}": value for name, value in principal.attributes.items()}
    values |= {f"event.{name}": value for name, value in event.items()}
    return {
        f"policy-{policy.pk}"
        for policy in Policy.objects.filter(domain=domain, action=action, enabled=True)
        if evaluate(parse(policy.expression, schema, joins=True), values)
    }


def granted(
    content: AgentContent, action: str, handle: str, event_tags: frozenset[bytes]
) -> set[str]:
    """Policies whose rules an agent finds satisfied, with what it holds and nothing else."""
    epoch = current(content)
    parameters = Parameters.from_json(epoch.parameters)
    subject = next(s for s in epoch.subjects if s.handle == handle)

    def holds(rule: EncodedRule) -> bool:
        return set(rule.event_tags) <= event_tags and any(
            match(rule.encoded, encoded, parameters).granted for encoded in subject.encoded
        )

    return {rule.policy for rule in epoch.rules if rule.action == action and holds(rule)}


def current(content: AgentContent) -> EpochContent:
    return next(epoch for epoch in content.epochs if epoch.state == "current")


def event_tags(content: ClientContent, overlay: str, event: dict[str, Any]) -> frozenset[bytes]:
    """The tags that a publisher's client makes."""
    key = next(k for k in content.tag_keys if k.overlay == overlay and k.state == "current")
    predicates = [Predicate.from_json(item) for item in content.predicates]
    values = {f"event.{name}": value for name, value in event.items()}
    return tags(key.key, tokens_of(values, predicates))


def home(plane: Plane, principal: Principal, overlay: str = "a") -> Audience:
    agent = principal.homes.get(overlay__name=overlay).agent.name
    return plane.audiences[f"agent:{agent}"]


def compare(
    plane: Plane,
    domain: Domain,
    action: str,
    publisher: Principal,
    events: list[dict[str, Any]],
    overlays: tuple[str, ...] = ("a",),
) -> int:
    """Assert that agents decide as the oracle does; returns how many grants there were."""
    client = plane.audiences[f"client:{publisher.handle}"].content(domain.name)
    grants = 0
    asked = [publisher] if action == "publish" else list(domain.principals.all())
    for principal, event, overlay in itertools.product(asked, events, overlays):
        content = home(plane, principal, overlay).agent(domain.name)
        found = granted(content, action, principal.handle, event_tags(client, overlay, event))
        assert found == oracle(domain, action, principal, event), (principal.name, event, overlay)
        grants += bool(found)
    return grants


@pytest.mark.parametrize("encoding", ["bloom", "tokens"])
def test_airlines_receive_what_plain_evaluation_gives_them(
    plane: Plane, flights: Domain, encoding: str
) -> None:
    Domain.objects.filter(pk=flights.pk).update(encoding=encoding)
    plane.settle()
    publisher = Principal.objects.get(name="jfk")
    grants = compare(plane, flights, "subscribe", publisher, FLIGHTS, ("a", "b"))
    # UA and AA their own six each, the authority those with 121 minutes, on both overlays.
    assert grants == 2 * (6 + 6 + 6)


def test_a_compiler_reads_again_when_another_one_opened_the_first_epoch(flights: Domain) -> None:
    read_before = Snapshot(domain=gather(flights), epochs=(), notices={})
    epochs.open_first(flights, tokens=4)
    assert compiling._make_room(read_before)
    read_again = Snapshot(domain=gather(flights), epochs=tuple(epochs.live(flights)), notices={})
    assert read_again.epochs
    assert not compiling._make_room(read_again)


def test_airports_publish_only_what_leaves_from_them(
    plane: Plane, compiled_flights: Domain
) -> None:
    for name in ("jfk", "ewr", "lga"):
        publisher = Principal.objects.get(name=name)
        compare(plane, compiled_flights, "publish", publisher, FLIGHTS, ("a", "b"))


def test_customers_receive_their_own_home_and_nothing_else(
    plane: Plane, compiled_heating: Domain
) -> None:
    gateway = Principal.objects.get(name="meter-gateway")
    homes = [{"consumer": f"X-{number}"} for number in (104211, 118834, 999999)]
    assert compare(plane, compiled_heating, "subscribe", gateway, [*homes, {}]) > 0


def test_an_agent_gets_only_its_own_clients_and_their_values(
    plane: Plane, compiled_heating: Domain
) -> None:
    for name in ("alpha", "beta"):
        content = plane.audiences[f"agent:{name}"].agent("heating")
        local = {
            principal.handle
            for principal in compiled_heating.principals.all()
            if principal.homes.get().agent.name == name
        }
        epoch = current(content)
        assert {client.handle for client in content.clients} == local
        assert {subject.handle for subject in epoch.subjects} == local
        own = Policy.objects.get(name="AP_A")
        bound = [rule for rule in epoch.rules if rule.policy == f"policy-{own.pk}"]
        customers = [
            p for p in compiled_heating.principals.all() if p.handle in local and "X-" in p.name
        ]
        assert len(bound) == len(customers) == 4


def test_no_plain_value_stands_in_what_an_agent_matches(
    plane: Plane, compiled_heating: Domain
) -> None:
    content = plane.audiences["agent:alpha"].agent("heating")
    # As bytes, not in the letters that they travel in: those spell a short word by chance.
    epoch = repr(current(content))
    for word in ("X-104211", "individual", "datamining", "consumer", "AP_A"):
        assert word not in epoch


def test_overlays_and_agents_share_no_tag_and_no_encoding(
    plane: Plane, compiled_flights: Domain
) -> None:
    agents = {
        name: current(plane.audiences[f"agent:{name}"].agent("flights"))
        for name in ("alpha", "beta", "gamma")
    }
    seen = {
        name: {rule.encoded for rule in epoch.rules} | {s.encoded[0] for s in epoch.subjects}
        for name, epoch in agents.items()
    }
    for first, second in itertools.combinations(seen, 2):
        assert not seen[first] & seen[second]
    marks = {name: {t for rule in e.rules for t in rule.event_tags} for name, e in agents.items()}
    assert marks["alpha"] & marks["beta"]
    assert not marks["alpha"] & marks["gamma"]


def test_keys_go_to_the_members_of_their_trust_group(
    plane: Plane, compiled_flights: Domain
) -> None:
    opened: dict[str, dict[str, bytes]] = {}
    for name in ("alpha", "beta", "gamma"):
        audience = plane.audiences[f"agent:{name}"]
        opened[name] = {
            wrap.group: open_wrap(wrap, audience.sealing, audience=audience.address)
            for wrap in audience.agent("flights").wraps
        }
    assert set(opened["alpha"]) == set(opened["beta"]) == {"key:airframe", "overlay:a"}
    assert set(opened["gamma"]) == {"overlay:b"}
    assert opened["alpha"] == opened["beta"]


def test_only_publishers_hold_tag_keys(plane: Plane, compiled_flights: Domain) -> None:
    for principal in compiled_flights.principals.all():
        content = plane.audiences[f"client:{principal.handle}"].content("flights")
        publishes = principal.kind == "publisher"
        assert bool(content.tag_keys) is publishes
        assert bool(content.publishes) is publishes
        assert {h.overlay for h in content.homes} == {"a", "b"}


def test_encodings_that_did_not_change_stay_byte_for_byte(
    plane: Plane, compiled_flights: Domain
) -> None:
    before = dict(EncodedItem.objects.values_list("pk", "encoded"))
    policies.update_policy(
        actor=None,
        policy=Policy.objects.get(name="long delays"),
        data={"expression": 'subject.type == "authority" && event.delay > 60'},
    )
    plane.settle()
    after = dict(EncodedItem.objects.values_list("pk", "encoded"))
    # The subject's side is the same; only the event's tag changed.
    assert after == before
    compare(plane, compiled_flights, "subscribe", Principal.objects.get(name="jfk"), FLIGHTS)


def test_a_change_reaches_agents_and_spares_clients_it_does_not_concern(
    plane: Plane, compiled_flights: Domain
) -> None:
    airline = plane.audiences[f"client:{Principal.objects.get(name='UA').handle}"]
    held = airline.bundles["flights"].digest
    policies.create_policy(
        actor=None,
        domain=compiled_flights,
        name="early",
        action="subscribe",
        event_type="Arrival",
        expression='subject.type == "airline" && event.hour < 6',
    )
    plane.settle()
    compiled_flights.refresh_from_db()
    assert airline.bundles["flights"].digest == held
    agent = plane.audiences["agent:alpha"]
    assert agent.bundles["flights"].header.revision == compiled_flights.revision
    publisher = plane.audiences[f"client:{Principal.objects.get(name='jfk').handle}"]
    assert len(publisher.content("flights").predicates) == 2


def test_bundles_follow_what_was_acknowledged_and_stand_alone_otherwise(
    plane: Plane, compiled_heating: Domain
) -> None:
    alpha = plane.audiences["agent:alpha"]
    first = alpha.bundles["heating"]
    policy = Policy.objects.get(name="AP_B")
    policies.update_policy(actor=None, policy=policy, data={"title": "one"})
    plane.settle()
    second = alpha.bundles["heating"]
    assert second.header.previous == first.digest
    # Two changes on their way at once: the later one may not build on the earlier.
    for title in ("two", "three"):
        policies.update_policy(actor=None, policy=policy, data={"title": title})
        policy.refresh_from_db()
        services.compile_domain(compiled_heating.pk)
    plane.settle()
    compiled_heating.refresh_from_db()
    assert alpha.bundles["heating"].header.revision == compiled_heating.revision
    assert alpha.refusals == []


def test_an_agent_that_lost_its_state_is_brought_back(
    plane: Plane, compiled_heating: Domain
) -> None:
    alpha = plane.audiences["agent:alpha"]
    alpha.forget()
    plane.lease_all()
    plane.settle()
    compiled_heating.refresh_from_db()
    assert alpha.bundles["heating"].header.revision == compiled_heating.revision
    assert alpha.bundles["heating"].header.previous == ""


def test_older_bundles_are_superseded_and_never_sent(plane: Plane, heating: Domain) -> None:
    services.compile_domain(heating.pk)
    policies.update_policy(
        actor=None, policy=Policy.objects.get(name="AP_B"), data={"title": "new"}
    )
    plane.settle()
    heating.refresh_from_db()
    states = set(
        Bundle.objects.filter(audience="agent:alpha", revision__lt=heating.revision).values_list(
            "state", flat=True
        )
    )
    assert states == {"superseded"}
    assert plane.sent.count("pc.control.agent.alpha") == 1


def test_compiling_twice_makes_nothing_new(plane: Plane, heating: Domain) -> None:
    services.compile_domain(heating.pk)
    before = list(Bundle.objects.values_list("pk", "digest"))
    services.compile_domain(heating.pk)
    assert list(Bundle.objects.values_list("pk", "digest")) == before
    assert EncodingEpoch.objects.filter(domain=heating).count() == 1


def test_a_banned_agent_gets_nothing_and_is_named_to_nobody(plane: Plane, flights: Domain) -> None:
    from adminapp.identity import services as identity
    from adminapp.identity.models import Agent

    plane.settle()
    identity.set_agent_state(actor=None, agent=Agent.objects.get(name="beta"), state="banned")
    plane.settle()
    flights.refresh_from_db()
    assert not Bundle.objects.filter(audience="agent:beta", revision=flights.revision).exists()
    names = {agent.name for agent in plane.audiences["agent:alpha"].agent("flights").agents}
    assert names == {"alpha"}
