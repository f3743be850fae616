"""Agents and clients in memory, and a control plane that is pumped by hand.

The audiences check and answer everything as the protocol says, with the engine alone; the work
of the outbox goes through the same handlers as in a Celery worker, over a broker made of lists.
"""

from __future__ import annotations

import secrets
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from adminapp.core import authority as authority_client
from adminapp.distribution import recompute, services
from adminapp.identity import services as identity
from adminapp.identity.models import Principal
from adminapp.outbox.models import OutboxRow
from brokers.control.roots import follow
from brokers.ports import Outgoing
from policyengine.bundles import FilterAnswer, Root, messages, open_filter_answer
from policyengine.bundles.addresses import control_queue
from policyengine.bundles.anchors import TrustAnchors
from policyengine.bundles.chunks import Gathering
from policyengine.bundles.entries import Content
from policyengine.bundles.envelope import (
    OpenedBundle,
    open_manifest,
    opened_bundle,
    read_delta,
    read_whole,
)
from policyengine.bundles.header import Manifest
from policyengine.bundles.model import AgentContent
from policyengine.bundles.state import TrustedState
from policyengine.errors import RejectedError
from policyengine.primitives.hpke import SealingKey, generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import SigningKey, generate_signing_key
from tasks import handlers
from tasks.authority.operations import Operations
from tasks.authority.server import AuthorityServer
from tasks.authority.store import create_state, load_state

__all__ = ["Audience", "Plane", "live_authority", "plane"]


_SERVERS: dict[Path, AuthorityServer] = {}


def begin_journal(authority: Path, folder: Path) -> None:
    """Let the authority remember nothing but its keys: every test begins with an empty database."""
    kept = shutil.ignore_patterns("journal", "audit.json", "fence")
    shutil.copytree(authority.parent / "state", folder, ignore=kept, dirs_exist_ok=True)
    _SERVERS[authority].operations = Operations(load_state(folder))


def resume_journal(authority: Path, state: Path, folder: Path) -> None:
    """Let the authority remember what it did when `state` was copied from its own."""
    shutil.copytree(state, folder, dirs_exist_ok=True)
    _SERVERS[authority].operations = Operations(load_state(folder))


def state_of(authority: Path) -> Path:
    """The state folder that the authority works with now."""
    return _SERVERS[authority].operations._state.folder


@pytest.fixture(scope="session")
def live_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A real authority on a socket of its own."""
    folder = tmp_path_factory.mktemp("authority")
    path = folder / "authority.sock"
    server = AuthorityServer(path, Operations(create_state(folder / "state", SYSTEM_RANDOM)))
    _SERVERS[path] = server
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield path
    del _SERVERS[path]
    authority_client.get_authority().close()
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Audience:
    """One agent or client."""

    address: str
    anchors: TrustAnchors
    sealing: SealingKey = field(default_factory=generate_sealing_key)
    signing: SigningKey = field(default_factory=generate_signing_key)
    bundles: dict[str, OpenedBundle] = field(default_factory=dict)
    leases: list[messages.Lease] = field(default_factory=list)
    answers: list[FilterAnswer] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    deaf: bool = False
    reads: tuple[str, ...] = ()
    forms: list[str] = field(default_factory=list)
    sealed: dict[str, tuple[str, Content]] = field(default_factory=dict)
    root: Root | None = None
    gathering: dict[str, Gathering] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.state = TrustedState(self.address, {}, {}, {}, {})

    def forget(self) -> None:
        """Lose everything but the keys."""
        self.__post_init__()
        self.bundles.clear()
        self.sealed.clear()
        self.gathering.clear()

    def take(self, body: bytes) -> list[bytes]:
        """Deal with one control message; returns what goes to the requests queue."""
        control = messages.decode_control(body)
        if control.kind == "lease":
            self.leases.append(
                messages.open_lease(
                    control.payload,
                    key=self.sealing,
                    audience=self.address,
                    lease_key=self.anchors.lease,
                )
            )
            return []
        if control.kind == "notice":
            return [self._notice(control.payload)]
        if control.kind == "root":
            now = timezone.now().timestamp()
            self.root = follow(control.payload, current=self.root, now=now).root
            self.anchors = self.root.anchors()
            return []
        if control.kind == "chunk":
            gathering = self.gathering[control.domain].add(control.payload, key=self.sealing)
            self.gathering[control.domain] = gathering
            return [self._complete(gathering.finish())] if gathering.complete else []
        if control.kind == "filter-key":
            self.answers.append(
                open_filter_answer(
                    control.payload,
                    key=self.sealing,
                    audience=self.address,
                    policy_key=self.anchors.policy,
                )
            )
            return []
        return [self._bundle(control.domain, control.payload)]

    def _notice(self, payload: bytes) -> bytes:
        notice = messages.open_notice(
            payload, key=self.sealing, audience=self.address, notice_key=self.anchors.notice
        )
        self.state = self.state.noticed(notice)
        return self.ack(notice.domain, "notice", notice.number, "", "applied")

    def _bundle(self, domain: str, payload: bytes) -> bytes:
        manifest = open_manifest(
            payload,
            key=self.sealing,
            audience=self.address,
            domain=domain,
            policy_key=self.anchors.policy,
        )
        if manifest.header.chunks:
            self.gathering[domain] = Gathering(manifest)
            return self.ack(domain, "bundle", manifest.header.revision, manifest.digest, "received")
        return self._complete(manifest)

    def _complete(self, manifest: Manifest) -> bytes:
        header, digest = manifest.header, manifest.digest
        domain, number = header.domain, header.revision
        try:
            self.state.check(header, digest, int(timezone.now().timestamp()))
            if header.form == "delta":
                before, content = self.sealed[domain]
                assert before == header.previous
                content = read_delta(manifest, content)
            else:
                content = read_whole(manifest)
        except RejectedError as error:
            self.refusals.append(error.reason)
            return self.ack(domain, "bundle", number, digest, "rejected", error.reason)
        opened = opened_bundle(manifest, content, key=self.sealing)
        through = getattr(opened.content, "notices_through", 0)
        self.state = self.state.applied(header, digest, notices_through=through)
        self.bundles[domain] = opened
        self.sealed[domain] = (digest, content)
        self.forms.append(header.form)
        return self.ack(domain, "bundle", number, digest, "applied")

    def held(self) -> dict[str, Any]:
        """What a report says."""
        return {
            domain: {
                "revision": held.revision,
                "digest": held.digest,
                "notice": self.state.notices.get(domain, 0),
                "epochs": self._epochs(domain),
            }
            for domain, held in self.state.revisions.items()
        }

    def _epochs(self, domain: str) -> dict[int, str]:
        content = self.bundles[domain].content
        return {e.epoch: e.state for e in getattr(content, "epochs", ())}

    def ack(
        self, domain: str, what: str, number: int, digest: str, status: str, reason: str = ""
    ) -> bytes:
        """A signed acknowledgement."""
        ack = messages.Acknowledgement(
            audience=self.address,
            domain=domain,
            what=what,
            number=number,
            digest=digest,
            status=status,
            reason=reason,
            at=int(timezone.now().timestamp()),
            held=self.held(),
        )
        return messages.sign_ack(ack, self.signing).encode()

    def lease_request(self) -> bytes:
        """A signed lease request with a fresh nonce."""
        request = messages.LeaseRequest(
            audience=self.address,
            nonce=secrets.token_hex(16),
            held=self.held(),
            at=int(timezone.now().timestamp()),
            reads=self.reads,
            root=self.anchors.root_version,
        )
        return messages.sign_lease_request(request, self.signing).encode()

    def content(self, domain: str) -> Any:
        """The content in force."""
        return self.bundles[domain].content

    def agent(self, domain: str) -> AgentContent:
        """The content in force, of an agent."""
        content = self.content(domain)
        assert isinstance(content, AgentContent)
        return content


class Plane:
    """A control plane whose worker and broker run when they are told to."""

    def __init__(self) -> None:
        self.anchors = authority_client.get_authority().anchors()
        self.audiences: dict[str, Audience] = {}
        self.queues: dict[str, list[bytes]] = defaultdict(list)
        self.broken = False
        self.sent: list[str] = []

    # -- audiences -----------------------------------------------------------------------

    def agent(self, name: str) -> Audience:
        """Keys for an agent, to be registered."""
        return self._audience(f"agent:{name}")

    def client(self, principal: Principal) -> Audience:
        """Make keys for a principal and register them."""
        made = self._audience(f"client:{principal.handle}")
        identity.register_credentials(
            actor=None,
            principal=principal,
            sealing_key=made.sealing.public,
            verify_key=made.signing.public,
        )
        return made

    def _audience(self, address: str) -> Audience:
        made = Audience(address, self.anchors)
        self.audiences[address] = made
        return made

    # -- broker --------------------------------------------------------------------------

    def send(self, queue: str, body: bytes, **_: Any) -> None:
        """The transport's part."""
        if self.broken:
            raise ConnectionError("the broker is away")
        self.queues[queue].append(body)
        self.sent.append(queue)

    def send_many(self, messages: Iterable[Outgoing], **_: Any) -> None:
        """The transport's part, of many."""
        for each in messages:
            self.send(each.queue, each.body, headers=dict(each.headers))

    # -- running -------------------------------------------------------------------------

    def work(self) -> int:
        """Do everything that is due in the outbox; returns how many rows."""
        count = 0
        while rows := self._due():
            for key, topic in rows:
                count += 1
                if topic == "recompute":
                    self._recompute(key)
                else:
                    handlers.work(key, sender=lambda: self)
        return count

    def _due(self) -> list[tuple[str, str]]:
        due = OutboxRow.objects.filter(state="pending", available_at__lte=timezone.now())
        return list(due.order_by("id").values_list("key", "topic"))

    def _recompute(self, key: str) -> None:
        row = OutboxRow.objects.get(key=key)
        job = recompute.take(row.payload["job"])
        if job is not None:
            recompute.encode_here(recompute.workload(job))
            recompute.finish(job)
        OutboxRow.objects.filter(key=key).update(state="done")

    def deliver(self) -> int:
        """Hand over what stands in the queues, and answer what comes back."""
        count = 0
        for audience in self.audiences.values():
            queue = self.queues[control_queue(audience.address)]
            if audience.deaf:
                continue
            for _ in range(len(queue)):
                count += 1
                for request in audience.take(queue[0]):
                    self.receive(request)
                del queue[0]  # only once it is dealt with
        return count

    def receive(self, *requests: bytes) -> None:
        """What serve_agents does with messages that it takes at once."""
        for group in services.answer_requests(requests):
            for _, answers in group:
                for queue, body in answers:
                    self.queues[queue].append(body)

    def settle(self) -> None:
        """Work and deliver until nothing moves any more."""
        for _ in range(100):
            if not self.work() + self.deliver():
                return
        raise AssertionError("the control plane does not come to rest")

    def lease_all(self) -> None:
        """Every audience that listens asks for a lease and gets its answer."""
        listening = [each for each in self.audiences.values() if not each.deaf]
        self.receive(*(each.lease_request() for each in listening))
        self.deliver()


@pytest.fixture
def plane(
    db: None, live_authority: Path, settings: Any, tmp_path_factory: pytest.TempPathFactory
) -> Plane:
    """A control plane with a real authority and nobody in it."""
    begin_journal(live_authority, tmp_path_factory.mktemp("journal"))
    settings.AUTHORITY_SOCKET = live_authority
    settings.DRAIN_SECONDS = 0
    return Plane()
