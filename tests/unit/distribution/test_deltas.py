"""Deltas from the control plane: who gets one, what they lead to, and how a gap is mended."""

from __future__ import annotations

from typing import Any

import pytest

from adminapp.distribution import building, services, stages
from adminapp.distribution import compile as compiling
from adminapp.distribution.models import Bundle, BundleChunk, ContentOutline, Recipient, SealedWrap
from adminapp.identity.models import Domain, Principal
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from policyengine.bundles import envelope
from policyengine.bundles.deltas import difference
from policyengine.primitives.canonical import b64, dumps
from tests.support.audiences import Audience, Plane


def settled(plane: Plane, *, reads: tuple[str, ...] = ("deltas",)) -> None:
    """Everybody holds the newest revision and has told what it reads."""
    for audience in plane.audiences.values():
        audience.reads = reads
    plane.settle()
    plane.lease_all()


def change(domain: Domain, title: str) -> None:
    """Something that changes no content: agents hear of the revision all the same."""
    policy = Policy.objects.filter(domain=domain).order_by("pk").first()
    policies.update_policy(actor=None, policy=policy, data={"title": title})


def newest(address: str) -> Bundle:
    return Bundle.objects.filter(audience=address).order_by("-revision")[0]


def whole_of(address: str) -> Any:
    """What the control plane would send as a whole now."""
    domain = Domain.objects.get()
    snapshot = compiling._snapshot(domain.pk)
    jobs = compiling._jobs(snapshot, stages.views(domain, snapshot.domain))
    return next(job.content for job in jobs if job.address == address)


def agents(plane: Plane) -> list[Audience]:
    return [one for one in plane.audiences.values() if one.address.startswith("agent:")]


def test_deltas_one_after_another_equal_the_whole(plane: Plane, heating: Domain) -> None:
    settled(plane)
    assert set(Bundle.objects.values_list("form", flat=True)) == {"whole"}
    tenant = Principal.objects.filter(domain=heating, kind="subscriber").order_by("pk").first()
    change(heating, "one")
    plane.settle()
    services.revoke_principal(actor=None, principal=tenant, reason="moved away")
    plane.settle()
    change(heating, "two")
    plane.settle()
    serving = [one for one in agents(plane) if one.sealed]
    assert len(serving) >= 2
    for agent in serving:
        assert agent.forms[0] == "whole"
        assert agent.forms.count("delta") >= 2
        assert agent.refusals == []
        assert agent.sealed["heating"][1] == whole_of(agent.address)
        row = newest(agent.address)
        assert (row.state, row.form) == ("applied", "delta")
        assert row.size * 2 < Bundle.objects.filter(audience=agent.address)[0].size


def test_what_did_not_change_is_not_sent_again(plane: Plane, heating: Domain) -> None:
    settled(plane)
    (before,) = [one for one in agents(plane) if one.address == "agent:alpha"]
    held = before.sealed["heating"][1]
    wraps = list(SealedWrap.objects.order_by("pk").values_list("pk", "sealed"))
    change(heating, "one")
    plane.settle()
    after = before.sealed["heating"][1]
    assert [wrap.sealed for wrap in after.wraps] == [wrap.sealed for wrap in held.wraps]
    assert list(SealedWrap.objects.order_by("pk").values_list("pk", "sealed")) == wraps
    assert all(not step.put for step in difference(held, after).steps)
    assert newest("agent:alpha").size < 2_000


def test_agents_of_the_release_before_keep_getting_wholes(plane: Plane, heating: Domain) -> None:
    settled(plane, reads=())
    change(heating, "one")
    plane.settle()
    assert set(Bundle.objects.values_list("form", flat=True)) == {"whole"}
    assert newest("agent:alpha").state == "applied"
    # Once it was brought up to date it says so; put back, it says nothing any more.
    for reads, form in ((("deltas", "later-words"), "delta"), ((), "whole")):
        settled(plane, reads=reads)
        assert Recipient.objects.get(audience="agent:alpha").reads == [*reads]
        change(heating, form)
        plane.settle()
        assert newest("agent:alpha").form == form


def test_a_gap_is_mended_by_a_whole(plane: Plane, heating: Domain) -> None:
    settled(plane)
    agent = plane.audiences["agent:alpha"]
    # A database that was put back: it knows an acknowledgement of what is held no more.
    held = agent.state.revisions["heating"]
    other = Bundle.objects.get(audience="agent:alpha", digest=held.digest)
    for row in (ContentOutline, Bundle):
        row.objects.filter(audience="agent:alpha", digest=held.digest).update(digest="ab" * 32)
    change(heating, "one")
    plane.work()
    assert newest("agent:alpha").form == "delta"
    plane.settle()
    assert agent.refusals == ["previous"]
    row = newest("agent:alpha")
    assert (row.state, row.form) == ("applied", "whole")
    assert agent.sealed["heating"][1] == whole_of("agent:alpha")
    assert row.revision > other.revision
    # and from there on deltas do again
    change(heating, "two")
    plane.settle()
    assert (newest("agent:alpha").state, newest("agent:alpha").form) == ("applied", "delta")


def test_a_delta_that_is_refused_for_whatever_reason_is_followed_by_a_whole(
    plane: Plane, heating: Domain
) -> None:
    settled(plane)
    agent = plane.audiences["agent:alpha"]
    change(heating, "one")
    plane.work()
    row = newest("agent:alpha")
    assert row.form == "delta"
    refusal = agent.ack("heating", "bundle", row.revision, row.digest, "rejected", "malformed")
    agent.deaf = True
    plane.queues.clear()
    plane.receive(refusal)
    plane.work()
    agent.deaf = False
    plane.settle()
    assert (newest("agent:alpha").form, newest("agent:alpha").state) == ("whole", "applied")


def test_an_outline_and_a_kept_wrap_hold_nothing_that_can_be_read(
    plane: Plane, heating: Domain
) -> None:
    settled(plane)
    handles = [each.handle.encode() for each in Principal.objects.all()]
    assert handles
    for row in ContentOutline.objects.all():
        data = bytes(row.entries)
        assert len(data) % 32 == 0
        # Whole names: a few letters stand in any hash by chance.
        for word in (b"heating", *handles):
            assert word not in data


@pytest.mark.parametrize("form", ["whole", "delta"])
def test_an_agent_gets_only_what_concerns_its_clients(
    plane: Plane, heating: Domain, form: str
) -> None:
    settled(plane)
    change(heating, form)
    plane.settle()
    every = set(Principal.objects.filter(domain=heating).values_list("handle", flat=True))
    keys = {row.handle: (row.sealing_key, row.verify_key) for row in Principal.objects.all()}
    for agent in agents(plane):
        if "heating" not in agent.sealed:
            continue
        text = dumps(agent.sealed["heating"][1].to_json()).decode()
        own = {client.handle for client in agent.agent("heating").clients}
        for handle in every - own:
            assert handle not in text
            assert not any(key in text for key in keys[handle])
        others = [one for one in agents(plane) if one is not agent]
        for other in others:
            for wrap in other.agent("heating").wraps if "heating" in other.sealed else ():
                assert b64(wrap.sealed) not in text


def test_a_bundle_over_one_message_goes_in_chunks(
    plane: Plane, heating: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = envelope.build_bundle
    monkeypatch.setattr(
        building,
        "build_bundle",
        lambda **members: built(**{**members, "limit": 16 * 1024 + 1, "chunk": 2_000}),
    )
    settled(plane)
    agent = plane.audiences["agent:alpha"]
    row = newest("agent:alpha")
    assert BundleChunk.objects.filter(bundle=row).count() > 1
    assert (row.state, row.form) == ("applied", "whole")
    assert agent.sealed["heating"][1] == whole_of("agent:alpha")
    # a chunk is lost on the way: everything is sent again until it is acknowledged
    change(heating, "one")
    plane.work()
    queue = next(name for name in plane.queues if name.endswith("alpha"))
    plane.queues[queue].pop()
    plane.settle()
    row = newest("agent:alpha")
    assert row.state == "received"
    parcels = services.bundle_parcels([row.pk])
    assert len(parcels) == 1 + row.chunks.count()
    plane.queues[queue] += [parcel.body for parcel in parcels]
    plane.settle()
    row.refresh_from_db()
    assert row.state == "applied"
    services.prune()
    assert BundleChunk.objects.filter(bundle=row).exists()
