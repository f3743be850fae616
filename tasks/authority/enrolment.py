"""Certificates for TLS, issued by a key that only the authority has.

The issuer is drawn from the key of the purpose `enrolment`, so that nothing else has to be kept,
backed up or handed to a standby.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from policyengine.primitives.issuing import CertificateAuthority, Subject
from policyengine.primitives.rand import RandomSource
from policyengine.primitives.signatures import SigningKey
from tasks.authority.refusals import RefusedError

UNITS: Final = {"agent": "agents", "client": "clients"}
"""Whom the authority certifies; a name of `control` or of a broker it never signs."""
SHORTEST, LONGEST = 60, 31 * 86_400
"""Seconds that a certificate may hold."""
_SKEW: Final = timedelta(minutes=5)
_NAME: Final = re.compile(r"[a-z0-9-]{1,64}\Z")
_USER: Final = re.compile(r"[0-9a-f]{32}\Z")
_SERIAL_BYTES: Final = 16


class EnrolmentOperations:
    """The operations about certificates.

    Args:
        signing: purpose -> the key that the root in force names for it.
        random: source of serial numbers.
        now: seconds since 1970; the authority believes nobody else's clock.
    """

    def __init__(
        self,
        signing: Callable[[str], SigningKey],
        random: RandomSource,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._signing = signing
        self._random = random
        self._now = now

    @property
    def _authority(self) -> CertificateAuthority:
        return _issuer(self._signing("enrolment").private)

    def certificate_authority(self) -> dict[str, Any]:
        """The issuer's own certificate, which brokers trust for clients."""
        return {"certificate": self._authority.certificate}

    def issue_certificate(
        self, *, kind: str, name: str, enrolment: str, request: str, seconds: int
    ) -> dict[str, Any]:
        """A certificate over the key of a request, under the name of an agent or a client."""
        if kind not in UNITS:
            raise RefusedError("certificates are for agents and clients")
        if not _NAME.match(name) or not _USER.match(enrolment):
            raise RefusedError("not the name of an agent or client, or not an enrolment")
        if type(seconds) is not int or not SHORTEST <= seconds <= LONGEST:
            raise RefusedError(f"a certificate holds {SHORTEST} to {LONGEST} seconds")
        now = datetime.fromtimestamp(int(self._now()), UTC)
        serial = int.from_bytes(self._random.token(_SERIAL_BYTES), "big") + 1
        ends = now + timedelta(seconds=seconds)
        certificate = self._authority.issue(
            request,
            Subject(name, UNITS[kind], enrolment),
            serial=serial,
            begins=now - _SKEW,
            ends=ends,
        )
        return {
            "certificate": certificate,
            "serial": f"{serial:x}",
            "begins": now.timestamp(),
            "ends": ends.timestamp(),
        }


@lru_cache(maxsize=2)
def _issuer(secret: bytes) -> CertificateAuthority:
    return CertificateAuthority(secret)
