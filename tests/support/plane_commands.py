"""What `Plane` runs in processes of their own: `python -m tests.support.plane_commands`.

With a command's name and arguments it prints one JSON value; without, it takes one command after
the other. Loaded by a Celery worker (`-I`) it adds a topic of slow work, so that a test can kill
the worker in the middle of it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adminapp.config.settings")
django.setup()

from django.db import connection, transaction  # noqa: E402
from django.db.models import F  # noqa: E402

from adminapp.audit.models import Entry  # noqa: E402
from adminapp.audit.verification import verify_with_authority  # noqa: E402
from adminapp.catalog import services as catalog  # noqa: E402
from adminapp.catalog.models import EventType  # noqa: E402
from adminapp.core.errors import Conflict  # noqa: E402
from adminapp.identity import services as identity  # noqa: E402
from adminapp.identity.models import Domain, User  # noqa: E402
from adminapp.outbox import services as outbox  # noqa: E402
from adminapp.outbox.models import OutboxRow  # noqa: E402
from adminapp.policies import services as policies  # noqa: E402
from adminapp.policies.models import Policy  # noqa: E402
from tasks import handlers, jobs  # noqa: E402
from tests.support.commands import serve  # noqa: E402
from tests.support.migrated import undo  # noqa: E402

SLOW_TOPIC = "slow-work"


# -- slow work of a worker ----------------------------------------------------------------------


def slow_work(payload: Mapping[str, Any], *_: Any) -> None:
    """Say that it begins, wait for the gate, say that it ends."""
    _effect("begin", payload["name"])
    while not Path(os.environ["PLANE_GATE"]).exists():
        time.sleep(0.05)
    _effect("end", payload["name"])


def _effect(what: str, name: str) -> None:
    with Path(os.environ["PLANE_EFFECTS"]).open("a") as file:
        file.write(f"{what} {name} {os.getpid()}\n")


handlers._HANDLERS[SLOW_TOPIC] = slow_work  # type: ignore[index]


# -- commands -----------------------------------------------------------------------------------


def engine() -> dict[str, str]:
    """Which database this is."""
    return {"vendor": connection.vendor, "name": str(connection.settings_dict["NAME"])}


def migrate_back(*apps: str) -> list[str]:
    """Undo every migration of some apps."""
    undo(*apps)
    return list(apps)


def change() -> dict[str, Any]:
    """Make a domain, an event type and a policy by the services; change the policy twice."""
    olga = identity.create_user(actor=None, username="olga", operator=True)
    domain = identity.create_domain(actor=olga, name="heating", title="Heating")
    catalog.create_event_type(
        actor=olga,
        domain=domain,
        name="Temperature",
        attributes=[{"name": "zone", "type": {"type": "string"}}],
    )
    policy = policies.create_policy(
        actor=olga,
        domain=domain,
        name="north",
        action="subscribe",
        event_type="Temperature",
        expression='event.zone == "north"',
    )
    policies.update_policy(
        actor=olga, policy=policy, data={"expression": 'event.zone == "south"'}
    )  # fmt: skip
    conflict = _refused_change(olga, policy)
    return {"conflict": conflict, **state()}


def _refused_change(olga: User, policy: Policy) -> bool:
    """Change a version that is not there any more."""
    before = state()
    try:
        policies.update_policy(
            actor=olga, policy=policy, data={"title": "late"}, expected_version=1
        )  # fmt: skip
    except Conflict:
        return state() == before
    return False


def broken() -> dict[str, Any]:
    """Break down after a change, inside its transaction."""
    before = state()
    domain = Domain.objects.get(name="heating")
    inside: dict[str, Any] = {}

    @transaction.atomic
    def interrupted() -> None:
        catalog.create_event_type(actor=None, domain=domain, name="Pressure")
        inside.update(state())
        raise InterruptedError

    with suppress(InterruptedError):
        interrupted()
    kept = EventType.objects.filter(name="Pressure").exists()
    return {"changed_inside": inside != before, "kept": kept, "same": state() == before}


def state() -> dict[str, Any]:
    """What a change leaves behind."""
    domain = Domain.objects.get(name="heating")
    rows = OutboxRow.objects.filter(topic="compile").order_by("id")
    policy = Policy.objects.filter(domain=domain).first()
    return {
        "revision": domain.revision,
        "outbox": [[row.key, row.payload, row.state] for row in rows],
        "domain": domain.pk,
        "audit": list(Entry.objects.order_by("sequence").values_list("action", flat=True)),
        "problems": [problem.message for problem in verify_with_authority().problems],
        "expression": policy.expression if policy else None,
        "versions": policy.versions.count() if policy else 0,
    }


def change_many(count: str) -> int:
    """Add event types one after the other, as one of several processes."""
    domain = Domain.objects.get(name="heating")
    for number in range(int(count)):
        catalog.create_event_type(actor=None, domain=domain, name=f"E{os.getpid()}x{number}")
    return int(count)


def put(topic: str, count: str) -> list[str]:
    """Put rows into the outbox."""
    return [
        outbox.put(topic=topic, key=f"{topic}:{n}", payload={"name": f"{topic}-{n}"}).key
        for n in range(int(count))
    ]


def claim_all(topic: str, limit: str, start: str = "") -> list[str]:
    """Claim until nothing is left to claim; begin when a file appears, if one is named."""
    if start:
        Path(f"{start}.{os.getpid()}").touch()
        while not Path(start).exists():
            time.sleep(0.001)
    keys: list[str] = []
    while rows := outbox.claim(topics=[topic], limit=int(limit)):
        keys += [row.key for row in rows]
    return keys


def hold(topic: str, count: str, release: str) -> list[str]:
    """Lock the first rows in an open transaction until a file appears."""
    with transaction.atomic():
        rows = OutboxRow.objects.select_for_update().filter(topic=topic).order_by("id")
        keys = [row.key for row in rows[: int(count)]]
        Path(f"{release}.held").touch()
        while not Path(release).exists():
            time.sleep(0.05)
    return keys


def row(key: str) -> dict[str, Any]:
    """One row of the outbox."""
    found = OutboxRow.objects.get(key=key)
    return {"state": found.state, "attempts": found.attempts, "error": found.error}


def age(key: str) -> int:
    """Make a claim look ten minutes old."""
    early = timedelta(minutes=10)
    return OutboxRow.objects.filter(key=key).update(
        claimed_at=F("claimed_at") - early, available_at=F("available_at") - early
    )


def send_sweep() -> bool:
    """Ask a worker to sweep, as the schedule does."""
    jobs.sweep.delay()
    return True


def sweep() -> bool:
    """Sweep as another worker would, which has nothing else to do."""
    jobs.sweep.run()
    return True


def send_twice(key: str) -> bool:
    """Hand one row to the workers two more times, as a relay that was cut off might."""
    for _ in range(2):
        jobs.work.delay(key)
    return True


COMMANDS: dict[str, Callable[..., Any]] = {
    command.__name__.replace("_", "-"): command
    for command in (
        engine, migrate_back, change, broken, state, change_many, put, claim_all, hold, row, age,
        send_sweep, send_twice, sweep,
    )
}  # fmt: skip

if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(COMMANDS[sys.argv[1]](*sys.argv[2:])))
    else:
        serve(COMMANDS)
