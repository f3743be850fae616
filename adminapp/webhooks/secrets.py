"""Secrets of webhooks: shown once, kept sealed under a key that no database holds."""

from __future__ import annotations

from base64 import b64encode

from django.conf import settings

from policyengine.errors import PortcullisError
from policyengine.primitives import aead
from policyengine.primitives.kdf import derive
from policyengine.primitives.rand import SYSTEM_RANDOM

PREFIX = "whsec_"
SIZE = 32
_AAD = b"portcullis/webhook/v1"


def new() -> bytes:
    """A fresh secret."""
    return SYSTEM_RANDOM.token(SIZE)


def shown(secret: bytes) -> str:
    """As Standard Webhooks writes it."""
    return PREFIX + b64encode(secret).decode()


def close(secret: bytes) -> bytes:
    """As the database keeps it."""
    return aead.seal(_key(), secret, aad=_AAD, random=SYSTEM_RANDOM)


def open_(sealed: bytes) -> bytes | None:
    """The secret, or None when it was sealed under a key that is no longer ours."""
    try:
        return aead.open_(_key(), bytes(sealed), aad=_AAD)
    except PortcullisError:
        return None


def _key() -> bytes:
    return derive(settings.SECRET_KEY.encode(), info=b"portcullis/webhook/secret/v1")
