"""What the story is played with: processes, people at the console, clients, the oracle."""

from __future__ import annotations

import json
import logging
import secrets
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tasks.local import http, samples
from tasks.local.activemq import ActiveMQ
from tasks.local.capture import CaptureProxy
from tasks.local.clients import Clients, Name, Wish
from tasks.local.demo.browser import Browser, Page
from tasks.local.demo.oracle import Oracle
from tasks.local.errors import LocalError
from tasks.local.layout import AGENTS, Layout
from tasks.local.ports import free_port
from tasks.local.samples import Document, SampleEvent
from tasks.local.stack import Stack
from tasks.local.supervisor import Part

MANAGER = "maria"
UNACKNOWLEDGED = ("built", "sent", "received")


class World:
    """One fresh copy of the product in `folder`, with all its STOMP traffic captured."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self.layout = Layout(folder / "state", free_port())
        self.capture = folder / "capture"
        self.stack = Stack(self.layout, say, through=self._proxies)
        self.documents: dict[str, Document] = samples.organisations()
        self.wishes = _wishes(self.documents)
        self.oracle = Oracle(self.documents, self.wishes)
        self.clients = Clients(self.layout, self.documents)
        self.operator = Browser(self.layout.address)
        self.manager = Browser(self.layout.address)
        self._captures: list[CaptureProxy] = []

    # -- life ----------------------------------------------------------------------------

    def start(self) -> None:
        """Start every process, and sign in an operator and a manager of both domains."""
        self.stack.start_brokers()
        self._log_clients()
        self.stack.start_authority()
        made = self.stack.prepare()
        self.stack.start_control_plane()
        self.stack.start_agents()
        self.operator.sign_in(made["username"], made["password"])
        self._make_manager()

    def stop(self) -> None:
        """Stop everything that was started here."""
        self.clients.close()
        self.stack.stop()
        for proxy in self._captures:
            proxy.stop()

    def _log_clients(self) -> None:
        """What the client library says goes to a file of its own, like every other part's."""
        logger = logging.getLogger("portcullis")
        logger.addHandler(logging.FileHandler(self.layout.logs / "clients.log"))
        logger.propagate = False

    def _proxies(self, brokers: Mapping[str, ActiveMQ]) -> dict[str, tuple[str, int]]:
        addresses = {}
        for name, broker in brokers.items():
            target = (broker.host, broker.port)
            proxy = CaptureProxy(self.capture, name=name, target=target)
            proxy.start()
            self._captures.append(proxy)
            addresses[name] = proxy.address
        return addresses

    def _make_manager(self) -> None:
        password = secrets.token_urlsafe(15)
        body = {"username": MANAGER, "password": password}
        require(self.operator.api("POST", "/api/v1/users", body), 201)
        for domain in self.documents:
            membership = {"user": MANAGER, "domain": domain, "role": "manager"}
            require(self.operator.api("POST", "/api/v1/memberships", membership), 201)
        self.manager.sign_in(MANAGER, password)

    # -- agents --------------------------------------------------------------------------

    def part(self, name: str) -> Part:
        """A process by its name."""
        return next(part for part in self.stack.supervisor.parts if part.name == name)

    def agent_status(self, name: str) -> dict[str, Any]:
        """What an agent says of itself; empty while it is down."""
        config = tomllib.loads(self.layout.agent_config(name).read_text())
        return http.get_json(f"http://127.0.0.1:{config['http_port']}/status") or {}

    def kill(self, name: str) -> None:
        """`kill -9` a process."""
        self.part(name).child.kill()

    def restart(self, name: str) -> None:
        """Start a killed process again and wait until it answers."""
        part = self.part(name)
        part.child.start()
        wait(f"{name} to answer again", part.ready, seconds=120)

    # -- control plane -------------------------------------------------------------------

    def rows(self, path: str) -> list[dict[str, Any]]:
        """All rows of a list of the REST API, page after page."""
        found: list[dict[str, Any]] = []
        joiner = "&" if "?" in path else "?"
        following = f"/api/v1/{path}{joiner}limit=200"
        while following:
            page = require(self.operator.api("GET", following), 200).json()
            found += page["results"]
            following = page["next"]
        return found

    def revision(self, domain: str) -> int:
        """The domain's newest revision."""
        return next(int(r["revision"]) for r in self.rows("domains") if r["name"] == domain)

    def acknowledged(self, domain: str) -> dict[str, int]:
        """Agent -> the revision that it acknowledged, signed."""
        return {
            row["audience"].removeprefix("agent:"): int(row["revision"])
            for row in self.rows(f"recipients?domain={domain}")
            if row["audience"].startswith("agent:")
        }

    def settled(self, domain: str) -> bool:
        """Whether every agent holds the newest revision and nothing is on its way to anybody."""
        revision = self.revision(domain)
        held = self.acknowledged(domain)
        if set(held) != self.agents_of(domain) or set(held.values()) != {revision}:
            return False
        waiting = (f"bundles?domain={domain}&state={state}" for state in UNACKNOWLEDGED)
        return not any(self.rows(path) for path in waiting)

    def settle(self, domain: str, *, seconds: float = 240.0) -> None:
        """Wait until settled; LocalError with what is missing when it takes too long."""
        try:
            wait(f"{domain} to settle", lambda: self.settled(domain), seconds=seconds, step=0.5)
        except LocalError as error:
            held = json.dumps(self.acknowledged(domain))
            raise LocalError(
                f"{error}: newest revision {self.revision(domain)}, agents hold {held}"
            ) from None

    def agents_of(self, domain: str) -> set[str]:
        """The agents that are home to somebody of the domain, as its file says."""
        return {
            agent for p in self.documents[domain]["principals"] for agent in p["agents"].values()
        }

    def remaining(self, events: Iterable[SampleEvent]) -> list[SampleEvent]:
        """Those of the events whose publishers were not revoked."""
        return [one for one in events if (one.domain, one.publisher) not in self.oracle.revoked]

    def handle(self, name: Name) -> str:
        """A principal's pseudonym."""
        domain, principal = name
        rows = self.rows(f"principals?domain={domain}")
        return next(str(row["handle"]) for row in rows if row["name"] == principal)


def require(page: Page, status: int) -> Page:
    """The page, or LocalError with what the control plane said instead."""
    if page.status != status:
        raise LocalError(f"{page.url} answered {page.status}, not {status}: {page.words[:600]}")
    return page


def wait(what: str, condition: Callable[[], bool], *, seconds: float, step: float = 0.1) -> float:
    """Wait until the condition holds; the seconds it took. LocalError when it takes too long."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise LocalError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(step)
    return time.monotonic() - began


def _wishes(documents: Mapping[str, Document]) -> dict[Name, list[Wish]]:
    """Everybody asks for everything, so that policies alone decide; some add a filter."""
    widest = {"heating": "Telemetry", "flights": "Flight"}
    filters = {("flights", "DL"): [Wish("Departure", "distance > 1000"), Wish("Arrival")]}
    return {
        (domain, principal["name"]): filters.get(
            (domain, principal["name"]), [Wish(widest[domain])]
        )
        for domain, document in documents.items()
        for principal in document["principals"]
        if principal["kind"] == "subscriber"
    }


__all__ = ["AGENTS", "MANAGER", "World", "require", "wait"]
