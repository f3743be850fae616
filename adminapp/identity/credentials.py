"""The keys of principals: bare public ones, or those of a certificate."""

from __future__ import annotations

from datetime import datetime

from adminapp.core.errors import Invalid, Problem
from adminapp.identity import mapping
from adminapp.identity.models import Agent, Principal
from policyengine.errors import InputError
from policyengine.primitives.canonical import b64
from policyengine.primitives.certificates import Certificate, read_certificate


def read(pem: str, now: datetime) -> Certificate:
    """A certificate that a client can sign with, and that holds now.

    Raises:
        Invalid: it is none; the problem points at `/certificate`.
    """
    try:
        found = read_certificate(pem)
        found.check(now)
    except InputError as error:
        raise Invalid([Problem.from_input_error(error, "/certificate")]) from error
    if found.algorithm != "Ed25519":
        raise Invalid.at(
            "/certificate",
            f"clients sign with Ed25519 keys, and this certificate has one of {found.algorithm}",
        )
    if len(found.subject) > Principal._meta.get_field("certificate_subject").max_length:
        raise Invalid.at("/certificate", "the certificate's subject is too long")
    return found


def assign(
    row: Principal,
    *,
    sealing_key: bytes | str | None,
    verify_key: bytes | str | None,
    certificate: str | None,
    now: datetime,
) -> None:
    """Give a principal keys in place of those it had; the row is not saved.

    Args:
        sealing_key: X25519; None keeps the one it has, where there is a certificate.
        verify_key: Ed25519; with a certificate it is the certificate's.
        certificate: PEM.
    """
    if certificate:
        found = read(certificate, now)
        key = b64(found.public_key)
        if verify_key and mapping.public_key(verify_key, "verify_key") != key:
            raise Invalid.at("/verify_key", "this is not the key of the certificate")
        row.verify_key = key
        row.certificate, row.certificate_subject = found.pem, found.subject
        row.certificate_fingerprint = found.fingerprint
        row.certificate_from, row.certificate_until = found.not_before, found.not_after
    else:
        row.verify_key = mapping.public_key(_there(verify_key, "verify_key"), "verify_key")
        clear_certificate(row)
    if not certificate or sealing_key:
        row.sealing_key = mapping.public_key(_there(sealing_key, "sealing_key"), "sealing_key")


def clear_certificate(row: Principal) -> None:
    """Forget the certificate; the row is not saved."""
    row.certificate = row.certificate_subject = row.certificate_fingerprint = ""
    row.certificate_from = row.certificate_until = None


def mirror(agent: Agent) -> None:
    """Let the principals of an agent have its keys, whatever they had."""
    keys = {"sealing_key": agent.sealing_key, "verify_key": agent.verify_key}
    Principal.objects.filter(broker=agent).exclude(state=Principal.State.REVOKED).update(**keys)


def _there(key: bytes | str | None, field: str) -> bytes | str:
    if key is None:
        raise Invalid.at(f"/{field}", "this key is missing", "missing")
    return key
