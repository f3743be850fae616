"""Two domains, their agents and clients, and what an honest control plane signs for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from brokers.adapters.files import Keys
from brokers.client.policy import build_policy
from brokers.client.wish import Wish, seal_wish
from policyengine.attributes import AttributeType
from policyengine.bundles import (
    AgentContent,
    Content,
    HomeAgent,
    PublicationPart,
    SealedBundle,
    build_bundle,
    difference,
    encode_framed,
    open_bundle,
    seal_publication,
)
from policyengine.events import TypeSpec
from policyengine.primitives import SealingKey, SeededRandom, SigningKey, sign
from policyengine.primitives.hashing import digest
from tests.support.data_plane import DAY, Agent, Client, Organisation, Policy, spec
from tests.support.roots import ISSUED, online

NAME, ALPHA = "alpha", "agent:alpha"
FLIGHTS, HEATING = DOMAINS = ("flights", "heating")
START = ISSUED + 1000
"""Unix time at which every case begins."""
PUBLISHER, ANNA, BEN, GONE, EVE = "p-air", "p-anna", "p-ben", "p-gone", "p-eve"
READERS = (ANNA, BEN, GONE, EVE)
"""Everybody who subscribed. Eve is whom hostile policies let in: no honest one ever does."""
VALUES = {"carrier": "UA"}


def keys_of(name: str) -> Keys:
    """The keys of an agent or client, the same in every run."""
    random = SeededRandom(b"conformance " + name.encode())
    return Keys(SealingKey(random.token(32)), SigningKey(random.token(32)))


def organisation(domain: str, allowed: tuple[str, ...]) -> Organisation:
    """A domain in which these clients may read everything.

    Args:
        domain: its name.
        allowed: handles.
    """
    homes = {"a": NAME}
    policies = (
        Policy("publish", "publish", "Flight", f'subject.role == "{PUBLISHER}"'),
        *(Policy(f"read-{one}", "subscribe", "Flight", f'subject.role == "{one}"')
          for one in allowed),
    )  # fmt: skip
    return Organisation(
        domain=domain,
        types=(TypeSpec("Flight", None, (spec("carrier", AttributeType("string")),)),),
        policies=policies,
        agents={name: Agent(name, overlay, keys_of(name))
                for name, overlay in ((NAME, "a"), ("beta", "b"))},
        clients={handle: Client(handle, {"role": handle}, homes, keys_of(handle))
                 for handle in (PUBLISHER, *READERS)},
        secret=domain.encode().ljust(32, b"."),
    )  # fmt: skip


@lru_cache(maxsize=256)
def _content(domain: str, allowed: tuple[str, ...], agent: str) -> AgentContent:
    return organisation(domain, allowed).agent_content(agent)


@dataclass(frozen=True)
class Bundle:
    """A bundle as an honest control plane makes it, and what is done to it on the way.

    Args:
        revision: of the domain.
        allowed: who may read.
        domain: whose policy it is.
        follows: the bundle that it names as the one before; None for one that stands alone.
        delta: whether it says only what changed since that one.
        chunked: whether it comes in pieces.
        through: the last notice that it takes into account.
        expires: seconds after `START`.
        root: version of the root under whose keys it is signed.
        forged: what a hostile control plane did to it, one of `forgeries.BUNDLES`; empty for
            nothing.
    """

    revision: int
    allowed: tuple[str, ...] = (ANNA, GONE)
    domain: str = FLIGHTS
    follows: Bundle | None = None
    delta: bool = False
    chunked: bool = False
    through: int = 0
    expires: int = 30 * DAY
    root: int = 1
    forged: str = ""

    @property
    def content(self) -> AgentContent:
        """What it leads to."""
        made = _content(self.domain, self.allowed, NAME)
        return replace(made, notices_through=self.through)

    @property
    def sealed(self) -> SealedBundle:
        """As it was signed and sealed, before anything was done to it."""
        return _sealed(replace(self, forged=""))

    @property
    def digest(self) -> str:
        """Names it in acknowledgements."""
        return self.sealed.digest


@lru_cache(maxsize=512)
def _sealed(bundle: Bundle) -> SealedBundle:
    follows = bundle.follows
    options: dict[str, Any] = {"limit": 16_400, "chunk": 8_000} if bundle.chunked else {}
    delta = None
    if bundle.delta and follows is not None:
        delta = difference(follows.content, bundle.content)
    return sealed_content(
        bundle.content,
        revision=bundle.revision,
        previous="" if follows is None else follows.digest,
        expires=START + bundle.expires,
        root_version=bundle.root,
        sign=partial(sign, online("policy", bundle.root)),
        delta=delta,
        **options,
    )


def sealed_content(content: Content, **changes: Any) -> SealedBundle:
    """A content in a bundle for alpha, signed with the policy key of root 1."""
    fields: dict[str, Any] = {
        "domain": content.domain,
        "audience": ALPHA,
        "revision": 6,
        "previous": "",
        "issued": START,
        "expires": START + DAY,
        "root_version": 1,
        "content": content,
        "sign": partial(sign, online("policy", 1)),
        "recipient": keys_of(NAME).sealing.public,
    }
    return build_bundle(**(fields | changes))


@dataclass(frozen=True)
class Chunk:
    """A piece of a bundle that comes in pieces.

    Args:
        of: the bundle.
        index: which piece; negative ones count from the end.
        forged: one of `forgeries.CHUNKS`, or empty.
    """

    of: Bundle
    index: int
    forged: str = ""


@dataclass(frozen=True)
class Notice:
    """A notice to alpha.

    Args:
        number: of the domain, from 1.
        deny: who gets nothing any more.
        until: (who, revision): gets nothing before the bundle of that revision is in force.
        below: nobody gets anything before the bundle of that revision; 0 for no such limit.
        domain: whose events.
        root: version of the root under whose keys it is signed.
        forged: one of `forgeries.NOTICES`, or empty.
    """

    number: int
    deny: tuple[str, ...] = (BEN,)
    until: tuple[tuple[str, int], ...] = ()
    below: int = 0
    domain: str = FLIGHTS
    root: int = 1
    forged: str = ""


@dataclass(frozen=True)
class Lease:
    """An answer to a question of alpha's.

    Args:
        answers: which of its questions: -1 is the newest, -2 the one before.
        seconds: how long it holds.
        minimum: domain -> (revision, notice) that it must hold at least; domains that are not
            here are left out of the lease.
        skew: seconds by which the control plane's clock is ahead of `START` and the time gone.
        needs_root: version of the root that alpha must trust.
        root: version of the root under whose keys it is signed.
        forged: one of `forgeries.LEASES`, or empty.
    """

    answers: int = -1
    seconds: int = 30
    minimum: Mapping[str, tuple[int, int]] = field(
        default_factory=lambda: {FLIGHTS: (0, 0), HEATING: (0, 0)}
    )
    skew: float = 0.0
    needs_root: int = 1
    root: int = 1
    forged: str = ""


@dataclass(frozen=True)
class Roots:
    """Roots of ada, ben and cyd, two of whom must sign.

    Args:
        versions: in the order in which they are sent.
        reset: domains that the last one has agents forget.
        lasts: seconds after `START` at which the last one expires.
        forged: one of `forgeries.ROOTS`, or empty.
    """

    versions: tuple[int, ...]
    reset: tuple[str, ...] = ()
    lasts: int = 365 * DAY
    forged: str = ""


@dataclass(frozen=True)
class Raw:
    """Bytes in the control queue that no control plane writes, one of `forgeries.RAW`."""

    forged: str


Message = Bundle | Chunk | Notice | Lease | Roots | Raw


@lru_cache(maxsize=8)
def _tags(domain: str) -> tuple[int, tuple[bytes, ...]]:
    made = organisation(domain, READERS)
    client = made.client_content(PUBLISHER)
    sealed = sealed_content(
        client,
        audience=f"client:{PUBLISHER}",
        recipient=keys_of(PUBLISHER).sealing.public,
    )
    opened = open_bundle(
        sealed.message,
        key=keys_of(PUBLISHER).sealing,
        audience=f"client:{PUBLISHER}",
        domain=domain,
        policy_key=online("policy", 1).public,
    )
    return build_policy(opened).tags("a", VALUES, "Flight")


def event(domain: str, number: int, issued: float) -> bytes:
    """What the publisher sends: an event that every policy lets some of its readers read."""
    epoch, tags = _tags(domain)
    sealed = seal_publication(
        PublicationPart(
            domain=domain,
            publication=f"{number:032x}",
            type="Flight",
            publisher=PUBLISHER,
            part=0,
            parts=1,
            overlay="a",
            epoch=epoch,
            policy="ab" * 32,
            issued=int(issued),
            tags=tags,
            attributes=VALUES,
        ),
        signing_key=keys_of(PUBLISHER).signing,
        recipient=keys_of(NAME).sealing.public,
        agent=NAME,
    )
    return encode_framed("publication", sealed)


def subscription(domain: str, handle: str, issued: float) -> bytes:
    """What a reader sends to be told of every flight."""
    keys = keys_of(NAME)
    sealed = seal_wish(
        Wish.of("Flight", ""),
        "subscribe",
        HomeAgent(NAME, "a", keys.sealing.public, keys.signing.public),
        domain=domain,
        client=handle,
        request=digest(f"{domain}|{handle}".encode())[:32],
        issued=issued,
        signing_key=keys_of(handle).signing,
    )
    return encode_framed("subscribe", sealed)
