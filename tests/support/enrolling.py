"""Machines that enrol: the applicant's own code over the REST interface of this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from adminapp.core.authority import IssuedCertificate, RootStatus
from adminapp.enrolment import certificates, offers
from brokers.control import enrol
from policyengine.bundles.enrolment import EnrolmentPlace
from policyengine.bundles.roots import encode_roots
from policyengine.primitives.canonical import b64, unb64
from policyengine.primitives.hpke import SealingKey, generate_sealing_key
from policyengine.primitives.rand import SYSTEM_RANDOM
from policyengine.primitives.signatures import SigningKey, generate_signing_key
from tasks.authority.enrolment import EnrolmentOperations
from tests.support import roots

API = "/api/v1"


class CertifyingAuthority:
    """The real operations about certificates, without a process around them."""

    def __init__(self) -> None:
        self._operations = EnrolmentOperations(roots.online, SYSTEM_RANDOM)

    def root(self) -> RootStatus:
        made = roots.chain(1)
        return RootStatus(1, made[0].claimed().expires, "", False, encode_roots(made))

    def certificate_authority(self) -> str:
        return str(self._operations.certificate_authority()["certificate"])

    def issue_certificate(self, **asked: Any) -> IssuedCertificate:
        found = self._operations.issue_certificate(**asked)
        return IssuedCertificate(
            found["certificate"], found["serial"], found["begins"], found["ends"]
        )


@pytest.fixture
def certifying(monkeypatch: pytest.MonkeyPatch) -> CertifyingAuthority:
    """An authority that issues certificates to this process."""
    made = CertifyingAuthority()
    for module in (certificates, offers):
        monkeypatch.setattr(module, "get_authority", lambda: made)
    return made


@dataclass
class Machine:
    """What stands where an agent or a client is to run.

    Args:
        kind: `agent` or `client`.
        token: the secret that it was given.
        name: what it calls itself.
    """

    kind: str
    token: str
    name: str = ""
    sealing: SealingKey = field(default_factory=generate_sealing_key)
    signing: SigningKey = field(default_factory=generate_signing_key)
    offered: enrol.Offered | None = None

    def __post_init__(self) -> None:
        self.application = enrol.apply(
            kind=self.kind,
            name=self.name,
            token=self.token,
            sealing=self.sealing,
            signing=self.signing,
        )

    def request(self, token: str = "") -> tuple[int, dict[str, Any]]:
        """Ask to take part; reads the answer."""
        application = self.application
        code, answer = post(
            "/enrol", application.record, application.signature, token=token or self.token
        )
        if code == 201:
            self.offered = enrol.take_offer(
                enrolment=answer["enrolment"],
                offer=unb64(answer["offer"]),
                challenge=unb64(answer["challenge"]),
                sealing=self.sealing,
            )
        return code, answer

    @property
    def fingerprint(self) -> str:
        """What it shows to whoever stands before it."""
        assert self.offered is not None
        return enrol.compare(self.application, self.offered)

    def question(self) -> tuple[int, dict[str, Any]]:
        """Ask what became of it."""
        assert self.offered is not None
        return post("/enrol/question", *enrol.question(self.offered, self.signing))

    def place(self) -> EnrolmentPlace:
        """What it was given, checked as the applicant checks it."""
        assert self.offered is not None
        code, answer = self.question()
        assert (code, answer["state"]) == (200, "confirmed"), answer
        return enrol.take_place(
            EnrolmentPlace.from_json(answer["place"]),
            application=self.application,
            offered=self.offered,
            now=datetime.now(UTC),
        )

    def renewal(self, place: EnrolmentPlace, serial: str = "") -> enrol.Renewal:
        """The wish for the next certificate."""
        return enrol.renewal(
            kind=place.kind,
            name=place.name,
            serial=serial or place.serial,
            signing=self.signing,
        )


def renew(wish: enrol.Renewal) -> tuple[int, dict[str, Any]]:
    """Ask for the next certificate."""
    return post("/enrol/renew", wish.record, wish.signature)


def post(path: str, record: bytes, signature: bytes, **more: str) -> tuple[int, dict[str, Any]]:
    """Send a signed record; gives status and answer."""
    body = {"record": b64(record), "signature": b64(signature), **more}
    answer = Client().post(API + path, body, content_type="application/json")
    return answer.status_code, answer.json()
