"""Who can open a hidden attribute is who the policies' text lets read it: random small domains."""

from __future__ import annotations

from functools import lru_cache

from hypothesis import given, settings
from hypothesis import strategies as st

from adminapp.distribution.blindplan import BlindPlan
from adminapp.distribution.plan import PlainDomain, PlainPolicy, PlainSubject
from adminapp.policies.grants import advertising, all_grants
from adminapp.policies.models import Policy
from policyengine.attributes import Value
from policyengine.blind import (
    BlindDelivery,
    BlindMaster,
    BlindPart,
    Context,
    DeliveryOpener,
    EventSealer,
    finish_part,
    predecrypt,
)
from policyengine.bundles import read_policy
from policyengine.events import AttributeSpec, TypeSpec
from policyengine.primitives.rand import SeededRandom
from tests.property.test_policy_grants import (
    LANGUAGE,
    TYPES,
    domains,
    events,
    subjects,
    wanted,
)

DECLARED = {
    name: {spec.name for spec in TYPES.attributes(name)}
    - {spec.name for above in TYPES.ancestors(name) for spec in TYPES.attributes(above)}
    for name in TYPES.names
}
CONTEXT = Context("0" * 32, 0)
Event = tuple[str, dict[str, Value]]
Crowd = list[dict[str, Value]]


def hidden(name: str) -> TypeSpec:
    """A type with everything hidden that it declares."""
    line = TYPES.ancestors(name)
    specs = [spec for spec in TYPES.attributes(name) if spec.name in DECLARED[name]]
    made = [AttributeSpec(s.name, s.type, blind="searchable", sealed=True) for s in specs]
    return TypeSpec(name, line[0] if line else None, tuple(made))


def plan(rows: list[Policy], crowd: Crowd) -> BlindPlan:
    found = all_grants(rows, LANGUAGE, advertising(rows, LANGUAGE, rows))
    return BlindPlan(
        PlainDomain(
            id=1,
            name="org",
            revision=1,
            lease_seconds=30,
            types=tuple(hidden(name).to_json() for name in TYPES.names),
            families={
                name: frozenset({name, *TYPES.ancestors(name), *TYPES.subtree(name)})
                for name in TYPES.names
            },
            policies=tuple(
                PlainPolicy(
                    id=number,
                    name=each.policy.name,
                    action=each.policy.action,
                    type=each.root,
                    attributes=each.attributes,
                    conjunctions=each.conjunctions,
                    first=each.first,
                )
                for number, each in enumerate(found)
            ),
            subjects=tuple(
                PlainSubject(f"p-{number}", "subscriber", (values,), {"a": "alpha"}, b"", b"")
                for number, values in enumerate(crowd)
            ),
            agents=(),
            wraps=(),
            splits={},
        )
    )


def readable(rows: list[Policy], event: Event, subject: dict[str, Value]) -> set[str]:
    """What the text of the policies lets somebody read."""
    kind, values = event
    return wanted(rows, "subscribe", kind, values, subject) or set()


@settings(max_examples=120, deadline=None)
@given(domains(), events(), st.lists(subjects(), min_size=1, max_size=3))
def test_tokens_meet_read_policies_as_the_text_says(
    rows: list[Policy], event: Event, crowd: Crowd
) -> None:
    kind, values = event
    made = plan(rows, crowd)
    policies = {name: read_policy(terms, values) for name, terms in made.terms[kind].items()}
    assert set(values) <= set(policies)
    for number, subject in enumerate(crowd):
        variants = made.readers.get(f"p-{number}", ())
        found = {n for n in values if any(policies[n].permits(held) for held in variants)}
        assert found == readable(rows, event, subject)


@lru_cache
def master() -> BlindMaster:
    return BlindMaster.init(SeededRandom(b"readers"), domain="org", epoch=1)


@settings(max_examples=12, deadline=None)
@given(domains(), events(), st.lists(subjects(), min_size=2, max_size=2))
def test_nobody_opens_more_with_all_that_it_was_given(
    rows: list[Policy], event: Event, crowd: Crowd
) -> None:
    """The agent lets everything through, so that keys alone decide."""
    kind, values = event
    made = plan(rows, crowd)
    random = SeededRandom(repr((kind, sorted(values.items()))).encode())
    keys, share = master().enrol("p-publisher", [], random)
    policies = {name: read_policy(terms, values) for name, terms in made.terms[kind].items()}
    sealer = EventSealer(master().public(), keys, random=random)
    sent = BlindPart.from_bytes(sealer.seal(CONTEXT, values, {}, policies).to_bytes())
    routed = finish_part(share, sent, set(values))
    for number, subject in enumerate(crowd):
        variants = made.readers.get(f"p-{number}", ())
        own, half = master().enrol(f"p-{number}", variants, random)
        delivery = predecrypt(half, routed, set(values))
        opened = {}
        if delivery is not None:
            arrived = BlindDelivery.from_bytes(delivery.to_bytes())
            opened = DeliveryOpener(own).open(arrived, CONTEXT)[0]
        may = readable(rows, event, subject)
        assert opened == {name: values[name] for name in may}
        # With another's half it opens nothing at all.
        if delivery is not None:
            wrong = predecrypt(share, routed, set(values))
            assert wrong is not None
            assert DeliveryOpener(own).open(wrong, CONTEXT)[0] == {}
