"""What the trusted authority is asked about and answers, as records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SignedLog:
    """What the authority has signed of the audit.

    Args:
        public: the key that checkpoints verify with.
        size: number of entries of the newest one, 0 before the first.
        root: root of the tree over them.
    """

    public: bytes
    size: int
    root: bytes


@dataclass(frozen=True)
class RootStatus:
    """The root of trust in force.

    Args:
        version: its version.
        expires: seconds since 1970.
        fingerprint: for people to compare with what they signed.
        self_made: whether the authority itself holds its holders' keys: no ceremony was held.
        roots: the signed roots after the version asked about, as a message; empty for none.
    """

    version: int
    expires: int
    fingerprint: str
    self_made: bool
    roots: bytes


@dataclass(frozen=True)
class IssuedCertificate:
    """A certificate for TLS in the moment that it is issued.

    Args:
        pem: the certificate.
        serial: its number, hexadecimal.
        begins: seconds since 1970.
        ends: seconds since 1970.
    """

    pem: str
    serial: str
    begins: float
    ends: float


@dataclass(frozen=True)
class JournalHead:
    """How far the authority's own journal is.

    Args:
        size: number of its entries.
        digest: SHA-256 of the last one, hexadecimal, which stands for all before it.
    """

    size: int
    digest: str


@dataclass(frozen=True)
class BlindClient:
    """A client to be enrolled in a blind epoch.

    Args:
        handle: its handle.
        variants: for each variant of its subject the tokens, sorted.
        recipient: its public sealing key.
        reads: whether its keys read by these tokens; else it asks for keys of filters.
        ways: where it asks, a digest of how it may read what; the authority does not see it.
    """

    handle: str
    variants: tuple[tuple[str, ...], ...]
    recipient: bytes
    reads: bool = True
    ways: str = ""
