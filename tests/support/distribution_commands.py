"""What `Site` runs beside the test: `python -m tests.support.distribution_commands`.

The test's own process has another database.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adminapp.config.settings")
django.setup()

from adminapp.agreements import services as agreements  # noqa: E402
from adminapp.agreements.models import Agreement  # noqa: E402
from adminapp.audit.models import Entry  # noqa: E402
from adminapp.changes.loading import load as load_files  # noqa: E402
from adminapp.core.authority import get_authority  # noqa: E402
from adminapp.distribution import blindepochs, filterkeys, selectors, services  # noqa: E402
from adminapp.distribution.models import (  # noqa: E402
    BlindEpoch,
    EncodedItem,
    RecomputeJob,
    Revocation,
)
from adminapp.identity import services as identity  # noqa: E402
from adminapp.identity.models import Domain, Overlay, Principal  # noqa: E402
from adminapp.roles import services as roles  # noqa: E402
from adminapp.roles.models import Appointment  # noqa: E402
from brokers.client import create_profile  # noqa: E402
from policyengine.bundles.receipts import verify_receipt  # noqa: E402
from tests.support.commands import serve  # noqa: E402
from tests.support.known_keys import held_tag_keys  # noqa: E402

SAMPLES = Path(__file__).resolve().parents[2] / "adminapp" / "samples"


def register(agents: str) -> list[str]:
    """Overlays and agents: `{"alpha": {"overlay", "sealing_key", "verify_key"}}`."""
    wanted = json.loads(agents)
    for name in sorted({entry["overlay"] for entry in wanted.values()}):
        identity.create_overlay(actor=None, name=name, title=f"Overlay {name}")
    for name, entry in wanted.items():
        identity.register_agent(
            actor=None,
            name=name,
            overlay=Overlay.objects.get(name=entry["overlay"]),
            sealing_key=entry["sealing_key"],
            verify_key=entry["verify_key"],
        )
    return sorted(wanted)


def load(names: str, folder: str, brokers_file: str, anchors: str) -> dict[str, str]:
    """Load samples, or files, and make a profile for each principal: name -> folder."""
    load_files(
        [Path(n) if n.endswith(".yaml") else SAMPLES / f"{n}.yaml" for n in names.split(",")]
    )
    profiles: dict[str, str] = {}
    for principal in Principal.objects.select_related("domain"):
        assert principal.name not in profiles, "two samples have a principal of one name"
        profile = Path(folder) / principal.name
        keys = create_profile(
            profile,
            handle=principal.handle,
            domain=principal.domain.name,
            brokers_file=Path(brokers_file),
            anchors_file=Path(anchors),
        )
        identity.register_credentials(
            actor=None,
            principal=principal,
            sealing_key=keys["sealing_key"],
            verify_key=keys["verify_key"],
        )
        profiles[principal.name] = str(profile)
    return profiles


def agree(name: str) -> int:
    """Have both sides accept whatever a domain has proposed; how much that was."""
    found = Agreement.objects.filter(provider__name=name, state=Agreement.State.PROPOSED)
    for row in (rows := list(found)):
        last = row.rounds.latest("number")
        for side in ("provider", "consumer"):
            agreements.accept_agreement(
                actor=None, agreement=row, number=last.number, digest=last.digest, side=side
            )
            row.refresh_from_db()
    return len(rows)


def progress(name: str) -> dict[str, Any]:
    found = selectors.domain_progress(Domain.objects.get(name=name))
    return {"revision": found.revision, "agents": found.agents, "applied": found.applied}


def revoke(name: str) -> str:
    """The end of one that could publish: the longest way, with a new epoch by Spark."""
    principal = held_tag_keys(name)
    return services.revoke_principal(actor=None, principal=principal, reason="a test").uid


def revocation(uid: str) -> dict[str, Any]:
    """State and timeline of a revocation; its receipt is verified."""
    found = selectors.revocation_timeline(uid)
    body = None
    if found.receipt is not None:
        body = verify_receipt(found.receipt, get_authority().anchors().receipt)
    return {
        "state": found.revocation.state,
        "kinds": [event.kind for event in found.events],
        "receipt": body,
    }


def jobs() -> list[dict[str, Any]]:
    return [
        {
            "state": job.state,
            "error": job.error,
            "rows": job.rows_total,
            "stages": sorted(entry["stage"] for entry in job.stages),
            "attempts": job.attempts,
        }
        for job in RecomputeJob.objects.order_by("id")
    ]


def epochs() -> dict[str, int]:
    """How many encodings are kept, by epoch."""
    numbers = EncodedItem.objects.values_list("epoch__number", flat=True)
    return {str(number): list(numbers).count(number) for number in set(numbers)}


def open_revocations() -> int:
    return Revocation.objects.exclude(state="complete").count()


def read_by_filters(name: str) -> bool:
    """Have a client ask for the keys of its filters."""
    principal = Principal.objects.get(name=name)
    return filterkeys.read_by_filters(actor=None, principal=principal, on=True)


def blind_epoch(domain: str) -> int:
    """The number of the epoch that publishers make new events in, once no other follows."""
    found = BlindEpoch.objects.filter(domain__name=domain, state__in=blindepochs.LIVE)
    settled = [row.number for row in found if not row.due and row.client_state == "current"]
    return settled[0] if len(found) == len(settled) == 1 else 0


def rotate_blind_keys(domain: str) -> int:
    """Have new blind keys follow."""
    row = Domain.objects.get(name=domain)
    return services.rotate_blind_keys(actor=None, domain=row, reason="a drill").number


def end_appointment(name: str, appointment: str) -> None:
    """Take an appointment from a principal."""
    row = Appointment.objects.get(principal__name=name, name=appointment)
    roles.end_appointment(actor=None, appointment=row)


def filter_answers() -> list[list[Any]]:
    """What the audit says about keys for filters: action, principal, details."""
    rows = Entry.objects.filter(action__startswith="filter-key.").order_by("sequence")
    return [[row.action, row.object_name, row.after] for row in rows]


COMMANDS: dict[str, Callable[..., Any]] = {
    command.__name__.replace("_", "-"): command
    for command in (
        register,
        load,
        agree,
        progress,
        revoke,
        revocation,
        jobs,
        epochs,
        open_revocations,
        read_by_filters,
        blind_epoch,
        rotate_blind_keys,
        end_appointment,
        filter_answers,
    )
}


if __name__ == "__main__":
    serve(COMMANDS)
