"""Keys of the audit, all derived from one secret of the control plane that no database holds.

Seals make an entry tell its own number and hash in a way that nobody can write who has only the
database. Content about a person is encrypted under a key made of the secret and of the person's
salt, so that destroying the salt destroys the content, wherever copies of the secret may be.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings

from policyengine.primitives import aead
from policyengine.primitives.canonical import pack
from policyengine.primitives.hashing import digest
from policyengine.primitives.kdf import derive
from policyengine.primitives.prf import prf
from policyengine.primitives.rand import SYSTEM_RANDOM

SALT_BYTES = 32
_SEAL_BYTES = 16
_HEAD = "head"
_ENTRY = "entry"


@dataclass(frozen=True)
class _Keys:
    name: str
    seal: bytes
    person: bytes


@lru_cache(maxsize=4)
def _keys(secret: str) -> _Keys:
    raw = secret.encode()
    return _Keys(
        name=derive(raw, info=b"portcullis/audit/name/v1", size=4).hex(),
        seal=derive(raw, info=b"portcullis/audit/seal/v1"),
        person=derive(raw, info=b"portcullis/audit/person/v1"),
    )


def _own() -> _Keys:
    return _keys(settings.AUDIT_KEY)


def key_id() -> str:
    """Eight digits that tell this key from others and nothing about it."""
    return _own().name


def new_salt() -> bytes:
    return SYSTEM_RANDOM.token(SALT_BYTES)


def pseudonym(salt: bytes, name: str, user_id: int) -> str:
    """What stands for an actor; the salt is needed to find the name, and fits no other name."""
    fields = (b"portcullis/audit/actor/v1", salt, str(user_id).encode(), name.encode())
    return digest(pack(*fields))


# -- seals --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seal:
    """What a seal says, whether or not it is genuine.

    Args:
        key: identifier of the key that made it.
        number: the entry's number when it was written.
        genuine: whether this process' key made it for this hash; None under another key.
    """

    key: str
    number: int
    genuine: bool | None


def seal_entry(number: int, leaf: bytes) -> str:
    return f"{key_id()}:{number}:{_mac(_ENTRY, number, leaf)}"


def read_seal(text: str, leaf: bytes) -> Seal | None:
    """None when it has not the form of a seal."""
    key, _, rest = text.partition(":")
    digits, _, mac = rest.partition(":")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19):
        return None
    number = int(digits)
    if key != key_id():
        return Seal(key, number, None)
    return Seal(key, number, hmac.compare_digest(mac.encode(), _mac(_ENTRY, number, leaf).encode()))


def seal_head(size: int, root: bytes) -> str:
    return _mac(_HEAD, size, root)


def _mac(kind: str, number: int, data: bytes) -> str:
    return prf(_own().seal, kind, str(number), data, size=_SEAL_BYTES).hex()


# -- content about a person ---------------------------------------------------------------------


def of_person(name: str, salt: bytes) -> bytes:
    return prf(_own().person, name, salt)


def close_content(key: bytes, number: int, text: str) -> bytes:
    return aead.seal(key, text.encode(), aad=_place(number), random=SYSTEM_RANDOM)


def open_content(key: bytes, number: int, sealed: bytes) -> str:
    """Raises DecryptionError when it is not of this person, number and secret."""
    return aead.open_(key, sealed, aad=_place(number)).decode()


def _place(number: int) -> bytes:
    return pack(b"portcullis/audit/content/v1", str(number).encode())
