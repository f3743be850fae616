"""The heavy part of the blind profiles' keys: pure work on secrets that were unwrapped before."""

from __future__ import annotations

from typing import Any

from policyengine.blind import BlindMaster
from policyengine.bundles.authority_seals import SecretKind, seal_secret
from policyengine.primitives import canonical
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.stream import KeyStream

_ENROL = b"portcullis/blind-enrolment/v1"


class _Drawn:
    """Random bytes that are the same for the same secret."""

    def __init__(self, secret: bytes) -> None:
        self._stream = KeyStream(secret)

    def token(self, size: int) -> bytes:
        return self._stream.read(size)


def master(*, domain: str, epoch: int) -> dict[str, str]:
    """A fresh master, and its public key (Init, paper 001, section 5.1)."""
    made = BlindMaster.init(SYSTEM_RANDOM, domain=domain, epoch=epoch)
    return {
        "secret": canonical.b64(made.to_bytes()),
        "public": canonical.b64(made.public().to_bytes()),
    }


def enrol(*, secret: str, clients: list[dict[str, Any]]) -> list[str]:
    """Each client's keys, sealed for that client (Keygen, paper 001, section 5.1).

    Args:
        secret: the master, base64url.
        clients: each with `handle`, `variants`, `recipient` (base64url), and `reads`: whether its
            keys read by these tokens, or nothing until it asks for the key of a filter.
    """
    return [_keys("client", secret, _base(client), client["handle"]) for client in clients]


def _base(client: dict[str, Any]) -> dict[str, Any]:
    return client if client["reads"] else {**client, "variants": []}


def narrowed(*, secret: str, client: dict[str, Any], event_type: str) -> str:
    """A client's keys that read no more than a filter needs, sealed for it."""
    return _keys("filter", secret, client, event_type)


def _keys(kind: SecretKind, secret: str, client: dict[str, Any], name: str) -> str:
    data = canonical.unb64(secret)
    made = BlindMaster.from_bytes(data)
    handle, variants = client["handle"], client["variants"]
    # Asked again, a client with the same tokens gets the same keys.
    asked = canonical.dumps([handle, *variants])
    keys, _ = made.enrol(handle, variants, _Drawn(derive(data, info=canonical.pack(_ENROL, asked))))
    sealed = seal_secret(
        kind,
        keys.to_bytes(),
        domain=made.place.domain,
        epoch=made.place.epoch,
        name=name,
        recipient=canonical.unb64(client["recipient"]),
        audience=f"client:{handle}",
    )
    return canonical.b64(sealed)
