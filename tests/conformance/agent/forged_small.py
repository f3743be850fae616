"""Notices, leases and pieces of bundles as hostile control planes send them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from policyengine.bundles import contexts
from policyengine.bundles.sealing import seal_info
from policyengine.primitives import SigningKey, pack, seal_to, sign, unpack
from policyengine.primitives.canonical import dumps
from tests.conformance.agent import texts
from tests.conformance.agent.hostile import (
    BETA,
    CONTEXTS,
    KEY,
    Forgery,
    framed,
    signatures,
    wrong_keys,
)
from tests.conformance.agent.world import ALPHA, ANNA, FLIGHTS
from tests.support.roots import online


@dataclass(frozen=True)
class Small:
    """A notice or a lease before it is signed.

    Args:
        kind: `notice` or `lease`.
        body: its canonical text.
        frame: the domain in its frame.
        root: version of the root whose key signs it.
    """

    kind: str
    body: bytes
    frame: str
    root: int = 1

    @property
    def purpose(self) -> bytes:
        """What it is signed as."""
        return contexts.NOTICE if self.kind == "notice" else contexts.LEASE

    def sent(
        self,
        *,
        body: bytes | None = None,
        key: SigningKey | None = None,
        context: bytes | None = None,
        signature: bytes | None = None,
        signed_for: str = ALPHA,
        sealed_for: str = ALPHA,
        to: bytes = KEY.public,
        frame: str | None = None,
        kind: str | None = None,
        purpose: bytes | None = None,
        signer: bytes = b"",
    ) -> bytes:
        """Sign and seal it, with what is given in the place of what is honest."""
        text = self.body if body is None else body
        payload = pack(signed_for.encode(), text)
        made = sign(key or online(self.kind, self.root), context or self.purpose, payload)
        inner = pack(signer, text, made if signature is None else signature)
        sealed = seal_to(to, inner, info=seal_info(purpose or self.purpose, sealed_for))
        frame = self.frame if frame is None else frame
        return framed(kind or self.kind, frame, sealed)

    def signature(self, body: bytes | None = None) -> bytes:
        """The honest signature, over this body or another."""
        payload = pack(ALPHA.encode(), self.body if body is None else body)
        return sign(online(self.kind, self.root), self.purpose, payload)

    def changed(self, **changes: Any) -> bytes:
        """Well signed, with other members."""
        return self.sent(body=dumps({**json.loads(self.body), **changes}))


def _small_forgeries(kind: str) -> dict[str, Forgery]:
    def with_signature(name: str) -> Callable[[Small], bytes]:
        return lambda one: one.sent(
            signature=signatures(one.signature(), one.signature(b"{}"))[name]
        )

    other = "lease" if kind == "notice" else "notice"
    purpose = getattr(contexts, kind.upper())
    return {
        **{f"a signature {name}": Forgery("signatures", "signature", with_signature(name))
           for name in signatures(bytes(64), bytes(64))},
        **{f"signed by {name}": Forgery(
            "signatures", "signature", lambda one, key=key: one.sent(key=key))
           for name, key in wrong_keys(kind).items()},
        **{f"signed as {name}": Forgery(
            "contexts", "signature", lambda one, context=context: one.sent(context=context))
           for name, context in CONTEXTS.items() if context != purpose},
        "with a signer named": Forgery(
            "signatures", "malformed", lambda one: one.sent(signer=b"beta")),
        "signed for beta": Forgery(
            "audience", "signature", lambda one: one.sent(signed_for="agent:beta")),
        "sealed for beta's address": Forgery(
            "audience", "malformed", lambda one: one.sent(sealed_for="agent:beta")),
        "sealed to beta's key": Forgery(
            "audience", "malformed", lambda one: one.sent(to=BETA.public)),
        "about beta": Forgery(
            "audience", "audience", lambda one: one.changed(audience="agent:beta")),
        "about the client of the same name": Forgery(
            "audience", "audience", lambda one: one.changed(audience="client:alpha")),
        f"in the frame of a {other}": Forgery(
            "contexts", "malformed",
            lambda one: one.sent(kind=other, frame="" if other == "lease" else FLIGHTS)),
        f"sealed as a {other}": Forgery(
            "contexts", "malformed",
            lambda one: one.sent(purpose=getattr(contexts, other.upper()))),
        "over 1 MiB": Forgery(
            "endless data", "malformed", lambda one: one.sent(body=bytes(2**20))),
        **{f"written with {name}": Forgery(
            "non-canonical", "malformed", lambda one, text=text: one.sent(body=text(one.body)))
           for name, text in texts.EVERYWHERE.items()},
    }  # fmt: skip


def _well_signed(attack: str, **changes: Any) -> Forgery:
    return Forgery(attack, "malformed", lambda one: one.changed(**changes))


NOTICES: dict[str, Forgery] = {
    **_small_forgeries("notice"),
    "of the other domain by its frame": Forgery(
        "two domains", "audience", lambda one: one.sent(frame="heating")
    ),
    "of the other domain by its body": Forgery(
        "two domains", "audience", lambda one: one.changed(domain="heating")
    ),
    **{f"a number that is {name}": Forgery(
        "notices", "malformed",
        lambda one, raw=raw: one.sent(body=texts.member("number", raw)(one.body)))
       for name, raw in {**texts.NUMBERS, "nothing": b"0"}.items()},
    "10001 handles": _well_signed("endless data", deny=[f"p-{n}" for n in range(10_001)]),
    "a handle twice": _well_signed("notices", deny=[ANNA, ANNA]),
    "a handle that cannot be": _well_signed("notices", deny=["p-*"]),
    "floors for revision nothing": _well_signed(
        "notices", floors={"handles": [{"name": ANNA, "revision": 0}], "agents": [], "revision": 0}
    ),
}  # fmt: skip

LEASES: dict[str, Forgery] = {
    **_small_forgeries("lease"),
    "for a question that was never asked": Forgery(
        "lease replay", "replay", lambda one: one.changed(nonce="0" * 32)
    ),
    "for half a question": _well_signed("lease replay", nonce="0" * 16),
    "for no question": _well_signed("lease replay", nonce=""),
    "for the question in capitals": Forgery(
        "lease replay", "malformed",
        lambda one: one.changed(nonce="A" + json.loads(one.body)["nonce"].upper()[1:]),
    ),
    "over more than a day": _well_signed(
        "lease replay", seconds={"flights": 86_401, "heating": 30}
    ),
    "over no time": _well_signed("lease replay", seconds={"flights": 0, "heating": 30}),
    "over less than no time": _well_signed("lease replay", seconds={"flights": -1, "heating": 30}),
    "over half a second more": _well_signed(
        "lease replay", seconds={"flights": 30.5, "heating": 30}
    ),
    "with seconds for a domain that it leaves out": _well_signed(
        "lease replay", seconds={"flights": 30, "heating": 30, "other": 30}
    ),
    "without seconds": _well_signed("lease replay", seconds={}),
    "without a minimum": _well_signed(
        "lease replay", domains={"flights": {"minimum_revision": 0}, "heating": {}}
    ),
    "with a minimum below nothing": _well_signed(
        "lease replay",
        domains={name: {"minimum_revision": -1, "minimum_notice": 0}
                 for name in ("flights", "heating")},
    ),
    "for 1025 domains": _well_signed(
        "endless data", seconds={f"d-{n}": 30 for n in range(1025)},
        domains={f"d-{n}": {"minimum_revision": 0, "minimum_notice": 0} for n in range(1025)},
    ),
    "before 1970": _well_signed("clock", time=-1.0),
    "at a whole second": Forgery(
        "clock", "malformed", lambda one: one.sent(body=texts.member("time", b"5")(one.body))
    ),
    "at no time": Forgery(
        "clock", "malformed", lambda one: one.sent(body=texts.member("time", b"null")(one.body))
    ),
    "at the end of time": Forgery(
        "clock", "malformed", lambda one: one.sent(body=texts.member("time", b"1e999")(one.body))
    ),
    "for those who trust a root that nobody made": Forgery(
        "roots", "root", lambda one: one.changed(root=2)
    ),
}  # fmt: skip


# pieces

CHUNKS: dict[str, Forgery] = {
    "changed on the way": Forgery(
        "chunks", "malformed", lambda data: data[:-1] + bytes([data[-1] ^ 1])
    ),
    "cut short": Forgery("chunks", "malformed", lambda data: data[:-9]),
    "under another number": Forgery(
        "chunks", "malformed", lambda data: _repacked(data, index=b"\0\x01")
    ),
    "beyond the last": Forgery(
        "chunks", "malformed", lambda data: _repacked(data, index=b"\xff\xff")
    ),
    "with a long number": Forgery(
        "chunks", "malformed", lambda data: _repacked(data, index=b"\0\0\0")
    ),
    "addressed to beta": Forgery(
        "chunks", "audience", lambda data: _repacked(data, address=b"agent:beta|flights")
    ),
    "of a bundle that nobody announced": Forgery(
        "chunks", "previous", lambda data: _repacked(data, bundle=b"ab" * 32)
    ),
    "of the piece's size and other content": Forgery(
        "chunks", "malformed", lambda data: _resealed(data, b"x" * 1500)
    ),
    "of 2 MiB more": Forgery(
        "endless data", "malformed", lambda data: _resealed(data, bytes(2**21))
    ),
    "of nothing": Forgery("chunks", "malformed", lambda data: _resealed(data, b"")),
    "under the purpose of a bundle": Forgery(
        "contexts", "malformed", lambda data: _repacked(data, purpose=contexts.BUNDLE)
    ),
}


def _repacked(data: bytes, **changes: bytes) -> bytes:
    names = ("purpose", "address", "bundle", "index", "sealed")
    fields = dict(zip(names, unpack(data, 5), strict=True)) | changes
    return pack(*(fields[name] for name in names))


def _resealed(data: bytes, piece: bytes) -> bytes:
    _, address, bundle, index, _ = unpack(data, 5)
    sealed = seal_to(KEY.public, piece, info=pack(contexts.CHUNK, address, bundle, index))
    return _repacked(data, sealed=sealed)
