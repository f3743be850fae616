"""What policies may say by value and about advertising, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from adminapp.catalog import services as catalog
from adminapp.core.errors import Invalid
from adminapp.distribution.gather import gather
from adminapp.distribution.plan import rules_for
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import blind, reach, selectors, services, valuerules
from adminapp.policies.kinds import POLICY
from adminapp.policies.language import PolicyConjunction
from adminapp.policies.models import Policy, PolicyVersion
from policyengine.attributes import AttributeType, Literal
from tests.support.control_plane import World

OWN = "where event.carrier is UA"
JFK = "where event.origin is JFK and event.carrier is UA"


def update(world: World, **data: Any) -> Policy:
    return services.update_policy(actor=world.manager, policy=world.policy, data=data)


def create(world: World, name: str, **fields: Any) -> Policy:
    wanted = {"action": "publish", "event_type": "Flight", "expression": "true", **fields}
    domain = wanted.pop("domain", world.flights)
    return services.create_policy(actor=world.operator, domain=domain, name=name, **wanted)


def refused(world: World, **data: Any) -> tuple[str, str, int | None]:
    with pytest.raises(Invalid) as failure:
        update(world, **data)
    found = failure.value.problems[0]
    return found.pointer, found.kind, found.position


def access(world: World, **filters: Any) -> list[tuple[str, str, tuple[str, ...], str]]:
    found = reach.take(world.flights).effective(**filters)
    return [(line.principal, line.type, line.attributes, line.condition) for line in found]


def plain(domain: Domain) -> list[tuple[str, str, tuple[str, ...] | None, int, int]]:
    return [
        (each.name, each.type, each.attributes, each.first, len(each.conjunctions))
        for each in gather(domain).policies
    ]


def rule(attribute: str | None, when: str | None, **more: Any) -> dict[str, Any]:
    return {"attribute": attribute, "when": when, **more}


# -- rules by value --------------------------------------------------------------------------


def test_an_attribute_under_a_condition(world: World) -> None:
    row = update(world, rules=[rule("tail", 'event.origin == "JFK"')])
    assert row.rules == [
        {
            "attribute": "tail",
            "access": "read",
            "when": 'event.origin == "JFK"',
            "otherwise": "drop",
        }
    ]
    assert access(world, principal="United", type="Flight") == [
        ("United", "Flight", ("carrier", "origin"), OWN),
        ("United", "Flight", ("tail",), JFK),
    ]
    assert plain(world.flights) == [
        ("own flights", "Flight", ("carrier", "origin", "delay"), 0, 1),
        ("own flights", "Flight", ("tail",), 1, 1),
    ]
    # Identifiers of rules at an agent stay apart.
    values = {"subject.carrier": "UA", "subject.role.airline": True}
    made = rules_for(gather(world.flights).policies, [values])
    assert [(each.conjunction, each.attributes) for each in made] == [
        (0, ("carrier", "origin", "delay")),
        (1, ("tail",)),
    ]


def test_a_rule_adds_to_a_list_of_attributes(world: World) -> None:
    update(
        world,
        attributes=["carrier"],
        rules=[rule("tail", 'event.origin == "JFK"'), rule("origin", None)],
    )
    assert access(world, principal="United", type="Flight") == [
        ("United", "Flight", ("carrier", "origin"), OWN),
        ("United", "Flight", ("tail",), JFK),
    ]


def test_the_event_as_a_whole_and_what_is_not_to_be_weakened(world: World) -> None:
    update(world, rules=[rule(None, 'event.origin == "JFK"')])
    assert {line[3] for line in access(world, principal="United")} == {JFK}
    update(world, rules=[rule("tail", 'event.origin == "JFK"', otherwise="withhold")])
    # An event that has no tail number has nothing to be kept back.
    assert {line[3] for line in access(world, type="Flight")} == {
        "where event.tail is not given and event.carrier is UA",
        JFK,
    }
    publishing = create(
        world,
        "own departures",
        rules=[rule("tail", 'event.origin == "JFK"', otherwise="super-type")],
    )
    (found,) = valuerules.read(publishing)
    assert found.access == "write"
    ways = [line[3] for line in access(world, action="publish", type="Departure")]
    assert set(ways) == {
        "where event.tail is not given",
        "where event.origin is JFK",
    }
    # Agents have a rule beside these by which it becomes one of a type without a tail number.
    (lowering,) = [each for each in gather(world.flights).policies if each.lowers is not None]
    assert (lowering.lowers, lowering.suppresses) == (("tail",), ())
    assert lowering.attributes == ("carrier", "origin", "delay")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("all", ("/rules", "type", None)),
        ([7], ("/rules/0", "type", None)),
        ([rule("tail", "true")] * 257, ("/rules", "too-large", None)),
        ([rule("tail", "true", wenn="x")], ("/rules/0/wenn", "unknown", None)),
        ([rule("tail", 3)], ("/rules/0/when", "type", None)),
        ([rule("tail", "true", otherwise="burn")], ("/rules/0/otherwise", "unknown", None)),
        ([rule("tail", "true", access="write")], ("/rules/0/access", "invalid", None)),
        ([rule("tial", "true")], ("/rules/0/attribute", "unknown", None)),
        ([rule("delay", "true")], ("/rules/0/attribute", "unknown", None)),
        ([rule("tail", None)], ("/rules/0/when", "invalid", None)),
        ([rule(None, " ")], ("/rules/0/when", "invalid", None)),
        ([rule("tail", "event.origin == ")], ("/rules/0/when", "syntax", 15)),
        ([rule("tail", "event.orign == 1")], ("/rules/0/when", "unknown", 0)),
        ([rule("tail", "event.delay > 1")], ("/rules/0/when", "unknown", None)),
        ([rule(None, "true", otherwise="drop")], ("/rules/0/otherwise", "invalid", None)),
        ([rule("tail", "true", otherwise="super-type")], ("/rules/0/otherwise", "invalid", None)),
        (
            [rule("tail", "!(event.carrier == subject.carrier)")],
            ("/rules/0/when", "gate", None),
        ),
    ],
)
def test_what_rules_may_not_say(
    rules: Any, expected: tuple[str, str, int | None], world: World
) -> None:
    pointer, kind, position = refused(world, rules=rules)
    wanted = expected[2] if kind == "syntax" else None
    assert (pointer, kind) == expected[:2]
    assert wanted is None or position is not None
    assert Policy.objects.get().rules == []


def test_the_gate_asks_what_ciphertexts_can_tell(world: World) -> None:
    """A blind agent finds equality and order in searchable ciphertexts, and no parts of text."""
    row = catalog.create_event_type(
        actor=world.manager,
        domain=world.flights,
        name="Bag",
        attributes=[
            {
                "name": "owner",
                "type": {"type": "string"},
                "pia_class": "identifying",
                "pia_reason": "names a person",
                "protection": {"kind": "searchable", "sealed": True},
            }
        ],
    )
    fields = {"event_type": row, "action": "subscribe"}
    with pytest.raises(Invalid) as failure:
        create(world, "bags", **fields, rules=[rule("owner", 'event.owner startsWith "A"')])
    (problem,) = failure.value.problems
    assert (problem.pointer, problem.kind) == ("/rules/0/when", "gate")
    assert "ciphertexts do not tell how a text begins" in problem.message
    create(world, "bags", **fields, rules=[rule("owner", 'event.owner in ["A", "B"]')])


@pytest.mark.parametrize(
    ("kind", "op", "value", "text", "answered"),
    [
        ("searchable", "==", "A", True, True),
        ("searchable", "!=", "A", True, False),
        ("searchable", "!in", ("A", "B"), True, False),
        ("searchable", "!=", 3, False, True),
        ("searchable", "<", 3, False, True),
        ("searchable", "!endsWith", "A", True, False),
        ("order-preserving", "startsWith", "A", True, True),
        ("order-preserving", "!startsWith", "A", True, False),
        ("order-preserving", "!=", "A", True, True),
        ("attribute key", "!startsWith", "A", True, True),
        ("clear", "endsWith", "A", True, True),
    ],
)
def test_what_each_protection_answers(
    kind: str, op: Any, value: Any, text: bool, answered: bool
) -> None:
    way = PolicyConjunction((), (Literal("event.x", op, value),), ())
    declared = AttributeType("string" if text else "int")
    found = list(blind.unanswered((way,), {"x": kind}, {"event.x": declared}))
    assert (found == []) == answered


def test_versions_of_before_there_were_rules_come_back(world: World) -> None:
    kept = PolicyVersion.objects.get(policy=world.policy, number=1)
    old: Mapping[str, Any] = {k: v for k, v in kept.snapshot.items() if k != "rules"}
    PolicyVersion.objects.filter(pk=kept.pk).update(snapshot=old)
    update(world, rules=[rule("tail", 'event.origin == "JFK"')])
    restored = services.restore_policy_version(actor=world.manager, policy=world.policy, number=1)
    assert restored.rules == []


def test_the_kind_writes_rules_in_full(world: World) -> None:
    short = {
        "name": "x",
        "action": "publish",
        "event_type": "Flight",
        "expression": "true",
        "rules": [{"attribute": "tail", "when": "true"}],
    }
    whole = POLICY.whole(world.flights, short)
    assert whole["rules"] == [
        {"attribute": "tail", "access": "write", "when": "true", "otherwise": "drop"}
    ]
    row = POLICY.create(None, world.flights, "x", whole)
    assert POLICY.document(row) == whole


# -- define and advertise --------------------------------------------------------------------


def test_what_is_about_types_says_nothing_of_events(world: World) -> None:
    for action in ("define", "advertise"):
        for fields, pointer in (
            ({"expression": 'event.origin == "JFK"'}, "/expression"),
            ({"expression": "event.carrier == subject.carrier"}, "/expression"),
            ({"attributes": ["tail"]}, "/attributes"),
            ({"rules": [rule("tail", 'event.origin == "JFK"')]}, "/rules"),
        ):
            with pytest.raises(Invalid) as failure:
                create(world, "x", action=action, **fields)
            assert failure.value.problems[0].pointer == pointer
    with pytest.raises(IntegrityError), transaction.atomic():
        Policy.objects.create(
            domain=world.flights,
            name="x",
            action="shout",
            event_type=world.flight,
            expression="true",
        )


def publishers(world: World, event_type: str) -> tuple[str, ...]:
    return reach.take(world.flights).who("publish", event_type)


def test_whoever_publishes_must_be_able_to_advertise(world: World) -> None:
    create(world, "all publish")
    assert publishers(world, "Flight") == publishers(world, "Departure") == ("JFK", "United")
    adverts = create(world, "airlines", action="advertise", expression='subject.role == "airline"')
    assert publishers(world, "Flight") == publishers(world, "Departure") == ("United",)
    # A policy further down opens its own sub-tree to more.
    create(world, "anybody", action="advertise", event_type="Departure")
    assert publishers(world, "Flight") == ("United",)
    assert publishers(world, "Departure") == ("JFK", "United")
    found = [each for each in plain(world.flights) if each[0] == "all publish"]
    assert [(each[1], each[4]) for each in found] == [("Flight", 1), ("Departure", 2)]
    # One that lapsed is still asked for: nobody can meet it.
    services.update_policy(
        actor=world.manager,
        policy=adverts,
        data={"expression": "env.hour > 23"},
    )
    assert publishers(world, "Flight") == ()
    assert publishers(world, "Departure") == ("JFK", "United")
    services.delete_policy(actor=world.manager, policy=adverts)
    assert publishers(world, "Flight") == ("JFK", "United")


def test_an_advertisement_promises_the_whole_sub_tree(world: World) -> None:
    create(world, "all publish")
    create(
        world,
        "airlines",
        action="advertise",
        event_type="Departure",
        expression='subject.role == "airline"',
    )
    assert publishers(world, "Flight") == publishers(world, "Departure") == ("United",)
    catalog.create_event_type(
        actor=world.manager, domain=world.flights, name="Arrival", parent=world.flight
    )
    assert publishers(world, "Arrival") == ("JFK", "United")


# -- the lineage -----------------------------------------------------------------------------


def test_policies_of_domains_above(world: World) -> None:
    below = identity.create_domain(
        actor=world.operator, name="jfk", title="JFK", parent=world.flights
    )
    origins = [(each.row.name, each.origin) for each in selectors.effective_policies(below)]
    assert origins == [("own flights", "inherited")]
    identity.create_principal(
        actor=world.operator,
        domain=below,
        name="Desk",
        kind="subscriber",
        attributes={"carrier": "UA"},
    )
    services.update_policy(
        actor=world.manager, policy=world.policy, data={"expression": 'subject.carrier == "UA"'}
    )
    assert reach.take(below).who("subscribe", "Departure") == ("Desk",)
    assert [each[0] for each in plain(below)] == ["own flights"]
    own = create(
        world,
        "own flights",
        domain=below,
        action="subscribe",
        event_type="Departure",
        expression='subject.carrier == "AA"',
    )
    assert own.event_type == world.departure  # of the domain above
    origins = [(each.row.name, each.origin) for each in selectors.effective_policies(below)]
    assert origins == [("own flights", "overridden")]
    assert reach.take(below).who("subscribe") == ()
    # With it gone the one above is in force again: that gives, so it is no revocation.
    with pytest.raises(Invalid) as failure:
        create(world, "x", domain=below, event_type="Depature")
    assert failure.value.problems[0].suggestion == "Departure"
    found = services.plan_policy_change(actor=world.operator, domain=below, policy=own)
    assert [line.principal for line in found.gains] == ["Desk", "Desk"]
    services.delete_policy(actor=world.operator, policy=own)
    assert reach.take(below).who("subscribe", "Departure") == ("Desk",)


def test_what_can_only_take_away_waits_for_nobody(world: World) -> None:
    below = identity.create_domain(
        actor=world.operator, name="jfk", title="JFK", parent=world.flights
    )
    adverts = create(world, "adverts", action="advertise")
    hiding = create(world, "own flights", domain=below)
    assert services._only_revokes(world.policy)
    assert not services._only_revokes(adverts)
    assert not services._only_revokes(hiding)


def test_an_inherited_policy_that_no_longer_fits_grants_nothing(world: World) -> None:
    below = identity.create_domain(
        actor=world.operator, name="jfk", title="JFK", parent=world.flights
    )
    catalog.create_subject_attribute(
        actor=world.operator, domain=below, name="carrier", type={"type": "int"}
    )
    assert plain(below) == []
    assert [each[0] for each in plain(world.flights)] == ["own flights"]
