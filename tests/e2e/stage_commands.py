"""What the stage can do for a test, see `stage`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from adminapp.changes.loading import load
from adminapp.distribution import acknowledgements, recompute, reports, selectors, services
from adminapp.distribution.models import Bundle, Notice, RecomputeJob, Rollout
from adminapp.distribution.recipients import recipient
from adminapp.distribution.serving import serving_agents
from adminapp.identity import services as identity
from adminapp.identity.models import Domain, Overlay, Principal, User
from adminapp.policies import services as policies
from adminapp.policies.models import Policy
from policyengine.bundles.addresses import audience
from policyengine.bundles.messages import Acknowledgement
from policyengine.primitives.canonical import b64

SAMPLES = Path(__file__).resolve().parents[2] / "adminapp" / "samples"
PASSWORD = "correct horse battery staple"
PEOPLE = {"olga": "operator", "mona": "manager", "aldo": "auditor", "sten": "stranger"}


def seed() -> None:
    """Two organisations, three agents on two overlays, one person of every standing."""
    _platform()
    load([SAMPLES / "flights.yaml", SAMPLES / "heating.yaml"])
    _people()
    for principal in Principal.objects.all():
        identity.register_credentials(
            actor=None, principal=principal, sealing_key=_key(), verify_key=_key()
        )
    for domain in Domain.objects.all():
        services.compile_domain(domain.pk)
        for agent in serving_agents(domain):
            hold(agent.name, domain.name)
    revoke("heating", "X-104211", "moved away")
    stop_serving("heating")
    carry_out("heating")


def revoke(domain: str, name: str, reason: str) -> None:
    """Somebody else revokes a principal."""
    principal = Principal.objects.get(domain__name=domain, name=name)
    services.revoke_principal(
        actor=User.objects.get(username="olga"), principal=principal, reason=reason
    )


def hold(agent: str, domain: str, revision: str = "") -> None:
    """An agent says that it applied a domain's bundle (the newest one, unless told otherwise)."""
    row = Domain.objects.get(name=domain)
    address = audience("agent", agent)
    wanted = int(revision or row.revision)
    bundle = Bundle.objects.filter(audience=address, domain=row, revision__lte=wanted).last()
    notice = Notice.objects.filter(audience=address, domain=row).last()
    held = {
        "revision": wanted,
        "digest": bundle.digest if bundle else "",
        "notice": notice.number if notice else 0,
        "epochs": {},
    }
    if bundle is not None and bundle.state != Bundle.State.APPLIED:
        acknowledgements.take([_ack(address, domain, "bundle", wanted, bundle.digest, held)])
    else:
        at = int(time.time() * 1000)
        reports.record_held([reports.Report(address, {domain: row}, {domain: held}, at=at)])
    _lease(address, row)


def compile_now(domain: str) -> None:
    """Make the bundles of a domain's newest revision."""
    services.compile_domain(Domain.objects.get(name=domain).pk)


def stop_serving(domain: str) -> None:
    """Every agent confirms the notices that were written for it."""
    row = Domain.objects.get(name=domain)
    for notice in Notice.objects.filter(domain=row).exclude(state=Notice.State.APPLIED):
        said = recipient(notice.audience, row)
        held = {
            "revision": said.revision,
            "digest": said.digest,
            "notice": notice.number,
            "epochs": said.epochs,
        }
        ack = _ack(notice.audience, domain, "notice", notice.number, "", held)
        acknowledgements.take([ack])


def carry_out(domain: str) -> None:
    """Take a revocation through all its stages, every agent acknowledging at once."""
    row = Domain.objects.get(name=domain)
    services.advance_domain(row.pk)
    for _ in range(12):
        _recompute(row)
        Rollout.objects.filter(domain=row).update(stage_started="2020-01-01T00:00Z")
        compile_now(domain)
        for agent in serving_agents(row):
            hold(agent.name, domain)
        Bundle.objects.filter(domain=row, audience__startswith="client:").update(state="applied")
        services.advance_domain(row.pk)
    if selectors.revocations().filter(domain=row, completed__isnull=True).exists():
        raise SystemExit("the revocation did not come to its end")


def begin_recompute(domain: str) -> None:
    """Take a revocation into the middle of its computation."""
    row = Domain.objects.get(name=domain)
    services.advance_domain(row.pk)
    job = RecomputeJob.objects.filter(domain=row).first()
    taken = recompute.take(job.pk)
    load = recompute.workload(taken)
    recompute.progress(taken, "reading", load.rows, load.rows)
    recompute.progress(taken, "encoding", load.rows // 2, load.rows)


def _recompute(domain: Domain) -> None:
    for job in RecomputeJob.objects.filter(domain=domain).exclude(state="done"):
        RecomputeJob.objects.filter(pk=job.pk).update(state="pending")
        taken = recompute.take(job.pk)
        if taken is not None:
            recompute.encode_here(recompute.workload(taken))
            recompute.finish(taken)


def _ack(
    address: str, domain: str, what: str, number: int, digest: str, held: dict[str, object]
) -> Acknowledgement:
    return Acknowledgement(
        audience=address,
        domain=domain,
        what=what,
        number=number,
        digest=digest,
        status="applied",
        reason="",
        at=int(time.time() * 1000),
        held={domain: held},
    )


def _lease(address: str, domain: Domain) -> None:
    row = recipient(address, domain)
    row.leased_until = timezone.now() + timedelta(hours=1)
    row.save()


def _platform() -> None:
    for name, title, operator in (("a", "Overlay A", "North Net"), ("b", "Overlay B", "South Net")):
        identity.create_overlay(actor=None, name=name, title=title, operator=operator)
    for name, on in (("alpha", "a"), ("beta", "a"), ("gamma", "b")):
        overlay = Overlay.objects.get(name=on)
        identity.register_agent(
            actor=None, name=name, overlay=overlay, sealing_key=_key(), verify_key=_key()
        )


def _people() -> None:
    for name, standing in PEOPLE.items():
        user = identity.create_user(
            actor=None, username=name, password=PASSWORD, operator=standing == "operator"
        )
        domain = Domain.objects.get(name="heating" if standing == "stranger" else "flights")
        if standing != "operator":
            role = "auditor" if standing == "auditor" else "manager"
            identity.set_membership(actor=None, user=user, domain=domain, role=role)


def touch_policy(domain: str, name: str) -> None:
    """Somebody else changes a policy."""
    policy = Policy.objects.get(domain__name=domain, name=name)
    policies.update_policy(
        actor=User.objects.get(username="olga"), policy=policy, data={"title": "Changed meanwhile"}
    )


def _key() -> str:
    return b64(os.urandom(32))


COMMANDS: dict[str, Callable[..., None]] = {
    "seed": seed,
    "revoke": revoke,
    "hold": hold,
    "compile": compile_now,
    "stop-serving": stop_serving,
    "begin-recompute": begin_recompute,
    "carry-out": carry_out,
    "touch-policy": touch_policy,
}
