"""An agent enrols by the command alone and works at a real broker, by its certificate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.local.activemq import java
from tasks.local.processes import Child
from tests.support.certificates import Issuer, named
from tests.support.enrolment_site import EnrolmentSite, enrolment_site
from tests.support.ports import answers, free_port, wait_until
from tests.support.processes import REPOSITORY, Running

pytestmark = [pytest.mark.activemq, pytest.mark.slow]


class Stage:
    """The site, its broker, and what runs around them.

    Args:
        folder: for everything.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.broker = folder, folder / "amq"
        self.broker.mkdir()
        self.port = free_port()
        self.issuer = Issuer(folder)
        files = vars(self.issuer.issue(named("control", "control")))
        where = {"host": "127.0.0.1", "port": self.port}
        own = {"control": "a", "overlays": {"a": {**where, "tls": files}}}
        told = {"control": "a", "overlays": {"a": {**where, "ca": "ca.pem"}}}
        self._write("control.json", own)
        self._write("told.json", told)
        self.environment = {
            "PORTCULLIS_BROKERS_FILE": str(folder / "control.json"),
            "PORTCULLIS_ENROLMENT_BROKERS": str(folder / "told.json"),
        }
        self.started: list[Running | Child] = []

    def _write(self, name: str, document: Any) -> None:
        (self.folder / name).write_text(json.dumps(document))
        (self.folder / name).chmod(0o600)

    def manage(self, site: EnrolmentSite, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=REPOSITORY,
            env={**os.environ, **site.environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def render(self, site: EnrolmentSite) -> None:
        self.manage(
            site,
            *("render_activemq", "a", "--with-control", "--out", str(self.broker)),
            *("--host", "127.0.0.1", "--port", str(self.port), "--store-mb", "128"),
        )

    def start_broker(self, site: EnrolmentSite) -> None:
        self.render(site)
        self.issuer.equip(self.broker, self.manage(site, "enrolment_ca"))
        for name in ("data", "tmp"):
            (self.broker / name).mkdir()
        child = Child(
            "rendered",
            java.command(self.broker),
            log=self.broker / "log",
            env=java.environment(),
            cwd=self.broker,
        )
        child.start()
        self.started.append(child)
        wait_until(lambda: answers(self.port), seconds=120, what="the broker")

    def start(self, site: EnrolmentSite, name: str, *words: str) -> Running:
        log = self.folder / f"{name}.log"
        made = Running([sys.executable, *words], log=log, environment=site.environment)
        self.started.append(made)
        return made

    def start_control(self, site: EnrolmentSite) -> None:
        self.start(site, "serve", "manage.py", "serve_agents")
        self.start(site, "relay", "manage.py", "relay_outbox")
        celery = ("-m", "celery", "-A", "tasks.celery", "worker", "--concurrency", "1")
        self.start(site, "worker", *celery, "--without-gossip", "--without-mingle")

    def stop(self) -> None:
        for process in reversed(self.started):
            process.stop()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path)
    try:
        yield made
    finally:
        made.stop()


def enrol(site: EnrolmentSite, folder: Path) -> None:
    """Have `alpha` enrol by the command, and let it in as a person does."""
    words = ("--token", site.agent_token("alpha"), "--folder", str(folder))
    running = site.command("enrol", "agent", "--url", site.url, *words, log="enrol.log")
    row = site.asked_by(running)
    (line,) = (text for text in running.text().splitlines() if text.startswith("fingerprint"))
    site.confirm(row, line.removeprefix("fingerprint"))
    assert running.process.wait(120) == 0, running.text()


def test_an_enrolled_agent_works_until_it_is_banned(stage: Stage, tmp_path: Path) -> None:
    with enrolment_site(tmp_path, stage.environment) as site:
        folder = tmp_path / "alpha"
        enrol(site, folder)
        stage.start_broker(site)
        stage.start_control(site)
        config = str(folder / "agent.toml")
        agent = stage.start(site, "alpha", "-m", "brokers.agent", "run", "--config", config)

        def held() -> dict[str, Any]:
            found = site.api("GET", "/recipients?audience=agent:alpha")["results"]
            return found[0] if found else {}

        wait_until(
            lambda: held().get("revision", 0) > 0 and held()["leased_until"] is not None,
            seconds=240,
            what="its bundle and its lease",
        )
        assert held()["reason"] == ""
        # Banned, it is no user of the broker any more, and gets no lease.
        (row,) = site.api("GET", "/agents")["results"]
        site.api("PATCH", f"/agents/{row['id']}", {"state": "banned"}, **{"If-Match": "*"})
        before = held()["leased_until"]
        stage.render(site)
        agent.stop()
        stage.start(site, "again", "-m", "brokers.agent", "run", "--config", config)
        refused = "No user for client certificate: CN=alpha, OU=agents, UID="
        wait_until(
            lambda: refused in (stage.broker / "log").read_text(),
            seconds=120,
            what="the broker to refuse it",
        )
        assert held()["leased_until"] == before
