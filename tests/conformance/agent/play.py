"""Plays the steps of a case against an agent, and holds it against the model after each."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

from policyengine.bundles import (
    Acknowledgement,
    Floor,
    Floors,
    LeaseRequest,
    SignedRoot,
    decode_framed,
    decode_request,
    encode_control,
    open_delivery,
    verify_ack,
    verify_lease_request,
)
from policyengine.bundles import Lease as LeaseRecord
from policyengine.bundles import Notice as NoticeRecord
from policyengine.primitives.canonical import dumps
from tests.conformance.agent import forgeries
from tests.conformance.agent.contract import AgentUnderTest, Clock, Holding, Place
from tests.conformance.agent.model import APPLIED, SILENCE, Disk, Model
from tests.conformance.agent.world import (
    ALPHA,
    ANNA,
    BEN,
    DOMAINS,
    EVE,
    FLIGHTS,
    GONE,
    HEATING,
    NAME,
    READERS,
    START,
    Bundle,
    Chunk,
    Lease,
    Message,
    Notice,
    Raw,
    Roots,
    event,
    keys_of,
    subscription,
)
from tests.support.data_plane import DAY
from tests.support.roots import root, signed

Factory = Callable[[Place], AgentUnderTest]


@dataclass(frozen=True)
class Send:
    """A message of a control plane, and the answer that it must get.

    Args:
        message: what is sent.
        answer: `applied`, `received`, `silence`, or the word with which it must be refused.
    """

    message: Message
    answer: str


@dataclass(frozen=True)
class Ask:
    """The agent asks for a lease; `times` of them."""

    times: int = 1


@dataclass(frozen=True)
class Wait:
    """The clocks go on, or one of them alone.

    Args:
        seconds: by the boot-time clock; a machine that sleeps counts too.
        wall: by the wall clock; None: as many.
    """

    seconds: float
    wall: float | None = None


@dataclass(frozen=True)
class Restart:
    """`kill -9`, and started again."""


@dataclass(frozen=True)
class Copy:
    """Keep a copy of the disk."""


@dataclass(frozen=True)
class PutBack:
    """`kill -9`, put a part of the disk back as it was at the last copy, and start again."""

    part: str


@dataclass(frozen=True)
class Damage:
    """`kill -9`, overwrite the bundles' files, and start again."""

    data: bytes = b"damaged"


Step = Send | Ask | Wait | Restart | Copy | PutBack | Damage

ALL = Bundle(4, READERS[:3])
"""So that nobody's subscription needs a hostile policy."""
FIRST = Bundle(5)
WARM = Bundle(3, (ANNA, BEN), HEATING)
BEGIN: tuple[Step, ...] = (
    Send(ALL, APPLIED),
    Send(WARM, APPLIED),
    Send(FIRST, APPLIED),
    Send(Notice(1, (GONE,)), APPLIED),
)
"""What every case begins with: Gone was let in by the policy, and taken out by a notice."""


class Player:
    """One agent on a folder, its clocks, and the model beside it.

    Args:
        factory: makes the agent.
        folder: its own.
    """

    def __init__(self, factory: Factory, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock(float(START))
        keys = keys_of(NAME)
        place = Place(folder, NAME, "a", keys.sealing, keys.signing, signed(root()), self.clock)
        self.agent = factory(place)
        self.model = Model(self.clock)
        self.asked: list[str] = []
        self._nonces: set[str] = set()
        self._events = 0
        self._then: tuple[Disk, dict[str, Mapping[Path, bytes | None]]] | None = None
        self._newest = ""

    # beginning and end

    def begin(self) -> None:
        """Bring a new agent to where every case begins; every reader subscribes."""
        self.agent.start()
        for step in BEGIN:
            self.step(step)
        self.lease()
        for domain in DOMAINS:
            for handle in READERS:
                self.agent.publish(domain, subscription(domain, handle, self.clock.wall()))
        self.agent.delivered()
        self.agent.kill()

    def resume(self, then: Player) -> None:
        """Go on where another one was brought to, in a copy of its folder."""
        shutil.copytree(then.folder, self.folder, dirs_exist_ok=True)
        self.model.disk = then.model.copy()
        self.model.restart()
        self.agent.start()
        self.lease()

    def lease(self) -> None:
        """An honest answer to a new question."""
        self.step(Ask())
        self.step(Send(Lease(root=self.model.disk.root), SILENCE))

    def end(self) -> None:
        """Killed and started again it holds the same, and honest control planes are obeyed."""
        self.step(Restart())
        self.lease()
        self.check()
        known = self.model.disk.known.get(FLIGHTS, (0, ""))[0]
        last = Bundle(known + 1, (BEN,), root=self.model.disk.root, expires=10_000 * DAY)
        self.step(Send(last, APPLIED))
        self.check()
        self.agent.kill()

    # steps

    def step(self, step: Step) -> None:
        """Play one step."""
        if isinstance(step, Send):
            self._send(step)
        elif isinstance(step, Ask):
            for _ in range(step.times):
                self.agent.ask()
                self._listen()
                self.asked.append(self._newest)
        elif isinstance(step, Wait):
            self.clock.boot_time += step.seconds
            self.clock.wall_time += step.seconds if step.wall is None else step.wall
        elif isinstance(step, Copy):
            files = {part: _read(self.agent.files(part)) for part in ("bundles", "state", "roots")}
            self._then = self.model.copy(), files
        else:
            self._listen()
            self.agent.kill()
            self._disk(step)
            self.agent.start()
            self.model.restart()
            self.agent.refused()

    def _disk(self, step: Restart | PutBack | Damage) -> None:
        if isinstance(step, PutBack):
            assert self._then is not None
            model, files = self._then
            _write(files[step.part])
            self.model.put_back(step.part, model)
        elif isinstance(step, Damage):
            _write(dict.fromkeys(self.agent.files("bundles"), step.data))
            self.model.damaged()

    def _send(self, step: Send) -> None:
        message = step.message
        nonce = self.asked[message.answers] if isinstance(message, Lease) else ""
        body = wire(message, nonce, self.clock)
        if not message.forged:
            expected = self.model.hears(message, nonce)
            assert expected == step.answer, f"the model says {expected}, the table {step.answer}"
        self._listen()
        self.agent.control(body)
        answer = self._answer(message)
        assert answer == step.answer, f"{message}: {answer} in the place of {step.answer}"

    def hears(self, message: Message) -> None:
        """Send an honest message, whatever the model says that it must get for an answer."""
        if isinstance(message, Lease) and len(self.asked) < -message.answers:
            return
        nonce = self.asked[message.answers] if isinstance(message, Lease) else ""
        body = wire(message, nonce, self.clock)
        expected = self.model.hears(message, nonce)
        self._listen()
        self.agent.control(body)
        answer = self._answer(message)
        assert answer == expected, f"{message}: {answer} in the place of {expected}"

    def hostile(self, message: Message) -> None:
        """Send a forged message; it is refused, for whatever reason comes first here.

        Forged roots of versions that are trusted already may be passed over unread.
        """
        self._listen()
        self.agent.control(wire(message, "", self.clock))
        answer = self._answer(message)
        known = isinstance(message, Roots) and message.versions[-1] <= self.model.disk.root
        accepted = (APPLIED, "received") if known else (APPLIED, "received", SILENCE)
        assert answer not in accepted, f"{message}: {answer}"

    def _answer(self, message: Message) -> str:
        refused, acks = self.agent.refused(), self._listen()
        assert len(refused) <= 1
        if not refused:
            return acks[-1].status if acks else SILENCE
        said = [(ack.status, ack.reason) for ack in acks]
        if isinstance(message, Bundle) and said:
            assert said[-1] == ("rejected", refused[0])
        assert all(status != "applied" for status, _ in said)
        return refused[0]

    def _listen(self) -> list[Acknowledgement]:
        """Verify all that it said; returns acknowledgements, notes questions."""
        acks: list[Acknowledgement] = []
        public = keys_of(NAME).signing.public
        for body in self.agent.said():
            request = decode_request(body)
            if request.kind == "ack":
                ack = verify_ack(request, public)
                assert ack.audience == ALPHA
                acks.append(ack)
            else:
                asked: LeaseRequest = verify_lease_request(request, public)
                assert asked.nonce not in self._nonces
                assert asked.root == self.model.disk.root
                self._nonces.add(asked.nonce)
                self._newest = asked.nonce
                self.model.asked(asked.nonce)
                for domain in DOMAINS:
                    self._told(asked.held.get(domain), domain)
        return acks

    def _told(self, held: Mapping[str, object] | None, domain: str) -> None:
        expected = self.model.holding(domain)
        if held is None:
            assert expected == Holding(0, "", 0)
            return
        told = Holding(*(held[name] for name in ("revision", "digest", "notice")))  # type: ignore[arg-type]
        assert told == expected, f"it says that it holds {told}, and not {expected}"

    # what must hold at any moment

    def kept(self) -> dict[Path, bytes | None]:
        """Everything that it would find after a restart."""
        parts = ("bundles", "state", "roots")
        return {
            path: data for part in parts for path, data in _read(self.agent.files(part)).items()
        }

    def check(self) -> None:
        """Hold the agent against the model: what it holds, and who gets an event."""
        assert self.agent.root() == self.model.disk.root
        for domain in DOMAINS:
            assert self.agent.holds(domain) == self.model.holding(domain), domain
            self._events += 1
            now = self.model.now()
            self.agent.publish(domain, event(domain, self._events, now))
            receivers = self.model.receivers(domain)
            got = self._delivered(self._events)
            assert got == (receivers or frozenset()), f"{domain}: {got}, not {receivers}"
        self._listen()

    def _delivered(self, number: int) -> frozenset[str]:
        found = set()
        for handle, body in self.agent.delivered():
            kind, payload = decode_framed(body)
            if kind != "delivery":
                continue
            opened = open_delivery(
                payload,
                key=keys_of(handle).sealing,
                handle=handle,
                verify={NAME: keys_of(NAME).signing.public}.__getitem__,
            )
            # INVARIANT: whatever waited and whenever it goes out: never to Eve
            assert handle != EVE, "what only a hostile policy allows was delivered"
            if int(opened.publication, 16) == number:
                found.add(handle)
        return frozenset(found)


def _read(paths: tuple[Path, ...]) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.exists() else None for path in paths}


def _write(files: Mapping[Path, bytes | None]) -> None:
    for path, data in files.items():
        path.unlink(missing_ok=True)
        if data is not None:
            path.write_bytes(data)


# what goes over the wire


def wire(message: Message, nonce: str, clock: Clock) -> bytes:
    """A message as a control plane sends it, the hostile ones included."""
    if isinstance(message, Raw):
        return forgeries.RAW[message.forged].make(None)
    if isinstance(message, Bundle):
        if message.forged:
            return forgeries.BUNDLES[message.forged].make(forgeries.opened(message))
        return encode_control("bundle", message.domain, message.sealed.message)
    if isinstance(message, Chunk):
        data = message.of.sealed.chunks[message.index]
        made = forgeries.CHUNKS[message.forged].make(data) if message.forged else data
        return forgeries.framed("chunk", message.of.domain, made)
    if isinstance(message, Roots):
        listed = _roots(message)
        made = forgeries.ROOTS[message.forged].make(listed) if message.forged else _listed(listed)
        return forgeries.framed("root", "", made)
    if isinstance(message, Notice):
        small = forgeries.Small("notice", _notice(message), message.domain, message.root)
        table = forgeries.NOTICES
    else:
        small = forgeries.Small("lease", _lease(message, nonce, clock), "", message.root)
        table = forgeries.LEASES
    return table[message.forged].make(small) if message.forged else small.sent()


def _notice(notice: Notice) -> bytes:
    record = NoticeRecord(
        number=notice.number,
        audience=ALPHA,
        domain=notice.domain,
        revocation="r-1",
        deny=notice.deny,
        reason="left",
        issued=START,
        floors=Floors(tuple(starmap(Floor, notice.until)), (), notice.below),
    )
    return dumps(record.to_json())


def _lease(lease: Lease, nonce: str, clock: Clock) -> bytes:
    record = LeaseRecord(
        audience=ALPHA,
        nonce=nonce,
        time=clock.wall() + lease.skew,
        seconds=dict.fromkeys(lease.minimum, lease.seconds),
        domains={
            domain: {"minimum_revision": revision, "minimum_notice": notice}
            for domain, (revision, notice) in lease.minimum.items()
        },
        root=lease.needs_root,
    )
    return dumps(record.to_json())


def _roots(message: Roots) -> list[SignedRoot]:
    listed = [signed(root(version, generation=version)) for version in message.versions]
    last = message.versions[-1]
    listed[-1] = signed(
        root(last, generation=last, reset=message.reset, expires=START + message.lasts)
    )
    return listed


def _listed(roots: list[SignedRoot]) -> bytes:
    return dumps([one.to_json() for one in roots])
