"""Keys that the authority seals for one audience, so that who composes bundles never sees them.

A bundle is sealed as a whole to its audience by the control plane; keys of the blind profiles
inside of it are sealed once more, by the authority, and opened together with the bundle. The
seal names what the key is for, so that no sealed key can be put in another's place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal, TypeAlias

from policyengine.bundles.blind import BlindAgentEpoch, BlindClientEpoch, OrderKey
from policyengine.bundles.content import AgentContent, ClientContent, ComparatorContent
from policyengine.errors import DecryptionError, RejectedError
from policyengine.primitives.canonical import pack
from policyengine.primitives.hpke import SealingKey, open_sealed, seal_to

SecretKind: TypeAlias = Literal["client", "share", "order", "filter"]
_PURPOSE: Final = b"portcullis/authority-seal/v1"


def seal_secret(
    kind: SecretKind,
    secret: bytes,
    *,
    domain: str,
    epoch: int,
    name: str,
    recipient: bytes,
    audience: str,
) -> bytes:
    """Seal a key for the one audience that is to hold it.

    Args:
        kind: what it is.
        secret: its bytes.
        domain: the domain.
        epoch: number of the blind epoch.
        name: whose or what's it is: a client's handle, `<type>.<attribute>`, or a filter's type.
        recipient: the audience's public sealing key.
        audience: the address, for example `agent:alpha`.

    Raises:
        InputError: `invalid` when the recipient's key is none.
    """
    return seal_to(recipient, secret, info=_info(kind, domain, epoch, name, audience))


def open_secret(
    kind: SecretKind,
    sealed: bytes,
    *,
    domain: str,
    epoch: int,
    name: str,
    key: SealingKey,
    audience: str,
) -> bytes:
    """Open what `seal_secret` made for the same place.

    Raises:
        DecryptionError: made for another place or audience, or damaged.
    """
    return open_sealed(key, sealed, info=_info(kind, domain, epoch, name, audience))


def opened_secrets(
    content: AgentContent | ClientContent | ComparatorContent, *, key: SealingKey, audience: str
) -> AgentContent | ClientContent | ComparatorContent:
    """Open every key in a content that the authority sealed.

    Args:
        content: from a bundle whose signature was checked.
        key: the audience's own key.
        audience: its address.

    Raises:
        RejectedError: `malformed` when one does not open; nothing of the bundle may be used.
    """
    try:
        if isinstance(content, AgentContent):
            return replace(content, blind=_shares(content, key, audience))
        ordered = open_orders(content.ordered, content.domain, key=key, audience=audience)
        if isinstance(content, ComparatorContent):
            return replace(content, ordered=ordered)
        return replace(content, blind=_client_keys(content, key, audience), ordered=ordered)
    except DecryptionError as error:
        raise RejectedError("malformed", "a key in the bundle does not open") from error


def open_orders(
    orders: tuple[OrderKey, ...], domain: str, *, key: SealingKey, audience: str
) -> tuple[OrderKey, ...]:
    """Open keys of order-preserving attributes; what is not sealed stays as it is.

    Raises:
        DecryptionError: one does not open.
    """
    return tuple(
        replace(
            each,
            sealed=False,
            key=open_secret(
                "order",
                each.key,
                domain=domain,
                epoch=each.epoch,
                name=f"{each.type}.{each.attribute}",
                key=key,
                audience=audience,
            ),
        )
        if each.sealed
        else each
        for each in orders
    )


def _shares(content: AgentContent, key: SealingKey, audience: str) -> tuple[BlindAgentEpoch, ...]:
    return tuple(
        replace(
            each,
            sealed=False,
            shares={
                handle: open_secret(
                    "share",
                    sealed,
                    domain=content.domain,
                    epoch=each.epoch,
                    name=handle,
                    key=key,
                    audience=audience,
                )
                for handle, sealed in each.shares.items()
            },
        )
        if each.sealed
        else each
        for each in content.blind
    )


def _client_keys(
    content: ClientContent, key: SealingKey, audience: str
) -> tuple[BlindClientEpoch, ...]:
    return tuple(
        replace(
            each,
            sealed=False,
            keys=open_secret(
                "client",
                each.keys,
                domain=content.domain,
                epoch=each.epoch,
                name=content.handle,
                key=key,
                audience=audience,
            ),
        )
        if each.sealed
        else each
        for each in content.blind
    )


def _info(kind: str, domain: str, epoch: int, name: str, audience: str) -> bytes:
    return pack(
        _PURPOSE,
        kind.encode(),
        domain.encode(),
        epoch.to_bytes(8, "big"),
        name.encode(),
        audience.encode(),
    )
