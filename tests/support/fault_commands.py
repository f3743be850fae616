"""What `FaultSite` runs beside the test: `python -m tests.support.fault_commands`.

A command may be cut off at any moment, as the database is killed under it, and asked for again:
each of them looks whether it was done.
"""

from __future__ import annotations

import tests.support.distribution_commands as base  # sets Django up  # isort: skip

from typing import Any

from adminapp.core.authority import get_authority
from adminapp.distribution import encodings, epochs, rollouts, services
from adminapp.distribution import endings as ends
from adminapp.distribution.gather import gather
from adminapp.distribution.models import (
    Bundle,
    EncodedItem,
    EncodingEpoch,
    Notice,
    RecomputeJob,
    Revocation,
    Rollout,
)
from adminapp.distribution.plan import plan_agent
from adminapp.identity.models import Domain, Principal
from adminapp.outbox.models import OutboxRow
from adminapp.roles.appointing import appoint as give
from adminapp.roles.models import Appointment
from adminapp.trustgroups import selectors as groups
from adminapp.trustgroups import services as trust
from adminapp.trustgroups.models import KeyEpoch
from policyengine.primitives.canonical import b64, unb64
from tests.support.commands import serve
from tests.support.known_keys import held_tag_keys

REASON = "a fault test"


def end_principal(name: str, new_epoch: str) -> dict[str, Any]:
    """Revoke somebody; with a new epoch by Spark where `new_epoch` is `yes`."""
    held = Revocation.objects.filter(kind="principal", principal__name=name).first()
    if held is None:
        principal = held_tag_keys(name) if new_epoch == "yes" else _principal(name)
        held = services.revoke_principal(actor=None, principal=principal, reason=REASON)
    return _began(held)


def end_appointment(name: str) -> dict[str, Any]:
    """Take the appointment of a guard away."""
    held = Revocation.objects.filter(kind="appointment", principal__name=name).first()
    if held is None:
        row = Appointment.objects.get(principal__name=name)
        held = services.revoke(actor=None, target=ends.appointment(row), reason=REASON)
    return _began(held)


def appoint(name: str) -> bool:
    """Appoint a guard."""
    if not Appointment.objects.filter(principal__name=name).exists():
        give(actor=None, principal=_principal(name), name="on_guard", reason=REASON)
    return True


def rotate(domain: str) -> list[str]:
    """New keys for every trust group of a domain; returns which."""
    row = Domain.objects.get(name=domain)
    refs = groups.group_refs(row)
    trust.rotate_keys(actor=None, domain=row, group_refs=refs, reason=REASON)
    rollouts.request_advance(row)
    return sorted(refs)


def key_epochs() -> dict[str, str]:
    """State of every epoch of the trust groups' keys, by `group number`."""
    return {f"{row.group_ref} {row.number}": row.state for row in KeyEpoch.objects.order_by("pk")}


def overlay_keys(domain: str, recipient: str, audience: str) -> list[list[Any]]:
    """Every key that agents of an overlay sealed hops with, also those that are retired.

    Args:
        domain: name of the domain.
        recipient: base64 of the public key that they are sealed to.
        audience: whom the seal names.

    Returns:
        [group, epoch, base64 of the sealed key] of each.
    """
    rows = KeyEpoch.objects.filter(domain__name=domain, group_ref__startswith="overlay:")
    return [
        [
            row.group_ref,
            row.number,
            b64(
                get_authority().wrap_for(
                    row.key_id,
                    row.wrapped,
                    group=row.group_ref,
                    epoch=row.number,
                    recipient=unb64(recipient),
                    audience=audience,
                )
            ),
        ]
        for row in rows
    ]


def revocations() -> list[dict[str, Any]]:
    """Every revocation as the control plane has it, with its receipt."""
    return [
        {**_began(row), "kind": row.kind, "state": row.state, "receipt": row.receipt}
        for row in Revocation.objects.select_related("principal").order_by("pk")
    ]


def acknowledged() -> dict[str, dict[str, list[int]]]:
    """By agent the numbers of bundles and notices that count as applied."""
    found: dict[str, dict[str, list[int]]] = {}
    for kind, rows, number in (
        ("bundle", Bundle.objects.filter(state=Bundle.State.APPLIED), "revision"),
        ("notice", Notice.objects.filter(state=Notice.State.APPLIED), "number"),
    ):
        for address, value in rows.values_list("audience", number):
            if address.startswith("agent:"):
                mine = found.setdefault(address.removeprefix("agent:"), {})
                mine.setdefault(kind, []).append(value)
    return found


def state(domain: str) -> dict[str, Any]:
    """What is under way; `early` must be empty at every moment."""
    row = Domain.objects.get(name=domain)
    noticed = Revocation.objects.filter(kind="principal", state="noticed", rollout=None)
    return {
        "revision": row.revision,
        "early": _out_too_early(),
        "noticed": noticed.count(),
        "rollouts": Rollout.objects.exclude(state="complete").count(),
        "revocations": Revocation.objects.exclude(state="complete").count(),
        "jobs": {job.uid: [job.state, job.attempts, job.error] for job in _whole_jobs()},
        "failed": list(OutboxRow.objects.filter(state="failed").values_list("key", flat=True)),
        "waiting": [
            [row.key, row.state, row.attempts, row.error[-200:]]
            for row in OutboxRow.objects.exclude(state="done").order_by("pk")[:20]
        ],
    }


def published_half(domain: str) -> list[str]:
    """Epochs that agents may have though rows of them are missing; [] is right.

    What agents need is worked out again from the policy, so that the runs' own counts prove
    nothing.
    """
    row = Domain.objects.get(name=domain)
    problems = _out_too_early()
    current = epochs.current(row)
    if current is None:
        return [*problems, "there is no epoch"]
    plain = gather(row)
    for agent in plain.agents:
        room = epochs.capacity(epochs.parameters_of(current))
        items = encodings.items_of(
            plan_agent(plain, agent, room), epochs.blinding(current, agent.name)
        )
        wanted = {(*item.place, item.tokens_hash) for item in items}
        rows = EncodedItem.objects.filter(epoch=current, agent_id=agent.id)
        held = set(rows.values_list("kind", "key", "position", "tokens_hash"))
        if held != wanted:
            problems.append(
                f"{agent.name}: {len(wanted - held)} lacking, {len(held - wanted)} too many"
            )
    return problems


def _out_too_early() -> list[str]:
    # A run that is given up has ended too: what is missing then the compiler encodes.
    return [
        f"epoch {job.epoch.number} is out, its run is {job.state}"
        for job in _whole_jobs()
        if job.state not in RecomputeJob.ENDED and job.epoch.state != EncodingEpoch.State.PREPARING
    ]


def _whole_jobs() -> list[RecomputeJob]:
    rows = RecomputeJob.objects.filter(scope=RecomputeJob.Scope.ALL)
    return list(rows.select_related("epoch").order_by("pk"))


def _principal(name: str) -> Principal:
    return Principal.objects.get(name=name)


def _began(row: Revocation) -> dict[str, Any]:
    name = row.principal.name if row.principal else ""
    told = row.notices.values_list("audience", "number")
    return {
        "uid": row.uid,
        "principal": name,
        "t0": row.created.timestamp(),
        "notices": {address.partition(":")[2]: number for address, number in told},
    }


for _command in (
    end_principal, end_appointment, appoint, rotate, key_epochs, overlay_keys, revocations,
    acknowledged, state, published_half,
):  # fmt: skip
    base.COMMANDS[_command.__name__.replace("_", "-")] = _command

if __name__ == "__main__":
    serve(base.COMMANDS)
