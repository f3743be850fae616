"""An agent's control side that dies at a named point, and a control plane that sends again.

The agent's own code stands on a disk that can be cut off (`fragile_disk`) and on a broker in
memory that keeps what was not acknowledged. The control plane sends what is not acknowledged,
as the real one does when it reconciles, and notes every acknowledgement: what it was told may
never be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters.control_link import ControlLink
from brokers.adapters.files import BundleFolder, StateFile, SubscriptionFile
from brokers.adapters.rootfile import RootFile
from brokers.agent.policy import InForce, PolicyInForce, Progress
from brokers.control.intake import open_from_disk
from brokers.control.sync import Identity
from brokers.ports import Message, Outgoing
from policyengine.bundles import (
    REQUESTS_QUEUE,
    Floor,
    Floors,
    Lease,
    Notice,
    OpenedBundle,
    SealedBundle,
    TrustedState,
    build_bundle,
    control_queue,
    decode_request,
    difference,
    encode_control,
    encode_roots,
    open_root,
    seal_lease,
    seal_notice,
    verify_ack,
    verify_lease_request,
)
from policyengine.primitives import sign
from tests.support.data_plane import airport
from tests.support.fragile_disk import Deaths, Died, FragileDisk
from tests.support.memory_broker import MemoryBroker, MemoryTransport
from tests.support.roots import ISSUED, YEAR, online, root, signed

ORGANISATION = airport()
ALPHA = "agent:alpha"
DOMAIN = "flights"
KEYS = ORGANISATION.public_keys(ALPHA)
FIRST = signed(root(1))
SECOND = signed(root(2, generation=2, reset=(DOMAIN,)))
CONTENT = ORGANISATION.agent_content("alpha")
LATER = replace(CONTENT, lease_seconds=CONTENT.lease_seconds + 1, clients=CONTENT.clients[1:])
DENIED, HELD_BACK = (client.handle for client in CONTENT.clients[:2])
_MOST_ROUNDS = 40


def make_bundle(content: Any, revision: int, *, generation: int = 1, **more: Any) -> SealedBundle:
    """A bundle as the authority signs it under some root."""
    return build_bundle(
        **{
            "domain": DOMAIN, "audience": ALPHA, "revision": revision, "previous": "",
            "issued": ISSUED, "expires": ISSUED + YEAR, "root_version": generation,
            "content": content, "sign": partial(sign, online("policy", generation)),
            "recipient": KEYS.sealing.public, **more,
        }
    )  # fmt: skip


def make_notice(number: int, **more: Any) -> bytes:
    """A notice under the first root."""
    notice = Notice(
        **{
            "number": number, "audience": ALPHA, "domain": DOMAIN, "revocation": f"r-{number}",
            "deny": (), "reason": "revoked", "issued": ISSUED, **more,
        }
    )  # fmt: skip
    return seal_notice(notice, sign=partial(sign, online("notice")), recipient=KEYS.sealing.public)


@dataclass(frozen=True)
class Step:
    """Something that the control plane brings to the agent.

    Args:
        name: what it is.
        messages: to be sent, in order.
        told: the acknowledgement (what, number) that ends it; None where another sign does.
        root: the root that the agent must say it trusts.
        lease: the key generation with which it is given leases, until it serves.
    """

    name: str
    messages: tuple[bytes, ...] = ()
    told: tuple[str, int] | None = None
    root: int = 0
    lease: int = 0


def story() -> tuple[Step, ...]:
    """Every kind of message once; what it says is the same in every play."""
    first = make_bundle(CONTENT, 1)
    delta = make_bundle(LATER, 2, previous=first.digest, delta=difference(CONTENT, LATER))
    parts = make_bundle(CONTENT, 3, limit=16_400, chunk=6_000)
    assert len(parts.chunks) > 1
    floors = Floors((Floor(HELD_BACK, 5),), (), 0)
    frame = partial(encode_control, "bundle", DOMAIN)
    pieces = [encode_control("chunk", DOMAIN, chunk) for chunk in parts.chunks]
    notices = (
        make_notice(1, deny=(DENIED,)),
        make_notice(2, floors=floors),
    )
    said = [encode_control("notice", DOMAIN, notice) for notice in notices]
    return (
        Step("whole", (frame(first.message),), ("bundle", 1)),
        Step("delta", (frame(delta.message),), ("bundle", 2)),
        Step("parts", (frame(parts.message), *pieces), ("bundle", 3)),
        Step("notice", (said[0],), ("notice", 1)),
        Step("second notice", (said[1],), ("notice", 2)),
        Step("lease", lease=1),
        Step("root", (encode_control("root", "", encode_roots([SECOND])),), root=2),
        Step(
            "whole under the next root",
            (frame(make_bundle(LATER, 4, generation=2).message),),
            ("bundle", 4),
        ),
        Step("lease under the next root", lease=2),
    )


class _Clock:
    def __init__(self) -> None:
        self.time = ISSUED + 100.0

    def wall(self) -> float:
        return self.time

    def boot(self) -> float:
        return self.time


class _Line(MemoryTransport):
    """A transport on which the agent may die."""

    def __init__(self, broker: MemoryBroker, deaths: Deaths) -> None:
        super().__init__(broker)
        self._deaths = deaths

    def receive_many(self, limit: int, timeout: float) -> list[Message]:
        found = super().receive_many(limit, timeout)
        if found:
            self._deaths.point("received")
        return found

    def _ack(self, handle: Any) -> None:
        self._deaths.point("take it off the queue")
        super()._ack(handle)
        self._deaths.point("it is off the queue")

    def send_many(self, messages: Iterable[Outgoing], *, timeout: float = 30.0) -> None:
        for message in messages:
            kind = "acknowledge" if decode_request(message.body).kind == "ack" else "ask"
            self._deaths.point(kind)
            super().send_many([message], timeout=timeout)
            self._deaths.point(f"{kind}: the broker has it")


class _Policy(PolicyInForce):
    """What is in force; the agent may die before and after each swap."""

    deaths: Deaths

    def prepare(self, opened: OpenedBundle, state: TrustedState) -> InForce:
        self.deaths.point("verified")
        return super().prepare(opened, state)

    def commit(self, domain: str, prepared: object) -> None:
        self.deaths.point("swap in")
        super().commit(domain, prepared)
        self.deaths.point("swapped in")

    def deny(self, domain: str, handles: frozenset[str]) -> None:
        self.deaths.point("deny")
        super().deny(domain, handles)

    def hold(self, domain: str, floors: Floors) -> None:
        self.deaths.point("hold back")
        super().hold(domain, floors)


@dataclass
class Ending:
    """How a play ended.

    Args:
        state: the trusted state on disk.
        root: version of the root.
        content: what is kept on disk of the domain, opened.
        revision: of what is in force.
        denied: who is denied by what is in force.
        told: every acknowledgement that something is applied.
        deaths: names of the points at which it died.
        problems: what must not be.
    """

    state: object
    root: int
    content: object
    revision: int
    denied: frozenset[str]
    told: frozenset[tuple[str, int]]
    deaths: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


class Play:
    """The story, played to an agent that dies at some points.

    Args:
        folder: for its files.
        patch: puts the disk in its place.
        deaths: where it dies.
        power: whether the machine loses its power with it.
        steps: the story.
        lies: whether the disk does not do what it says.
    """

    def __init__(
        self,
        folder: Path,
        patch: pytest.MonkeyPatch,
        deaths: Deaths,
        *,
        power: bool,
        steps: tuple[Step, ...],
        lies: bool = False,
    ) -> None:
        self._folder, self._deaths, self._power, self._steps = folder, deaths, power, steps
        self._disk = FragileDisk(folder, deaths, lies=lies)
        self._disk.install(patch)
        self._broker, self._clock = MemoryBroker(), _Clock()
        self._told: dict[tuple[str, int], int] = {}
        self._asked: list[Any] = []
        self._highest: dict[int, int] = {}
        self._denied: frozenset[str] = frozenset()
        self._root = 1
        self._died: list[str] = []
        self._problems: list[str] = []

    def run(self) -> Ending:
        """Play it to its end."""
        self._live(self._boot)
        for step in self._steps:
            self._play(step)
        self._look()
        state, policy = self._link.view.state, self._policy
        kept = BundleFolder(self._folder / "bundles").load(DOMAIN) or b""
        identity = Identity(ALPHA, KEYS.sealing, open_root(SECOND).anchors())
        _, content = open_from_disk(kept, domain=DOMAIN, identity=identity)
        snapshot = policy.domains[DOMAIN].snapshot
        if StateFile(self._folder / "trusted.json", ALPHA).load() != state:
            self._problems.append("the disk holds another state")
        return Ending(
            state.to_json(), self._link.root_version, content, snapshot.revision,
            snapshot.denied, frozenset(self._told), self._died, self._problems,
        )  # fmt: skip

    # the agent

    def _boot(self) -> None:
        self._line = _Line(self._broker, self._deaths)
        self._policy = _Policy(
            agent="alpha",
            overlay=CONTENT.overlay,
            sealing_key=KEYS.sealing,
            subscription_file=SubscriptionFile(self._folder / "subscriptions.json"),
            progress=Progress(),
        )
        self._policy.deaths = self._deaths
        self._link = ControlLink(
            transport=self._line,
            identity=Identity(ALPHA, KEYS.sealing, open_root(FIRST).anchors()),
            signing_key=KEYS.signing,
            bundles=BundleFolder(self._folder / "bundles"),
            state_file=StateFile(self._folder / "trusted.json", ALPHA),
            clock=self._clock,
            applier=self._policy,
            roots=RootFile(self._folder / "roots.json", FIRST),
        )
        self._link.restore()
        self._look()
        if self._link.standing(DOMAIN) == "serving":
            self._problems.append("it serves after a start, without a lease")
        self._link.listen()

    def _live(self, work: Callable[[], None]) -> bool:
        """Do some work; whoever dies of it is started again. Returns whether nobody died."""
        try:
            work()
        except Died as death:
            self._died.append(str(death))
            self._line.close()
            self._listen_in()
            if self._power:
                self._disk.lose_power()
            else:
                self._disk.keep_all()
            self._live(self._boot)
            return False
        return True

    # the control plane

    def _play(self, step: Step) -> None:
        self._deaths.doing = step.name
        sent = False
        for _ in range(_MOST_ROUNDS):
            if not sent and self._idle():
                for message in step.messages:
                    self._broker.put(control_queue(ALPHA), message)
                sent = True
            self._clock.time += 3
            if not self._live(lambda: self._link.step(0)):
                sent = False  # what is not acknowledged is sent once more
            self._listen_in()
            if self._done(step):
                return
            if step.lease:
                self._lease(step.lease)
        self._problems.append(f"{step.name} did not come to its end")

    def _idle(self) -> bool:
        return not self._broker.bodies(control_queue(ALPHA))

    def _done(self, step: Step) -> bool:
        if step.told is not None:
            return step.told in self._told
        if step.root:
            return any(asked.root == step.root for asked in self._asked)
        return self._link.standing(DOMAIN) == "serving"

    def _listen_in(self) -> None:
        for body in self._broker.bodies(REQUESTS_QUEUE):
            request = decode_request(body)
            if request.kind == "lease":
                self._asked.append(verify_lease_request(request, KEYS.signing.public))
                continue
            ack = verify_ack(request, KEYS.signing.public)
            if ack.status == "applied":
                self._told[(ack.what, ack.number)] = self._root
        self._broker.queues.pop(REQUESTS_QUEUE, None)
        if self._asked:
            self._asked = self._asked[-1:]

    def _lease(self, generation: int) -> None:
        if not self._asked:
            return
        lease = Lease(
            audience=ALPHA,
            nonce=self._asked.pop().nonce,
            time=self._clock.time,
            seconds={DOMAIN: 30},
            domains={DOMAIN: {"minimum_revision": 1, "minimum_notice": 0}},
            root=generation,
        )
        sealed = seal_lease(
            lease, sign=partial(sign, online("lease", generation)), recipient=KEYS.sealing.public
        )
        self._broker.put(control_queue(ALPHA), encode_control("lease", "", sealed))

    # what must hold at every moment

    def _look(self) -> None:
        """Compare what a start found on the disk with what was told, and with before."""
        link, policy = self._link, self._policy
        version = link.root_version
        if version < self._root:
            self._problems.append(f"root {self._root} became {version}")
        self._root = max(self._root, version)
        held = link.view.state.revisions.get(DOMAIN)
        revision = 0 if held is None else held.revision
        numbers = [number for (what, number), under in self._told.items()
                   if what == "bundle" and under == version]  # fmt: skip
        floor = max([self._highest.get(version, 0), *numbers])
        if revision < floor:
            self._problems.append(f"revision {floor} became {revision} at {self._died[-1:]}")
        in_force = policy.domains.get(DOMAIN)
        if revision and (in_force is None or in_force.snapshot.revision != revision):
            self._problems.append(f"revision {revision} is not in force at {self._died[-1:]}")
        self._highest[version] = revision
        denied = link.view.state.denied.get(DOMAIN, frozenset())
        if denied < self._denied:
            self._problems.append("somebody who was denied came back")
        if ("notice", 1) in self._told and DENIED not in denied:
            self._problems.append("a notice that was acknowledged is lost")
        self._denied = denied
