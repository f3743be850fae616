"""Keys of blind epochs: made by the authority, sealed for one audience each, and remembered.

Nothing here is ever in clear: masters are wrapped, everything else is sealed for its audience.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from adminapp.core.authority import BlindClient, get_authority
from adminapp.distribution import blindepochs
from adminapp.distribution.blindplan import BlindPlan
from adminapp.distribution.models import BlindEpoch, BlindKey
from adminapp.distribution.plan import PlainSubject
from adminapp.identity.models import Domain
from policyengine.primitives.canonical import b64, dumps, unb64
from policyengine.primitives.hashing import digest

Kind = BlindKey.Kind
CHUNK = 64
"""How many clients are enrolled in one request: about 20 ms each, and others wait meanwhile."""


def client_of(plan: BlindPlan, subject: PlainSubject) -> BlindClient:
    """A client as the authority enrols it, with the tokens that it reads by."""
    held = BlindClient(subject.handle, plan.readers[subject.handle], subject.sealing_key)
    if not subject.by_filters:
        return held
    ways = {
        name: {each: [*map(list, plan.ways(subject, name, each))] for each in terms}
        for name, terms in plan.terms.items()
    }
    return replace(held, reads=False, ways=digest(dumps(ways)))


def rings(domain: Domain) -> tuple[Ring, ...]:
    """The keys of each living epoch, oldest first."""
    return tuple(Ring(epoch, domain.name) for epoch in blindepochs.live(domain))


def enrolled(epoch: BlindEpoch, client: BlindClient) -> bool:
    """Whether the keys that a client has in an epoch are of exactly these tokens."""
    rows = epoch.keys.filter(kind=Kind.CLIENT, name=client.handle, wanted=_fingerprint(client))
    return rows.exists()


@dataclass
class Ring:
    """What was sealed in one epoch, and what is sealed when it is asked for.

    Args:
        epoch: the epoch.
        domain: name of the domain.
    """

    epoch: BlindEpoch
    domain: str

    @cached_property
    def public(self) -> bytes:
        """The epoch's public key."""
        return unb64(self.epoch.public)

    def enrol(self, clients: Sequence[BlindClient]) -> dict[str, bytes]:
        """The keys of each client by handle, sealed for it; the same until its tokens change."""
        found: dict[str, bytes] = {}
        reads = {each.handle: _digests(each.variants) for each in clients}
        # Before anything is written: what was read by until now is not known afterwards.
        if self._somebody_lost(reads):
            blindepochs.note_due(self.epoch, "somebody may read less than before")
        for start in range(0, len(clients), CHUNK):
            chunk = {each.handle: each for each in clients[start : start + CHUNK]}
            found |= self._sealed(
                Kind.CLIENT,
                {handle: f"client:{handle}" for handle in chunk},
                {handle: _fingerprint(each) for handle, each in chunk.items()},
                lambda names, held=chunk: get_authority().enrol_blind_clients(
                    self.domain, self.epoch.number, self.epoch.wrapped, [held[n] for n in names]
                ),
                {handle: reads[handle] for handle in chunk},
            )
        return found

    def shares(self, agent: str, recipient: bytes, handles: Sequence[str]) -> dict[str, bytes]:
        """The agent's share of each client's keys by handle, sealed for the agent."""
        self._drop(Kind.SHARE, f"agent:{agent}", handles)
        found: dict[str, bytes] = {}
        for start in range(0, len(handles), CHUNK * 8):
            chunk = handles[start : start + CHUNK * 8]
            found |= self._sealed(
                Kind.SHARE,
                dict.fromkeys(chunk, f"agent:{agent}"),
                dict.fromkeys(chunk, digest(recipient)),
                lambda names: get_authority().share_blind(
                    self.domain,
                    self.epoch.number,
                    self.epoch.wrapped,
                    agent=agent,
                    recipient=recipient,
                    handles=names,
                ),
            )
        return found

    def orders(
        self, audience: str, recipient: bytes, attributes: Iterable[tuple[str, str]]
    ) -> dict[tuple[str, str], bytes]:
        """The key of each order-preserving attribute, sealed for a client or a comparator."""
        pairs = {".".join(pair): pair for pair in attributes}
        if self._drop(Kind.ORDER, audience, pairs):
            blindepochs.note_due(self.epoch, "somebody may order less than before")
        found = self._sealed(
            Kind.ORDER,
            dict.fromkeys(pairs, audience),
            dict.fromkeys(pairs, digest(self.epoch.scheme.encode() + recipient)),
            lambda names: get_authority().seal_order_keys(
                self.domain,
                self.epoch.number,
                self.epoch.wrapped,
                audience=audience,
                recipient=recipient,
                scheme=self.epoch.scheme,
                attributes=[pairs[name] for name in names],
            ),
        )
        return {pairs[name]: sealed for name, sealed in found.items()}

    def _somebody_lost(self, reads: Mapping[str, list[list[str]]]) -> bool:
        """Whether a client read by tokens together that it no longer has together."""
        rows = self.epoch.keys.filter(kind=Kind.CLIENT).values_list("name", "tokens")
        return any(
            not any(set(variant) <= set(other) for other in reads.get(name, ()))
            for name, held in rows
            if held != reads.get(name)
            for variant in held
        )

    def _drop(self, kind: str, audience: str, kept: Collection[str]) -> bool:
        """Forget what an audience is to have no more; whether there was any."""
        gone = self._names.get((kind, audience), set()) - set(kept)
        if gone:
            self.epoch.keys.filter(kind=kind, audience=audience, name__in=gone).delete()
        return bool(gone)

    @cached_property
    def _names(self) -> Mapping[tuple[str, str], set[str]]:
        found: dict[tuple[str, str], set[str]] = {}
        for kind, audience, name in self._remembered:
            found.setdefault((kind, audience), set()).add(name)
        return found

    @cached_property
    def _remembered(self) -> dict[tuple[str, str, str], tuple[str, bytes]]:
        rows = self.epoch.keys.values_list("kind", "audience", "name", "wanted", "sealed")
        return {
            (kind, who, name): (wanted, bytes(sealed)) for kind, who, name, wanted, sealed in rows
        }

    def _sealed(
        self,
        kind: str,
        audiences: dict[str, str],
        wanted: dict[str, str],
        make: Callable[[list[str]], list[bytes]],
        tokens: Mapping[str, list[list[str]]] | None = None,
    ) -> dict[str, bytes]:
        held = self._remembered
        lacking = [
            name
            for name, who in audiences.items()
            if held.get((kind, who, name), ("", b""))[0] != wanted[name]
        ]
        if lacking:
            made = dict(zip(lacking, make(lacking), strict=True))
            rows = [
                BlindKey(
                    epoch=self.epoch,
                    kind=kind,
                    audience=audiences[name],
                    name=name,
                    wanted=wanted[name],
                    tokens=(tokens or {}).get(name, []),
                    sealed=sealed,
                )
                for name, sealed in made.items()
            ]
            BlindKey.objects.bulk_create(
                rows,
                update_conflicts=True,
                unique_fields=["epoch", "kind", "audience", "name"],
                update_fields=["wanted", "tokens", "sealed"],
            )
            held |= {(kind, audiences[n], n): (wanted[n], sealed) for n, sealed in made.items()}
        return {name: held[kind, who, name][1] for name, who in audiences.items()}


def _fingerprint(client: BlindClient) -> str:
    # A client that asks has a new bundle, and asks again, where it may read by other tokens.
    asks = [] if client.reads else [client.ways]
    return digest(dumps([[*map(list, client.variants)], b64(client.recipient), *asks]))


def _digests(variants: Iterable[Iterable[str]]) -> list[list[str]]:
    return [sorted(digest(token.encode())[:32] for token in tokens) for tokens in variants]
