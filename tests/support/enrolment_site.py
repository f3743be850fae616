"""A control plane in processes of its own that lets machines enrol: authority, application.

    python -m tests.support.enrolment_site

seeds the database that the environment names and prints an operator's token.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.migrated import migrated
from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import REPOSITORY, Running

MODULE = "tests.support.enrolment_site"
API = "/api/v1"


def seed() -> dict[str, str]:
    """An overlay, a domain with a principal at home at `alpha`, and an operator's token."""
    from adminapp.identity import services as identity

    operator = identity.create_user(actor=None, username="olga", operator=True)
    overlay = identity.create_overlay(actor=operator, name="a", title="Overlay A")
    flights = identity.create_domain(actor=operator, name="flights", title="Flights")
    # Typed in by hand, as in the release before; enrolled anew it gets other keys.
    alpha = identity.register_agent(
        actor=operator, name="alpha", overlay=overlay, sealing_key=b"k" * 32, verify_key=b"v" * 32
    )
    united = identity.create_principal(
        actor=operator, domain=flights, name="United", kind="subscriber", agents=[alpha]
    )
    token = identity.issue_token(
        actor=operator, user=operator, name="test", scopes=["read", "write", "revoke"]
    )[1]
    return {"token": token, "principal": str(united.pk), "handle": united.handle}


@dataclass
class EnrolmentSite:
    """A running control plane.

    Args:
        folder: for all of its state.
        url: its address.
        environment: of its processes.
        seeded: what `seed` printed.
    """

    folder: Path
    url: str
    environment: Mapping[str, str]
    seeded: Mapping[str, str]
    started: list[Running] = field(default_factory=list)

    def api(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call the REST interface as the operator; fails the test unless it answers well."""
        request = urllib.request.Request(
            f"{self.url}{API}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={
                "Authorization": f"Bearer {self.seeded['token']}",
                "Content-Type": "application/json",
                **headers,
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{path}: {error.code} {error.read().decode()}") from None

    def agent_token(self, name: str) -> str:
        wanted = {"kind": "agent", "name": name, "overlay": "a"}
        return str(self.api("POST", "/enrolment-tokens", wanted)["secret"])

    def client_token(self) -> str:
        wanted = {"kind": "client", "principal": int(self.seeded["principal"])}
        return str(self.api("POST", "/enrolment-tokens", wanted)["secret"])

    def waiting(self) -> list[dict[str, Any]]:
        """Requests that wait for a person and have proven all of their keys."""
        found = self.api("GET", "/enrolments?state=pending")["results"]
        return [row for row in found if row["proven_at"] is not None]

    def asked_by(self, running: Running) -> dict[str, Any]:
        """The one request that waits, once a command shows its fingerprint and has asked."""
        running.wait_for_text("fingerprint", seconds=180)
        # Not more often than needed: the command has to get on meanwhile.
        for _ in range(60):
            if found := self.waiting():
                (row,) = found
                return row
            time.sleep(1)
        raise AssertionError(f"no request waits:\n{running.text()}")

    def confirm(self, row: Mapping[str, Any], fingerprint: str) -> None:
        place = f"/enrolments/{row['id']}/confirm"
        self.api("POST", place, {"fingerprint": fingerprint}, **{"If-Match": "*"})

    def command(self, *words: str, log: str) -> Running:
        """Start `policyctl` with these words; what it prints goes to a file."""
        return Running(
            [sys.executable, "-m", "brokers.policyctl", *words],
            log=self.folder / log,
            environment=self.environment,
        )


@contextmanager
def enrolment_site(
    folder: Path, environment: Mapping[str, str] | None = None
) -> Iterator[EnrolmentSite]:
    """Authority and application, with an operator who may let machines in."""
    variables = {
        "PORTCULLIS_ENV": "test",
        "PORTCULLIS_VAR": str(folder / "var"),
        "PORTCULLIS_AUTHORITY_SOCKET": str(folder / "authority.sock"),
        "PYTHONPATH": str(REPOSITORY),
        **(environment or {}),
    }
    state = ("--state", str(folder / "authority"))
    steps = (
        ("-m", "tasks.authority", "init", *state, "--anchors", str(folder / "anchors.json")),
        ("-m", MODULE),
    )
    migrated(folder / "var" / "portcullis.sqlite3")
    for words in steps:
        process = Running([sys.executable, *words], log=folder / "seed", environment=variables)
        assert process.process.wait(300) == 0, process.text()
    seeded = json.loads((folder / "seed").read_text().splitlines()[-1])
    port = free_port()
    socket = variables["PORTCULLIS_AUTHORITY_SOCKET"]
    started: list[Running] = []
    try:
        for name, words in (
            ("authority", ("-m", "tasks.authority", "run", *state, "--socket", socket)),
            (
                "server",
                ("-m", "uvicorn", "adminapp.config.asgi:application", "--port", str(port)),
            ),
        ):
            log = folder / f"{name}.log"
            command = [sys.executable, *words]
            started.append(Running(command, log=log, environment=variables))
        started[0].wait_for_text("answering", seconds=180)
        wait_until(lambda: answers(port), seconds=180, what="the server")
        yield EnrolmentSite(folder, f"http://127.0.0.1:{port}", variables, seeded, started)
    finally:
        for process in reversed(started):
            process.stop()


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "adminapp.config.settings")
    os.chdir(REPOSITORY)
    django.setup()
    print(json.dumps(seed()))
