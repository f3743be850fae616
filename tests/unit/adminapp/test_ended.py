"""By which policies a loss was had: against what each policy alone gives, over drawn models."""

from __future__ import annotations

import numpy as np
import pytest

from adminapp.catalog import services as catalog
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import reach
from adminapp.policies import services as policies
from adminapp.policies.ended import ended, giving
from adminapp.policies.reach import Reach

pytestmark = pytest.mark.django_db
WORDS = ("red", "blue")
TYPES = ("Heat", "Alarm")
EXPRESSIONS = (
    'subject.colour == "red"',
    'subject.colour == "blue" || subject.level > 3',
    "subject.level > 5",
    "subject.colour == event.colour",
    'subject.colour == "red" && event.size > 4',
    "subject.level > 2 || event.size > 9",
    "true",
)


def model(rng: np.random.Generator) -> Domain:
    domain = identity.create_domain(actor=None, name=f"d{rng.integers(10**9)}", title="D")
    text, number = {"type": "string"}, {"type": "int", "min": 0, "max": 9}
    for name, kind in (("colour", text), ("level", number)):
        catalog.create_subject_attribute(actor=None, domain=domain, name=name, type=kind)
    for name in TYPES:
        catalog.create_event_type(
            actor=None, domain=domain, name=name,
            attributes=[{"name": "colour", "type": text}, {"name": "size", "type": number}],
        )  # fmt: skip
    for place in range(4):
        policies.create_policy(
            actor=None, domain=domain, name=f"policy {place}", action="subscribe",
            event_type=TYPES[rng.integers(2)],
            expression=EXPRESSIONS[rng.integers(len(EXPRESSIONS))],
        )  # fmt: skip
    for place in range(5):
        identity.create_principal(
            actor=None, domain=domain, name=f"P{place}", kind="subscriber",
            attributes={"colour": WORDS[rng.integers(2)], "level": int(rng.integers(10))},
        )  # fmt: skip
    return domain


def take_away(domain: Domain, rng: np.random.Generator) -> None:
    for row in domain.principals.all():
        for name in ("colour", "level"):
            if rng.integers(2):
                identity.withdraw_attribute(actor=None, principal=row, name=name)
                row.refresh_from_db()


def alone(state: Reach) -> dict[tuple[str, str, str], set[object]]:
    """What each policy by itself gives: (handle, type, policy) -> conditions by attribute."""
    found: dict[tuple[str, str, str], set[object]] = {}
    for policy in {grant.rule.policy for grant in state.grants}:
        for line in state.effective(action="subscribe", policy=policy):
            slot = found.setdefault((line.handle, line.type, policy), set())
            slot |= {(name, line.condition) for name in line.attributes}
    return found


@pytest.mark.parametrize("seed", range(8))
def test_what_ended_is_told_by_policy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    domain = model(rng)
    before = reach.take(domain)
    take_away(domain, rng)
    domain.refresh_from_db()
    after = reach.take(domain)
    losses = reach.compare(before, after).losses
    lost = {(line.handle, line.type) for line in losses}
    old, new = alone(before), alone(after)
    wholly, partly = set(), set()
    for found in ended(before, after, losses):
        assert (found.action, found.agreement) == ("subscribe", 0)
        wholly |= {(handle, found.type, found.policy) for handle in found.wholly}
        partly |= {(handle, found.type, found.policy) for handle in found.partly}
        held = set(found.wholly) | set(found.partly)
        given = giving(after, "subscribe", found.type, found.policy, sorted(held))
        assert given == set(found.partly)
    assert wholly == {place for place in old if place[:2] in lost and place not in new}
    changed = {
        place
        for place, had in old.items()
        if place[:2] in lost and place in new and had != new[place]
    }
    # With joins it may be less, which is said of policies that give as much too.
    assert changed <= partly <= {place for place in old if place[:2] in lost and place in new}
