"""How often a publisher may publish, in the bundles that agents get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adminapp.policies.models import Policy
from adminapp.policies.services import update_policy
from policyengine.bundles import RateLimit
from tests.unit.distribution.test_compile import current, home

if TYPE_CHECKING:
    from adminapp.identity.models import Domain
    from tests.support.audiences import Plane


def test_agents_hold_the_limit_of_every_rule_of_the_policy(plane: Plane, flights: Domain) -> None:
    row = Policy.objects.filter(domain=flights, action="publish").first()
    assert row is not None

    def limits() -> set[RateLimit | None]:
        agent = home(plane, flights.principals.get(name="jfk"))
        rules = current(agent.agent("flights")).rules
        return {rule.limit for rule in rules if rule.policy == f"policy-{row.pk}"}

    plane.settle()
    assert limits() == {None}
    data = {"limit_count": 3, "limit_seconds": 60}
    row = update_policy(actor=None, policy=row, data=data)
    plane.settle()
    assert limits() == {RateLimit(f"policy-{row.pk}", 3, 60)}
    update_policy(actor=None, policy=row, data={"limit_count": None, "limit_seconds": None})
    plane.settle()
    assert limits() == {None}
