"""Another alias for an attribute, ordered by a person: what it touches, and that nobody loses."""

from __future__ import annotations

import pytest

from adminapp.audit.models import Entry
from adminapp.core.errors import Forbidden, Invalid
from adminapp.distribution import aliases, epochs
from adminapp.distribution.models import EncodedItem, EncodingEpoch, RecomputeJob
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain
from tests.support.audiences import Plane
from tests.unit.distribution.test_guests import EVENT, OPENED, Town
from tests.unit.distribution.test_recompute_scopes import domain, grants, rows

__all__ = ["domain"]


def burn(domain: Domain, attribute: str) -> RecomputeJob:
    return aliases.burn(actor=None, domain=domain, attribute=attribute, reason="it was seen")


def test_what_is_foreseen_is_what_is_done_and_nobody_gains_or_loses(
    plane: Plane, domain: Domain
) -> None:
    listed = {each.attribute: each for each in aliases.aliases(domain)}
    assert {"service", "type", "consumer"} <= set(listed)
    assert all(each.policies and each.burnt == 0 for each in listed.values())
    before, granted = rows(), {name: grants(plane, name) for name in ("alpha", "beta")}
    found = aliases.foresee(actor=None, domain=domain, attribute="service")
    assert rows() == before
    assert found.encodings + found.kept == len(before)
    assert 0 < found.encodings < len(before)
    assert sum(one.clients + one.rules for one in found.agents) == found.encodings
    job = burn(domain, "subject.service")
    assert (job.scope, job.targets, job.cause) == (
        "attribute", {"attributes": ["subject.service"]}, "alias",
    )  # fmt: skip
    plane.settle()
    job.refresh_from_db()
    assert (job.state, job.rows_total) == ("done", found.encodings)
    after = rows()
    changed = {place for place in before if after[place] != before[place]}
    assert len(changed) == found.encodings
    assert {name: grants(plane, name) for name in granted} == granted
    # Agents hold it: the new revision brought it, and the epoch stays.
    held = plane.audiences["agent:alpha"].agent("heating").epochs[-1]
    assert {rule.encoded for rule in held.rules} <= {
        bytes(row.encoded) for row in EncodedItem.objects.all()
    }
    assert [epoch.number for epoch in epochs.live(domain)] == [1]
    assert {each.attribute: each.burnt for each in aliases.aliases(domain)}["service"] == 1
    assert aliases.foresee(actor=None, domain=domain, attribute="service").burnt == 1
    entry = Entry.objects.get(action="alias.burnt")
    assert entry.domain_name == "heating"
    # Two orders before a run begins are one run.
    first, second = burn(domain, "service"), burn(domain, "type")
    assert first == second
    plane.settle()
    burnt = {each.attribute: each.burnt for each in aliases.aliases(domain)}
    assert (burnt["service"], burnt["type"], burnt["consumer"]) == (2, 1, 0)
    assert Entry.objects.filter(action="alias.burnt").count() == 3


def test_guests_names_of_the_same_attribute_get_another_alias_too(plane: Plane) -> None:
    town = Town(plane)
    town.permit("officers", 'subject.role == "officer"')
    row = town.agree()
    plane.settle()
    assert town.received(**EVENT)["chief"] == OPENED
    job = burn(town.police, "role.officer")
    assert job.targets["attributes"] == [
        f"subject.agreement.a{row.pk}.role.officer", "subject.role.officer",
    ]  # fmt: skip
    plane.settle()
    job.refresh_from_db()
    assert (job.state, job.rows_total > 2) == ("done", True)
    found = town.received(**EVENT)
    assert found["chief"] == OPENED
    assert "officer" in found
    assert "cook" not in found


def test_what_cannot_be_burnt_is_refused_and_nothing_is_ordered(domain: Domain) -> None:
    stranger = identity.create_user(actor=None, username="stranger")
    with pytest.raises(Forbidden):
        aliases.burn(actor=stranger, domain=domain, attribute="service", reason="envy")
    with pytest.raises(Forbidden):
        aliases.foresee(actor=stranger, domain=domain, attribute="service")
    with pytest.raises(Invalid, match="why"):
        aliases.burn(actor=None, domain=domain, attribute="service", reason=" ")
    for nothing in ("", "subject.", "nothing", "subject.agreement.none"):
        with pytest.raises(Invalid, match="no policy tests"):
            burn(domain, nothing)
    Agent.objects.update(state="banned")
    with pytest.raises(Invalid, match="no agent holds"):
        burn(domain, "service")
    EncodingEpoch.objects.update(state="retired")
    with pytest.raises(Invalid, match="nothing of this domain is encoded"):
        burn(domain, "service")
    assert not RecomputeJob.objects.exists()
