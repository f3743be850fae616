"""Roots that their holders did not sign, or that no audience may follow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from policyengine.bundles import contexts
from policyengine.bundles.roots import SignedRoot
from policyengine.primitives import SigningKey, sign
from policyengine.primitives.canonical import b64, dumps
from tests.conformance.agent import texts
from tests.conformance.agent.hostile import CONTEXTS, OTHERS, Forgery
from tests.support.roots import holder, online


def _bodies(change: Callable[[bytes], bytes]) -> Callable[[list[SignedRoot]], bytes]:
    def made(roots: list[SignedRoot]) -> bytes:
        body = change(roots[-1].body)
        last = replace(roots[-1], body=body, signatures=())
        return _roots([*roots[:-1], last.signed_by(holder("ada")).signed_by(holder("ben"))])

    return made


def _roots(roots: list[SignedRoot]) -> bytes:
    return dumps([one.to_json() for one in roots])


def _by(*keys: SigningKey) -> Callable[[list[SignedRoot]], bytes]:
    def made(roots: list[SignedRoot]) -> bytes:
        last = replace(roots[-1], signatures=())
        for key in keys:
            last = last.signed_by(key)
        return _roots([*roots[:-1], last])

    return made


def _under(context: bytes) -> Callable[[list[SignedRoot]], bytes]:
    def made(roots: list[SignedRoot]) -> bytes:
        last = roots[-1]
        listed = [
            {"key": b64(key.public), "signature": b64(sign(key, context, last.body))}
            for key in (holder("ada"), holder("ben"))
        ]
        return dumps([{**last.to_json(), "signatures": listed}])

    return made


def _doubled(roots: list[SignedRoot]) -> bytes:
    document = _by(holder("ada"))(roots)
    (one,) = json.loads(document)
    return dumps([{**one, "signatures": one["signatures"] * 2}])


def _with(**changes: Any) -> Callable[[list[SignedRoot]], bytes]:
    return _bodies(lambda body: dumps({**json.loads(body), **changes}))


def _holders(*names: str) -> list[str]:
    return [b64(holder(name).public) for name in names]


ROOTS: dict[str, Forgery] = {
    "one signature short": Forgery("roots", "signature", _by(holder("ada"))),
    "nobody's": Forgery("roots", "signature", _by()),
    "one holder's twice": Forgery("roots", "signature", _doubled),
    "of two who are no holders": Forgery("roots", "signature", _by(holder("eve"), holder("mal"))),
    "of a holder and a stranger": Forgery("roots", "signature", _by(holder("ada"), holder("eve"))),
    "of all online keys": Forgery("roots", "signature", _by(*(online(role) for role in OTHERS))),
    **{f"signed as {name}": Forgery("contexts", "signature", _under(context))
       for name, context in CONTEXTS.items() if context != contexts.ROOT},
    "of strangers who name themselves holders": Forgery(
        "roots", "signature",
        lambda roots: _by(holder("eve"), holder("mal"))(
            [replace(roots[-1], body=dumps({
                **json.loads(roots[-1].body), "holders": _holders("eve", "mal")}))]),
    ),
    "of its old holders and none of its new": Forgery(
        "roots", "signature", _with(holders=_holders("eve", "mal", "joe"))
    ),
    "with a threshold of nobody": Forgery("roots", "malformed", _with(threshold=0)),
    "with a threshold above its holders": Forgery("roots", "malformed", _with(threshold=4)),
    "with a holder twice": Forgery(
        "roots", "malformed", _with(holders=_holders("ada", "ben", "ada"))
    ),
    "with one key for two roles": Forgery(
        "roots", "malformed", _with(lease=b64(online("policy", 2).public),
                                    policy=b64(online("policy", 2).public))
    ),
    "with a holder's key for policies": Forgery(
        "roots", "malformed", _with(policy=b64(holder("ada").public))
    ),
    "with a key of 31 bytes": Forgery("roots", "malformed", _with(policy=b64(bytes(31)))),
    "with 129 domains to forget": Forgery(
        "roots", "malformed", _with(reset=[f"d-{n}" for n in range(129)])
    ),
    "that ends before it begins": Forgery("roots", "malformed", _with(expires=1)),
    "expired": Forgery("expired", "expired", _with(expires=1_900_000_001)),
    **{f"written with {name}": Forgery("non-canonical", "malformed", _bodies(text))
       for name, text in texts.EVERYWHERE.items() if name != "nothing"},
    "in no list": Forgery(
        "non-canonical", "malformed", lambda roots: dumps(roots[0].to_json())
    ),
    "in an empty list": Forgery("non-canonical", "malformed", lambda _: b"[]"),
    "in a list with a space": Forgery(
        "non-canonical", "malformed", lambda roots: _roots(roots).replace(b"[{", b"[ {", 1)
    ),
    "33 in a message": Forgery("endless data", "malformed", lambda roots: _roots(roots * 33)),
    "over 1 MiB": Forgery("endless data", "malformed", lambda _: b"[" + b" " * 2**20 + b"]"),
}  # fmt: skip
