"""A control plane for policyctl: in this process, or in one of its own.

    python -m tests.support.policyctl_site

seeds the database that the environment names and prints the tokens.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from brokers.policyctl.http import API, Answer, Call, Progress
from tests.support.migrated import migrated
from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import REPOSITORY, Running

MODULE = "tests.support.policyctl_site"


def seed() -> dict[str, str]:
    """Two domains, of which `careful` asks a second person; tokens by what they are for."""
    from adminapp.catalog import services as catalog
    from adminapp.identity import services as identity
    from adminapp.identity.models import Domain
    from adminapp.policies import services as policies
    from adminapp.roles import services as roles

    operator = identity.create_user(actor=None, username="olga", operator=True)
    manager = identity.create_user(actor=operator, username="mona")
    stranger = identity.create_user(actor=operator, username="sten")
    flights = identity.create_domain(actor=operator, name="flights", title="Flights")
    careful = identity.create_domain(
        actor=operator, name="careful", title="Careful", approval=Domain.Approval.ALWAYS
    )
    heating = identity.create_domain(actor=operator, name="heating", title="Heating")
    for user, domain in ((manager, flights), (manager, careful), (stranger, heating)):
        identity.set_membership(actor=operator, user=user, domain=domain, role="manager")
    flight = catalog.create_event_type(
        actor=manager,
        domain=flights,
        name="Flight",
        attributes=[{"name": "carrier", "type": {"type": "string"}}],
    )
    roles.create_role(
        actor=manager, domain=flights, name="airline", rules=[{"appointments": ["licensed"]}]
    )
    united = identity.create_principal(
        actor=manager, domain=flights, name="United", kind="subscriber"
    )
    identity.create_principal(actor=manager, domain=flights, name="Delta", kind="subscriber")
    roles.appoint(actor=manager, principal=united, name="licensed")
    policies.create_policy(
        actor=manager,
        domain=flights,
        name="airlines read",
        action="subscribe",
        event_type=flight,
        expression='subject.role == "airline"',
    )
    wanted = {
        "manager": (manager, ["read", "write", "revoke"]),
        "reader": (manager, ["read"]),
        "stranger": (stranger, ["read", "write"]),
    }
    return {
        name: identity.issue_token(actor=user, user=user, name=name, scopes=scopes)[1]
        for name, (user, scopes) in wanted.items()
    }


class InProcess:
    """A transport to the application in this process."""

    def __init__(self, token: str) -> None:
        self._token = token

    def send(self, call: Call, progress: Progress | None = None) -> Answer:
        from django.test import Client

        query = f"?{urlencode(list(call.query))}" if call.query else ""
        headers = {**call.headers, "Authorization": f"Bearer {self._token}"}
        found = Client().generic(
            call.method,
            f"{API}{call.path}{query}",
            call.body or b"",
            headers.pop("Content-Type", "application/octet-stream"),
            headers=headers,
        )
        body = found.getvalue() if found.streaming else found.content
        if progress is not None:
            progress(len(body), len(body))
        return Answer(found.status_code, {n.lower(): v for n, v in found.items()}, body)


@contextmanager
def served(folder: Path) -> Iterator[tuple[Running, str, dict[str, str]]]:
    """The application behind uvicorn: its process, its address and the tokens."""
    environment = {"PORTCULLIS_ENV": "test", "PORTCULLIS_VAR": str(folder)}
    migrated(folder / "portcullis.sqlite3")
    process = Running([sys.executable, "-m", MODULE], log=folder / "seed", environment=environment)
    assert process.process.wait(120) == 0, process.text()
    tokens = json.loads((folder / "seed").read_text().splitlines()[-1])
    port = free_port()
    words = ["-m", "uvicorn", "adminapp.config.asgi:application", "--port", str(port)]
    server = Running(
        [sys.executable, *words, "--no-access-log"],
        log=folder / "server.log",
        environment=environment,
    )
    try:
        wait_until(lambda: answers(port), seconds=180, what="the server")
        yield server, f"http://127.0.0.1:{port}", tokens
    finally:
        server.stop()


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adminapp.config.settings")
    os.chdir(REPOSITORY)
    django.setup()
    print(json.dumps(seed()))
