"""What pages show: progress by acknowledgements alone, and what a broker sees."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from adminapp.distribution import selectors, services, upkeep
from adminapp.distribution.models import Bundle
from adminapp.identity import services as identity
from adminapp.identity.models import Domain
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from tests.support.audiences import Plane


def test_progress_counts_acknowledgements_and_nothing_else(plane: Plane, heating: Domain) -> None:
    plane.work()
    heating.refresh_from_db()
    found = selectors.domain_progress(heating)
    assert (found.agents, found.applied, found.behind) == (2, 0, ("alpha", "beta"))
    plane.audiences["agent:beta"].deaf = True
    plane.settle()
    found = selectors.domain_progress(heating)
    assert (found.applied, found.behind) == (1, ("beta",))


def test_agent_rows_show_only_domains_that_the_reader_sees(
    plane: Plane, compiled_heating: Domain
) -> None:
    plane.lease_all()
    manager = identity.create_user(actor=None, username="manager")
    stranger = identity.create_user(actor=None, username="stranger")
    identity.set_membership(actor=None, user=manager, domain=compiled_heating, role="manager")
    rows = {row.name: row for row in selectors.agent_rows(manager)}
    assert [entry.domain for entry in rows["alpha"].domains] == ["heating"]
    assert rows["alpha"].leased
    assert {entry.state for entry in rows["alpha"].domains} == {"current"}
    assert selectors.agent_rows(stranger) == []


def test_the_broker_view_sets_encodings_beside_plain_text(
    plane: Plane, compiled_heating: Domain
) -> None:
    view = selectors.broker_view(Policy.objects.get(name="AP_A"))
    assert view.epoch == 1
    assert 0 < view.false_positive < 2**-60
    by_agent = {agent.agent: agent for agent in view.agents}
    assert set(by_agent) == {"alpha", "beta"}
    assert len(by_agent["alpha"].rules) == 4
    for rule in by_agent["alpha"].rules:
        assert 'subject.type=="individual"' in rule.subject_tokens
        assert len(rule.event_tags) == len(rule.event_tokens) == 1
        assert (rule.grants, rule.clients) == (1, 5)
        assert rule.size > 0
    assert any("nothing across agents" in leak for leak in view.leaks)


def test_the_broker_view_before_the_first_compile_is_empty(heating: Domain) -> None:
    view = selectors.broker_view(Policy.objects.get(name="AP_B"))
    assert (view.epoch, view.agents) == (None, ())
    assert view.expression


def test_old_bundles_go_and_the_newest_stays(plane: Plane, compiled_heating: Domain) -> None:
    policies.update_policy(
        actor=None, policy=Policy.objects.get(name="AP_B"), data={"title": "new"}
    )
    plane.settle()
    newest = {
        (bundle.audience, bundle.revision)
        for bundle in Bundle.objects.order_by("revision")
        if not Bundle.objects.filter(
            audience=bundle.audience, revision__gt=bundle.revision
        ).exists()
    }
    assert services.prune() == 0
    upkeep.prune(timezone.now() + timedelta(days=3))
    assert set(Bundle.objects.values_list("audience", "revision")) == newest
