"""What is shown about propagation: signed acknowledgements; who lies or is silent is shown so."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adminapp.audit.models import Entry
from adminapp.console import agents as console
from adminapp.console import words
from adminapp.distribution import history, selectors, services
from adminapp.distribution.models import Bundle, Enforcement, Recipient
from adminapp.distribution.upkeep import prune
from adminapp.identity import services as identity
from adminapp.identity.models import Agent, Domain, User
from policyengine.bundles import messages
from tests.support.audiences import Audience, Plane
from tests.support.kept_planes import PlaneKeeper
from tests.unit.distribution.conftest import loaded, patient


@pytest.fixture
def heating(compiled_heating: Domain) -> Domain:
    return patient(compiled_heating)


@pytest.fixture
def fresh(plane: Plane, planes: PlaneKeeper) -> Domain:
    """Nothing is compiled yet."""
    return patient(loaded(plane, planes, "heating"))


def shown(domain: Domain, agent: str) -> tuple[str, int]:
    """What the pages say of one agent."""
    (held,) = [
        each
        for each in console.holdings(User(is_superuser=True, is_active=True))
        if each.agent.name == agent and each.entry.domain == domain.name
    ]
    return held.state, held.entry.revision


def claim(audience: Audience, domain: str, revision: int, digest: str) -> bytes:
    """A lease request, properly signed, of somebody who says what is not so."""
    held = {
        domain: {"revision": revision, "digest": digest, "notice": 0, "epochs": {"1": "current"}}
    }
    request = messages.LeaseRequest(
        audience=audience.address,
        nonce="ab" * 16,
        held=held,
        at=int(timezone.now().timestamp()),
    )
    return messages.sign_lease_request(request, audience.signing).encode()


def ack_of(audience: Audience, domain: str, revision: int, digest: str) -> bytes:
    """An acknowledgement, properly signed, of a bundle that it applied, as it says."""
    ack = messages.Acknowledgement(
        audience=audience.address,
        domain=domain,
        what="bundle",
        number=revision,
        digest=digest,
        status="applied",
        reason="",
        at=int(timezone.now().timestamp()),
        held={domain: {"revision": revision, "digest": digest, "notice": 0, "epochs": {}}},
    )
    return messages.sign_ack(ack, audience.signing).encode()


@pytest.fixture
def behind(plane: Plane, heating: Domain) -> Audience:
    """Beta is at the first revision, the domain is further: beta hears nothing more."""
    plane.settle()
    plane.lease_all()
    beta = plane.audiences["agent:beta"]
    beta.deaf = True
    services.resume_after_loss(by=1)
    plane.settle()
    heating.refresh_from_db()
    return beta


def test_an_honest_agent_is_shown_as_it_says(plane: Plane, heating: Domain) -> None:
    plane.settle()
    plane.lease_all()
    heating.refresh_from_db()
    assert shown(heating, "alpha") == ("current", heating.revision)
    found = selectors.domain_progress(heating)
    assert (found.applied, found.behind, found.silent, found.contradicting) == (2, (), (), ())


@pytest.mark.parametrize("how", [claim, ack_of])
@pytest.mark.parametrize("lie", ["wrong digest", "higher revision", "another's digest"])
def test_a_lying_agent_is_shown_as_such(
    plane: Plane, heating: Domain, behind: Audience, how: Any, lie: str
) -> None:
    mine = Bundle.objects.get(audience="agent:beta", revision=heating.revision)
    theirs = Bundle.objects.get(audience="agent:alpha", revision=heating.revision)
    revision, digest = {
        "wrong digest": (heating.revision, "0" * 64),
        "higher revision": (heating.revision + 7, mine.digest),
        "another's digest": (heating.revision, theirs.digest),
    }[lie]
    plane.receive(how(behind, "heating", revision, digest))
    assert shown(heating, "beta")[0] == "contradicts"
    found = selectors.domain_progress(heating)
    assert (found.applied, found.behind) == (1, ("beta",))
    assert found.contradicting == ("beta",)
    mine.refresh_from_db()
    assert mine.state != Bundle.State.APPLIED
    told = Enforcement.objects.filter(audience="agent:beta").last()
    assert told is not None
    assert (told.revision, told.digest, told.proven) == (revision, digest, False)
    (entry,) = Entry.objects.filter(action="acknowledgement.contradicted")
    assert (entry.object_id, entry.after["revision"]) == ("agent:beta", revision)
    # It goes on saying so: neither is it believed by and by, nor does the audit fill up.
    plane.receive(how(behind, "heating", revision, digest))
    assert shown(heating, "beta")[0] == "contradicts"
    assert Entry.objects.filter(action="acknowledgement.contradicted").count() == 1


def test_a_liar_that_applies_what_it_got_is_believed_again(
    plane: Plane, heating: Domain, behind: Audience
) -> None:
    plane.receive(claim(behind, "heating", heating.revision, "0" * 64))
    assert shown(heating, "beta")[0] == "contradicts"
    behind.deaf = False
    plane.settle()
    assert shown(heating, "beta") == ("current", heating.revision)
    proofs = Enforcement.objects.filter(audience="agent:beta").values_list("proven", flat=True)
    assert list(proofs) == [True, False, True]


def test_a_liar_holds_up_a_rollout_as_one_that_is_not_there(
    plane: Plane, heating: Domain, behind: Audience
) -> None:
    from adminapp.distribution import rollouts

    rollout = rollouts.begin(domain=heating, cause="encoding")
    assert rollout is not None
    plane.settle()
    rollout.refresh_from_db()
    plane.receive(claim(behind, "heating", rollout.stage_revision, "0" * 64))
    services.advance_domain(heating.pk)
    rollout.refresh_from_db()
    assert rollout.state == "staging"
    assert rollout.members.get(audience="agent:beta").staged_at is None


def test_a_silent_agent_is_shown_as_such(plane: Plane, heating: Domain) -> None:
    plane.settle()
    plane.lease_all()
    heating.refresh_from_db()
    gone = timezone.now() - timedelta(minutes=2)
    Recipient.objects.filter(audience="agent:beta").update(leased_until=gone)
    assert shown(heating, "beta") == ("silent", heating.revision)
    found = selectors.domain_progress(heating)
    assert (found.applied, found.silent) == (1, ("beta",))


def test_an_agent_nobody_ever_heard_of_waits(plane: Plane, fresh: Domain) -> None:
    plane.audiences["agent:beta"].deaf = True
    plane.settle()
    assert shown(fresh, "beta") == ("waiting", 0)
    assert selectors.domain_progress(fresh).silent == ("beta",)


def test_what_was_sealed_anew_proves_as_well_as_before(
    plane: Plane, fresh: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bundle was made again after it was applied: what is held bears the digest before."""
    plane.settle()
    plane.lease_all()
    alpha = plane.audiences["agent:alpha"]
    fresh.refresh_from_db()
    Recipient.objects.filter(audience="agent:alpha").update(revision=0, digest="")
    bundle = Bundle.objects.get(audience="agent:alpha", revision=fresh.revision)
    # Bundles say to the second when they were made: within one second both would be the same.
    later = timezone.now() + timedelta(seconds=2)
    with monkeypatch.context() as clock:
        clock.setattr(timezone, "now", lambda: later)
        services.rebuild([bundle.pk])
    another = Bundle.objects.get(pk=bundle.pk)
    assert another.digest != bundle.digest
    plane.receive(alpha.lease_request())
    assert shown(fresh, "alpha") == ("current", fresh.revision)


def test_the_history_outlives_bundles_and_ends_after_its_period(
    plane: Plane, heating: Domain, settings: Any
) -> None:
    plane.settle()
    services.resume_after_loss(by=1)
    plane.settle()
    told = list(history.entries().filter(audience="agent:alpha"))
    assert [row.revision for row in told] == sorted({row.revision for row in told})
    assert all(row.proven for row in told)
    later = timezone.now() + timedelta(days=30)
    prune(later)
    assert Bundle.objects.filter(audience="agent:alpha").count() == 1
    assert history.entries().filter(audience="agent:alpha").count() == len(told) >= 2
    # An agent that comes back with what it held then is no liar.
    first = told[0]
    row = Recipient.objects.get(audience=first.audience, domain=heating)
    held = {"revision": first.revision, "digest": first.digest}
    assert history.proven(row, held, history.built([(row, held)]))
    lie = {**held, "digest": "0" * 64}
    assert not history.proven(row, lie, history.built([(row, lie)]))
    prune(timezone.now() + timedelta(days=settings.ENFORCEMENT_DAYS + 1))
    (left,) = history.entries().filter(audience="agent:alpha")
    assert left.pk == told[-1].pk


def test_lanes_are_drawn_from_what_was_signed(plane: Plane, fresh: Domain) -> None:
    now = timezone.now()
    Recipient.objects.create(
        audience="agent:alpha", domain=fresh, leased_until=now - timedelta(hours=6)
    )
    for hours, revision, proven in ((30, 1, True), (18, 2, False), (12, 3, True)):
        Enforcement.objects.create(
            audience="agent:alpha",
            domain=fresh,
            revision=revision,
            digest="0" * 64,
            applied_at=now - timedelta(hours=hours),
            proven=proven,
        )
    (lane, empty) = history.lanes(fresh, ["alpha", "beta"], now=now)
    drawn = [(each.revision, each.kind, each.start, each.width) for each in lane.spans]
    assert drawn == [
        (1, "applied", 0, 250),
        (2, "contradicts", 250, 250),
        (3, "applied", 500, 250),
        (3, "silent", 750, 250),
    ]
    assert (empty.agent, empty.spans) == ("beta", ())


# -- on the pages and in the API ---------------------------------------------------------------


@pytest.fixture
def operator(plane: Plane) -> Client:
    user = identity.create_user(actor=None, username="olga", operator=True)
    client = Client()
    client.force_login(user, backend="adminapp.identity.backends.ThrottledBackend")
    return client


PAGES = {
    "overview": "/",
    "agents": "/agents/",
    "agent": "/agents/beta/",
    "domain": "/d/heating/",
    "keys": "/d/heating/keys/",
}


def chip_of(state: str) -> str:
    """A state as a page shows it; legends name every state and have no icon."""
    return f"</svg>{words.term('agent', state).label}</span>"


def said_by_the_api(operator: Client, agent: str) -> dict[str, Any]:
    """What the API says of one agent and of its domain's progress."""
    row = Agent.objects.get(name=agent)
    (standing,) = operator.get(f"/api/v1/agents/{row.pk}/standing").json()
    domain = Domain.objects.get(name="heating")
    progress = operator.get(f"/api/v1/domains/{domain.pk}/progress").json()
    return {"standing": standing, "progress": progress}


def test_every_page_and_the_api_show_a_liar_as_such(
    plane: Plane, heating: Domain, behind: Audience, operator: Client
) -> None:
    chip = chip_of("contradicts")
    for page, address in PAGES.items():
        assert chip not in operator.get(address).content.decode(), page
    plane.receive(claim(behind, "heating", heating.revision, "0" * 64))
    for page, address in PAGES.items():
        shown_there = chip if page != "overview" else "beta claims what was not built for it"
        assert shown_there in operator.get(address).content.decode(), page
    assert "never built for it" in operator.get("/").content.decode()
    assert "not to be believed: beta" in operator.get("/agents/").content.decode()
    said = said_by_the_api(operator, "beta")
    assert said["standing"]["state"] == "contradicts"
    assert said["standing"]["revision"] == heating.revision  # what it claims, marked as such
    assert said["progress"]["contradicting"] == ["beta"]
    assert said["progress"]["applied"] == 1
    (lie,) = operator.get("/api/v1/enforcements?proven=false").json()["results"]
    assert lie["audience"] == "agent:beta"
    assert said_by_the_api(operator, "alpha")["standing"]["state"] == "current"


def test_every_page_and_the_api_show_a_silent_one_as_such(
    plane: Plane, heating: Domain, operator: Client
) -> None:
    plane.settle()
    plane.lease_all()
    chip = chip_of("silent")
    for page, address in PAGES.items():
        assert chip not in operator.get(address).content.decode(), page
    gone = timezone.now() - timedelta(minutes=2)
    Recipient.objects.filter(audience="agent:beta").update(leased_until=gone)
    for page in ("agents", "agent", "domain", "keys"):
        assert chip in operator.get(PAGES[page]).content.decode(), page
    overview = operator.get("/").content.decode()
    assert "beta is silent" in overview
    assert "so it delivers nothing" in overview
    said = said_by_the_api(operator, "beta")
    assert (said["standing"]["state"], said["standing"]["leased"]) == ("silent", False)
    assert said["progress"]["silent"] == ["beta"]
    # Nobody counts it among those that hold the newest revision, though it said that once.
    assert said["progress"]["applied"] == 1
