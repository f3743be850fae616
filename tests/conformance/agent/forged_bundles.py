"""Bundles of hostile control planes: cut, joined, resealed, or signed with a stolen key."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from policyengine.bundles import contexts
from policyengine.primitives import SigningKey, open_sealed, pack, seal_to, sign, unpack
from policyengine.primitives.canonical import dumps, unpack_all
from policyengine.primitives.hashing import digest
from tests.conformance.agent.hostile import (
    BETA,
    CONTEXTS,
    KEY,
    Forgery,
    framed,
    signatures,
    wrong_keys,
)
from tests.conformance.agent.world import FLIGHTS, Bundle
from tests.support.roots import online


@dataclass(frozen=True)
class Opened:
    """A bundle as who holds the agent's sealing key sees it."""

    spec: Bundle
    head: bytes
    signature: bytes
    parts: tuple[bytes, ...]

    @property
    def fields(self) -> tuple[bytes, ...]:
        """What its seal holds."""
        return (self.head, self.signature, *self.parts)

    def sent(
        self,
        *,
        head: bytes | None = None,
        signature: bytes | None = None,
        parts: tuple[bytes, ...] | None = None,
        fields: tuple[bytes, ...] | None = None,
        address: bytes = b"agent:alpha|flights",
        sealed_for: bytes | None = None,
        to: bytes = KEY.public,
        frame: str = FLIGHTS,
        kind: str = "bundle",
    ) -> bytes:
        """Seal it again, with what is given in the place of what was there."""
        inner = fields or (
            self.head if head is None else head,
            self.signature if signature is None else signature,
            *(self.parts if parts is None else parts),
        )
        info = contexts.BUNDLE + b"|" + (sealed_for or address)
        sealed = seal_to(to, pack(*inner), info=info)
        return framed(kind, frame, pack(contexts.BUNDLE, address, sealed))

    def signed(self, head: bytes, parts: tuple[bytes, ...] | None = None, **more: Any) -> bytes:
        """Signed anew with the policy key: a stolen one, or a taken control plane."""
        signature = sign(online("policy"), contexts.BUNDLE, head)
        return self.sent(head=head, signature=signature, parts=parts, **more)

    def header(self, **changes: Any) -> bytes:
        """The header with other members."""
        return dumps({**json.loads(self.head), **changes})

    def with_parts(self, parts: tuple[bytes, ...], names: tuple[str, ...] = ()) -> bytes:
        """Signed anew over other parts."""
        named = names or tuple(part["name"] for part in json.loads(self.head)["parts"])
        refs = [
            {"name": name, "sha256": digest(data), "size": len(data)}
            for name, data in zip(named, parts, strict=True)
        ]
        return self.signed(self.header(parts=refs), parts)

    def edited(self, part: int, change: Callable[[Any], object]) -> bytes:
        """Signed anew with a part whose JSON was changed in place."""
        document = json.loads(self.parts[part])
        change(document)
        return self.rewritten(part, dumps(document))

    def rewritten(self, part: int, data: bytes) -> bytes:
        """Signed anew with other bytes for a part."""
        return self.with_parts((*self.parts[:part], data, *self.parts[part + 1 :]))


@lru_cache(maxsize=64)
def opened(spec: Bundle) -> Opened:
    """Open a bundle with alpha's key."""
    _, address, sealed = unpack(spec.sealed.message, 3)
    inner = open_sealed(KEY, sealed, info=contexts.BUNDLE + b"|" + address)
    head, signature, *parts = unpack_all(inner, limit=80)
    return Opened(spec, head, signature, tuple(parts))


def kept(signed: Bundle, content: Bundle) -> bytes:
    """What an agent keeps of a delta: here a signed header, and the content of another bundle."""
    one, address = opened(signed), b"agent:alpha|flights"
    inner = pack(one.head, one.signature, dumps(content.content.to_json()))
    sealed = seal_to(KEY.public, inner, info=contexts.KEPT + b"|" + address)
    return pack(contexts.KEPT, address, sealed)


def _older(one: Opened) -> Opened:
    return opened(Bundle(5))


SCOPE, TYPES, PEERS, CLIENTS, EPOCHS, KEYS = range(6)


def _swapped(parts: tuple[bytes, ...], first: int, second: int) -> tuple[bytes, ...]:
    listed = list(parts)
    listed[first], listed[second] = listed[second], listed[first]
    return tuple(listed)


def _exchanged(parts: tuple[bytes, ...], place: int, other: bytes) -> tuple[bytes, ...]:
    return (*parts[:place], other, *parts[place + 1 :])


def _of_other_domain(one: Opened) -> Opened:
    return opened(replace(one.spec, domain="heating"))


def bundle_signatures() -> dict[str, Forgery]:
    """Signatures of others, under other contexts, over other bundles, or none."""

    def stripped(name: str) -> Callable[[Opened], bytes]:
        return lambda one: one.sent(
            signature=signatures(one.signature, _older(one).signature)[name]
        )

    def by(key: SigningKey) -> Callable[[Opened], bytes]:
        return lambda one: one.sent(signature=sign(key, contexts.BUNDLE, one.head))

    def under(context: bytes) -> Callable[[Opened], bytes]:
        return lambda one: one.sent(signature=sign(online("policy"), context, one.head))

    return {
        **{f"a signature {name}": Forgery("signatures", "signature", stripped(name))
           for name in signatures(bytes(64), bytes(64))},
        **{f"signed by {name}": Forgery("signatures", "signature", by(key))
           for name, key in wrong_keys("policy").items()},
        **{f"signed as {name}": Forgery("contexts", "signature", under(context))
           for name, context in CONTEXTS.items() if context != contexts.BUNDLE},
        "no signature at all": Forgery(
            "signatures", "malformed", lambda one: one.sent(fields=(one.head,))
        ),
    }  # fmt: skip


def _mixed(make: Callable[[Opened], bytes], reason: str = "malformed") -> Forgery:
    return Forgery("mix-and-match", reason, make)


MIXED = {
    **{f"its {name} of the bundle before": _mixed(
        lambda one, place=place: one.sent(  # type: ignore[misc]
            parts=_exchanged(one.parts, place, _older(one).parts[place] + b"")
        ) if one.parts[place] != _older(one).parts[place] else one.sent(
            parts=_exchanged(one.parts, place, b"{}")
        ))
       for name, place in (("scope", SCOPE), ("clients", CLIENTS), ("policies", EPOCHS),
                           ("keys", KEYS))},
    "all parts of another bundle": _mixed(lambda one: one.sent(parts=_older(one).parts)),
    "its parts under the manifest before": _mixed(
        lambda one: one.sent(head=_older(one).head, signature=_older(one).signature)
    ),
    "the manifest before with its signature": _mixed(
        lambda one: one.sent(head=_older(one).head), "signature"
    ),
    "its parts in another order": _mixed(
        lambda one: one.sent(parts=_swapped(one.parts, EPOCHS, KEYS))
    ),
    "a part left out": _mixed(lambda one: one.sent(parts=one.parts[:-1])),
    "a part twice": _mixed(lambda one: one.sent(parts=(*one.parts, one.parts[-1]))),
    "no parts": _mixed(lambda one: one.sent(parts=())),
    "a byte turned in a part": _mixed(
        lambda one: one.sent(parts=(*one.parts[:-1], one.parts[-1][:-1] + b"?"))
    ),
    "a part cut short": _mixed(lambda one: one.sent(parts=(*one.parts[:-1], one.parts[-1][:-1]))),
    "two bundles in one seal": _mixed(
        lambda one: one.sent(fields=(one.head, one.signature, *one.parts,
                                     _older(one).head, _older(one).signature))
    ),
    "manifest and parts of the other domain": _mixed(
        lambda one: one.sent(fields=_of_other_domain(one).fields),
        "audience",
    ),
    "parts of the other domain": _mixed(
        lambda one: one.sent(parts=_of_other_domain(one).parts)
    ),
    "parts under each other's names": _mixed(
        lambda one: one.with_parts(_swapped(one.parts, EPOCHS, KEYS))
    ),
    "parts under unknown names": _mixed(
        lambda one: one.with_parts(one.parts, tuple(f"part-{n}" for n in range(len(one.parts))))
    ),
}  # fmt: skip


def _audience(make: Callable[[Opened], bytes], reason: str = "audience") -> Forgery:
    return Forgery("audience", reason, make)


AUDIENCE = {
    "for beta, sealed to alpha": _audience(
        lambda one: one.signed(one.header(audience="agent:beta"))
    ),
    "addressed to beta": _audience(lambda one: one.sent(address=b"agent:beta|flights")),
    "sealed to beta's key": _audience(lambda one: one.sent(to=BETA.public), "malformed"),
    "sealed for beta's address": _audience(
        lambda one: one.sent(sealed_for=b"agent:beta|flights"), "malformed"
    ),
    "sealed for the other domain": _audience(
        lambda one: one.sent(sealed_for=b"agent:alpha|heating"), "malformed"
    ),
    "for the client of the same name": _audience(
        lambda one: one.signed(one.header(audience="client:alpha"))
    ),
    "of the other domain by its header": _audience(
        lambda one: one.signed(one.header(domain="heating"))
    ),
    "of the other domain by its frame": _audience(lambda one: one.sent(frame="heating")),
    "of a domain that nobody knows, by its frame": _audience(lambda one: one.sent(frame="unknown")),
    "with the content of beta": _audience(
        lambda one: one.edited(SCOPE, lambda part: part.update(agent="beta"))
    ),
    "with the content of the other domain": _audience(
        lambda one: one.edited(SCOPE, lambda part: part.update(domain="heating"))
    ),
    "with the content of another overlay": _audience(
        lambda one: one.edited(SCOPE, lambda part: part.update(overlay="b"))
    ),
    "for an audience that cannot be": _audience(
        lambda one: one.signed(one.header(audience="agent:alpha*")), "malformed"
    ),
    "in a frame of a piece": _audience(lambda one: one.sent(kind="chunk"), "previous"),
    "in a frame of a notice": _audience(lambda one: one.sent(kind="notice"), "malformed"),
}


def _endless(make: Callable[[Opened], bytes], reason: str = "malformed") -> Forgery:
    return Forgery("endless data", reason, make)


def _refs(count: int, size: int = 0) -> list[dict[str, Any]]:
    return [{"name": f"p-{n}", "sha256": "ab" * 32, "size": size} for n in range(count)]


def _in_pieces(one: Opened, pieces: list[dict[str, Any]], parts: list[dict[str, Any]]) -> bytes:
    return one.signed(one.header(parts=parts, chunks=pieces, content="ab" * 32), parts=())


ENDLESS = {
    "over 8 MiB": _endless(
        lambda one: pack(b"bundle", b"flights", bytes(8 * 2**20 + 1))
    ),
    "100 parts": _endless(lambda one: one.sent(parts=one.parts * 15)),
    "a manifest of 65 parts": _endless(lambda one: one.signed(one.header(parts=_refs(65)))),
    "a part of 2^40 bytes by the manifest": _endless(
        lambda one: one.signed(one.header(parts=_refs(1, 2**40)))
    ),
    "65 pieces": _endless(lambda one: _in_pieces(one, _refs(65, 100), _refs(1, 6500))),
    "pieces of no bytes": _endless(lambda one: _in_pieces(one, _refs(3), _refs(1))),
    "pieces with more bytes than the parts": _endless(
        lambda one: _in_pieces(one, _refs(9, 4 * 2**20), _refs(1, 4 * 2**20))
    ),
    "a piece over 4 MiB": _endless(
        lambda one: _in_pieces(one, _refs(1, 4 * 2**20 + 1), _refs(1, 4 * 2**20 + 1))
    ),
    "parts beside pieces": _endless(
        lambda one: one.signed(
            one.header(parts=_refs(1, 100), chunks=_refs(1, 100), content="ab" * 32)
        )
    ),
    "a length that never ends": _endless(
        lambda one: framed("bundle", FLIGHTS, b"\xff\xff\xff\xff" + b"x" * 64)
    ),
    "a part nested too deep": _endless(
        lambda one: one.rewritten(EPOCHS, b'{"epochs":' + b"[" * 9999 + b"]" * 9999 + b"}")
    ),
    "a part that is a compressed one": _endless(
        lambda one: one.rewritten(EPOCHS, gzip.compress(bytes(10**6)))
    ),
    "nine epochs": _endless(
        lambda one: one.edited(
            EPOCHS,
            lambda part: part.update(
                epochs=[{**part["epochs"][0], "epoch": n, "state": "staged"} for n in range(9)]
            ),
        )
    ),
    "4097 types": _endless(
        lambda one: one.edited(TYPES, lambda part: part.update(types=part["types"] * 4097))
    ),
    "10001 agents": _endless(
        lambda one: one.edited(PEERS, lambda part: part.update(agents=part["agents"] * 10_001))
    ),
    "4097 encodings of a client": _endless(
        lambda one: one.edited(
            EPOCHS,
            lambda part: part["epochs"][0]["subjects"][0].update(
                encoded=["eA"] * 4097
            ),
        )
    ),
    "a lease of a century": _endless(
        lambda one: one.edited(SCOPE, lambda part: part.update(lease_seconds=10**9))
    ),
}  # fmt: skip
