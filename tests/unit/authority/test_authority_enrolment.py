"""Whom the authority certifies, and whom never."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from policyengine.errors import InputError
from policyengine.primitives.issuing import generate_tls_key, request_certificate
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import generate_signing_key
from tasks.authority.enrolment import LONGEST, EnrolmentOperations
from tasks.authority.refusals import RefusedError

NOW = 1_900_000_000
UID = "0f" * 16
REQUEST = request_certificate(generate_tls_key())


def operations() -> EnrolmentOperations:
    key = generate_signing_key()
    return EnrolmentOperations({"enrolment": key}.__getitem__, SYSTEM_RANDOM, now=lambda: NOW)


def wanted(**other: Any) -> dict[str, Any]:
    return {
        "kind": "agent",
        "name": "alpha",
        "enrolment": UID,
        "request": REQUEST,
        "seconds": 3600,
        **other,
    }


def test_a_certificate_by_the_authoritys_own_clock() -> None:
    made = operations()
    issued = made.issue_certificate(**wanted())
    found = x509.load_pem_x509_certificate(issued["certificate"].encode())
    authority = made.certificate_authority()["certificate"]
    found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
    assert found.subject.rfc4514_string() == f"CN=alpha,OU=agents,UID={UID}"
    now = datetime.fromtimestamp(NOW, UTC)
    assert (issued["begins"], issued["ends"]) == (NOW, NOW + 3600)
    assert found.not_valid_before_utc == now - timedelta(minutes=5)
    assert found.not_valid_after_utc == now + timedelta(hours=1)
    assert issued["serial"] == f"{found.serial_number:x}"
    assert made.issue_certificate(**wanted())["serial"] != issued["serial"]


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "control"},
        {"kind": "comparator"},
        {"name": "Alpha"},
        {"name": "alpha, OU=control"},
        {"enrolment": "beta"},
        {"seconds": 59},
        {"seconds": LONGEST + 1},
        {"seconds": True},
    ],
)
def test_what_it_never_certifies(other: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        operations().issue_certificate(**wanted(**other))


def test_a_request_that_is_none() -> None:
    with pytest.raises(InputError):
        operations().issue_certificate(**wanted(request="none"))
