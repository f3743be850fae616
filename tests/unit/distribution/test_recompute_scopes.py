"""Encodings replaced within an epoch: what a scope touches, what it leaves, what overtakes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from adminapp.distribution import epochs, recompute, rollouts, scopes, services
from adminapp.distribution.encodings import Encoded, encode_rows
from adminapp.distribution.models import (
    EncodedItem,
    EncodingEpoch,
    EncodingKey,
    Recipient,
    RecomputeJob,
    Rollout,
)
from adminapp.distribution.recompute import Workload
from adminapp.distribution.scopes import EVERYTHING, Scope
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, Principal
from policyengine.anonset import Parameters, match
from tasks.recompute import run
from tests.support.audiences import Plane
from tests.support.kept_planes import PlaneKeeper
from tests.unit.distribution.conftest import at_rest

GONE, KEPT = "X-104211", "X-104212"
Rows: TypeAlias = dict[tuple[str, str, str, int], bytes]


@pytest.fixture
def domain(plane: Plane, planes: PlaneKeeper) -> Domain:
    """JingFang, everybody up to date in epoch 1."""
    found = at_rest(plane, planes, "heating")
    plane.lease_all()
    return found


def handle(name: str) -> str:
    return Principal.objects.get(name=name).handle


def rows() -> Rows:
    found = EncodedItem.objects.select_related("agent")
    return {(row.agent.name, row.kind, row.key, row.position): bytes(row.encoded) for row in found}


def order(domain: Domain, scope: Scope) -> RecomputeJob:
    epoch = EncodingEpoch.objects.get(domain=domain, state="current")
    return scopes.order(domain=domain, epoch=epoch, scope=scope, cause="revocation")


def begun(job: RecomputeJob) -> Workload:
    taken = recompute.take(job.pk)
    assert taken is not None
    return recompute.workload(taken)


def complete(job: RecomputeJob) -> RecomputeJob:
    load = begun(job)
    recompute.encode_here(load)
    recompute.finish(load.job)
    job.refresh_from_db()
    return job


def grants(plane: Plane, agent: str) -> dict[str, set[str]]:
    """What an agent grants: by policy and type the handles, matched as it matches."""
    found: dict[str, set[str]] = {}
    epoch = plane.audiences[f"agent:{agent}"].agent("heating").epochs[-1]
    parameters = Parameters.from_json(epoch.parameters)
    for rule in epoch.rules:
        for subject in epoch.subjects:
            if any(match(rule.encoded, one, parameters).granted for one in subject.encoded):
                found.setdefault(rule.policy, set()).add(subject.handle)
    return found


def test_one_client_s_revocation_touches_its_rows_alone(plane: Plane, domain: Domain) -> None:
    before, mine = rows(), handle(GONE)
    identity.mark_revoked(actor=None, principal=Principal.objects.get(name=GONE))
    job = order(domain, scopes.of_subjects([mine]))
    complete(job)
    after = rows()
    lost = {place for place in before if place not in after}
    assert {place[2] for place in lost} == {mine}
    assert all(after[place] == before[place] for place in after)
    assert (job.state, job.scope, job.rows_total, job.rows_removed) == ("done", "subjects", 0, 1)
    plane.settle()
    assert [epoch.number for epoch in epochs.live(domain)] == [1]
    assert not any(mine in handles for handles in grants(plane, "alpha").values())


def test_another_alias_touches_what_holds_the_attribute(plane: Plane, domain: Domain) -> None:
    before, granted = rows(), {name: grants(plane, name) for name in ("alpha", "beta")}
    assert granted["alpha"]
    job = complete(order(domain, scopes.of_attributes(["subject.service"])))
    held = {row.pk: bytes(row.encoded) for row in EncodedItem.objects.all()}
    plane.settle()
    changed = {place for place, encoded in rows().items() if before.get(place) != encoded}
    subjects = {place[2] for place in changed if place[1] == "subject"}
    with_service = {each.handle for each in Principal.objects.all() if "service" in each.attributes}
    assert subjects == with_service & {place[2] for place in before}
    assert 0 < len(changed) == job.rows_total < len(before)
    # The compiler found nothing left to do, and everybody has the rights that it had.
    assert {row.pk: bytes(row.encoded) for row in EncodedItem.objects.all()} == held
    assert {name: grants(plane, name) for name in ("alpha", "beta")} == granted
    assert set(EncodingKey.objects.filter(scope="agent:alpha").values_list("generation")) == {(0,)}


def test_aliases_burnt_one_after_the_other_add_up(plane: Plane, domain: Domain) -> None:
    granted = grants(plane, "alpha")
    seen = [rows()]
    for name in ("subject.service", "subject.type", "subject.type"):
        complete(order(domain, scopes.of_attributes([name])))
        plane.settle()
        seen.append(rows())
        assert grants(plane, "alpha") == granted
    key = EncodingKey.objects.get(epoch__number=1, scope="agent:alpha")
    assert key.aliases == {"subject.service": 1, "subject.type": 2}
    typed = [each for each in seen[0] if each[1] == "subject"]
    assert all(len({each.get(place) for each in seen[1:]}) == 3 for place in typed)


def test_a_distrusted_agent_s_key_touches_that_agent(plane: Plane, domain: Domain) -> None:
    before, granted = rows(), grants(plane, "alpha")
    old = epochs.blinding(EncodingEpoch.objects.get(), "alpha")
    complete(order(domain, scopes.of_agents(["alpha"])))
    new = epochs.blinding(EncodingEpoch.objects.get(), "alpha")
    assert (old.generation, new.generation) == (0, 1)
    assert old.key != new.key
    after = rows()
    assert not {encoded for place, encoded in after.items() if place[0] == "alpha"} & set(
        before.values()
    )
    others = {place: encoded for place, encoded in before.items() if place[0] != "alpha"}
    assert others
    assert {place: encoded for place, encoded in after.items() if place[0] != "alpha"} == others
    plane.settle()
    assert rows() == after
    assert grants(plane, "alpha") == granted


def test_nothing_is_replaced_once_the_epoch_moved_on(plane: Plane, domain: Domain) -> None:
    before = rows()
    load = begun(order(domain, scopes.of_agents(["alpha"]) | scopes.of_subjects([handle(GONE)])))
    EncodingEpoch.objects.update(state="draining")
    assert recompute.encode_here(load) == 0
    recompute.finish(load.job)
    assert rows() == before
    assert EncodingKey.objects.get(scope="agent:alpha").generation == 0
    assert RecomputeJob.objects.get().state == "superseded"


def test_changes_after_the_snapshot_are_encoded_before_anybody_uses_the_rows(
    plane: Plane, domain: Domain
) -> None:
    """One client moved, one went, after the run had read: the run's rows of both are not used."""
    load = begun(order(domain, scopes.of_agents(["alpha", "beta"])))
    company = Principal.objects.filter(kind="subscriber", attributes__type="company").first()
    assert company is not None
    identity.update_principal(
        actor=None,
        principal=company,
        data={"attributes": {**company.attributes, "service": "maintenance"}},
    )
    identity.mark_revoked(actor=None, principal=Principal.objects.get(name=GONE))
    plane.settle()
    wanted = {name: grants(plane, name) for name in ("alpha", "beta")}
    recompute.encode_here(load)
    recompute.finish(load.job)
    plane.settle()
    assert {name: grants(plane, name) for name in ("alpha", "beta")} == wanted
    everybody = set().union(*wanted["alpha"].values(), *wanted["beta"].values())
    assert handle(GONE) not in everybody
    assert not EncodedItem.objects.filter(kind="subject", key=handle(GONE)).exists()


def test_changes_after_the_snapshot_of_a_new_epoch_are_in_it_before_the_switch(
    plane: Plane, domain: Domain
) -> None:
    rollout = rollouts.begin(domain=domain, cause="keys")
    assert rollout is not None
    load = begun(RecomputeJob.objects.get())
    company = Principal.objects.filter(kind="subscriber", attributes__type="company").first()
    assert company is not None
    identity.update_principal(
        actor=None,
        principal=company,
        data={"attributes": {**company.attributes, "service": "maintenance"}},
    )
    identity.mark_revoked(actor=None, principal=Principal.objects.get(name=GONE))
    plane.settle()
    wanted = {name: grants(plane, name) for name in ("alpha", "beta")}
    stale = {(item.key, item.tokens_hash) for task in load.agents for item in task.items}
    recompute.encode_here(load)
    recompute.finish(load.job)
    plane.settle()
    rollout.refresh_from_db()
    assert rollout.state == Rollout.State.COMPLETE
    assert [epoch.number for epoch in epochs.live(domain)] == [2]
    assert {name: grants(plane, name) for name in ("alpha", "beta")} == wanted
    kept = EncodedItem.objects.filter(kind="subject")
    assert not kept.filter(key=handle(GONE)).exists()
    # The run knew the company as it was; what stands there now says what it is.
    held = set(kept.filter(key=company.handle).values_list("key", "tokens_hash"))
    assert {key for key, _ in stale} >= {handle(GONE), company.handle}
    assert not held & stale


def test_a_new_epoch_that_was_given_up_takes_no_rows(plane: Plane, domain: Domain) -> None:
    rollouts.begin(domain=domain, cause="keys")
    load = begun(RecomputeJob.objects.get())
    EncodingEpoch.objects.filter(number=2).update(state="retired")
    assert recompute.encode_here(load) == 0
    recompute.finish(load.job)
    assert not EncodedItem.objects.filter(epoch__number=2).exists()
    assert RecomputeJob.objects.get().state == "superseded"


def test_a_run_that_was_cut_off_goes_on_under_the_same_keys(plane: Plane, domain: Domain) -> None:
    """It died within beta's rows: alpha is done and stays so, beta has everything as it was."""
    before, granted = rows(), grants(plane, "beta")
    job = order(domain, scopes.of_agents(["alpha", "beta"]))
    first = begun(job)
    tasks = {task.name: task for task in first.agents}

    def dying() -> Iterator[Encoded]:
        parameters = epochs.parameters_of(first.job.epoch)
        for task in tasks.values():
            made = encode_rows(task.name, task.items, task.key, parameters)
            if task.name == "beta":
                yield made[0]
                raise OSError("killed")
            yield from made

    with pytest.raises(OSError, match="killed"):
        recompute.keep(first.job, dying())
    now = rows()
    beta = {place: encoded for place, encoded in before.items() if place[0] == "beta"}
    assert {place: encoded for place, encoded in now.items() if place[0] == "beta"} == beta
    assert epochs.blinding(first.job.epoch, "alpha").key == tasks["alpha"].key
    RecomputeJob.objects.update(state="pending")
    again = begun(job)
    assert {task.name: task.key for task in again.agents} == {"beta": tasks["beta"].key}
    recompute.encode_here(again)
    recompute.finish(again.job)
    held = rows()
    plane.settle()
    assert rows() == held
    assert grants(plane, "beta") == granted


def test_a_broken_pipeline_still_brings_the_new_keys(
    plane: Plane, domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted = grants(plane, "alpha")

    def broken(*_: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(recompute, "encode_here", broken)
    job = order(domain, scopes.of_agents(["alpha"]))
    RecomputeJob.objects.update(attempts=recompute.MAX_ATTEMPTS - 1)
    run(job.pk, beat=lambda: None)
    job.refresh_from_db()
    assert job.state == "failed"
    assert epochs.blinding(job.epoch, "alpha").generation == 1
    plane.settle()
    assert grants(plane, "alpha") == granted


def test_an_order_joins_a_run_that_has_not_begun(domain: Domain) -> None:
    first = order(domain, scopes.of_subjects([handle(GONE)]))
    assert order(domain, scopes.of_subjects([handle(KEPT)])) == first
    joined = order(domain, scopes.of_attributes(["subject.type"]))
    assert joined == first
    assert (joined.scope, joined.rows_removed) == ("attribute", 2)
    assert scopes.scope_of(joined).subjects == {handle(GONE), handle(KEPT)}


def test_an_order_after_the_beginning_is_the_next_run(plane: Plane, domain: Domain) -> None:
    first = order(domain, scopes.of_subjects([handle(GONE)]))
    load = begun(first)
    second = order(domain, scopes.of_attributes(["subject.type"]))
    assert second != first
    assert recompute.take(second.pk) is None
    recompute.encode_here(load)
    recompute.finish(load.job)
    plane.work()
    second.refresh_from_db()
    assert second.state == "done"


def test_a_rollout_within_the_epoch_has_no_epochs_to_switch(plane: Plane, domain: Domain) -> None:
    rollout = rollouts.begin(
        domain=domain, cause="revocation", scope=scopes.of_subjects([handle(GONE)])
    )
    assert rollout is not None
    assert (rollout.epoch_from, rollout.epoch_to) == (None, None)
    plane.settle()
    rollout.refresh_from_db()
    assert rollout.state == Rollout.State.COMPLETE
    job = scopes.job_of(rollout)
    assert job is not None
    assert (job.state, job.scope) == ("done", "subjects")
    assert {m.audience for m in rollout.members.all() if m.staged_at} >= {"agent:alpha"}
    assert [epoch.number for epoch in epochs.live(domain)] == [1]


def test_a_customer_s_revocation_leaves_the_epoch_alone(plane: Plane, domain: Domain) -> None:
    before, mine = rows(), handle(GONE)
    revocation = services.revoke_principal(
        actor=None, principal=Principal.objects.get(name=GONE), reason="moved away"
    )
    plane.settle()
    revocation.refresh_from_db()
    assert revocation.state == "complete"
    body = revocation.receipt["body"]
    assert body["epochs"] == {"from": None, "to": None}
    assert (body["encodings_replaced"], body["unreachable"]) == (1, [])
    assert [epoch.number for epoch in epochs.live(domain)] == [1]
    after = rows()
    assert {place[2] for place in before if place[1] == "subject" and place not in after} == {mine}
    assert all(after[place] == before[place] for place in after)
    assert mine not in str(plane.audiences["agent:alpha"].agent("heating").to_json())


def test_whoever_held_tag_keys_asks_for_a_new_epoch(domain: Domain) -> None:
    subscriber = Principal.objects.get(name=GONE)
    publisher = Principal.objects.get(kind="publisher")
    assert scopes.for_principal(subscriber) == scopes.of_subjects([subscriber.handle])
    assert scopes.for_principal(publisher) == EVERYTHING
    # Of an epoch that is gone a key opens nothing.
    Recipient.objects.filter(audience=f"client:{publisher.handle}").update(tag_epoch=0)
    assert scopes.for_principal(publisher) == scopes.of_subjects([publisher.handle])


def test_scopes_add_up(domain: Domain) -> None:
    both = scopes.merged([scopes.of_subjects(["a"]), scopes.of_agents(["b"])])
    assert both == Scope(agents=frozenset({"b"}), subjects=frozenset({"a"}))
    assert both.kind == "agents"
    assert (both | EVERYTHING).kind == "all"
    assert scopes.merged([]).to_json() == {}


def test_a_key_does_not_show_when_it_is_printed(domain: Domain) -> None:
    held = epochs.blinding(EncodingEpoch.objects.get(), "alpha")
    assert held.key.hex() not in repr(held)
    assert repr(held) == "Blinding(generation=0, aliases={}, key=...)"
