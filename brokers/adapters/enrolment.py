"""What an applicant keeps while it enrols and afterwards, and the control plane that it asks.

A folder that is ready to run holds, besides `agent.toml` or `profile.json`:

enrolment.json      who it is, where the control plane is, whom it trusts for certificates
anchors.json        the root of trust, pinned
tls.pem             private key and certificate for TLS, replaced as one (mode 0600)
brokers.json        where brokers stand, where the control plane said so; `ca-<overlay>.pem`

`application.json` (mode 0600) is there while the request waits, so that asking goes on where it
stopped; it goes last.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from brokers.adapters.brokers_file import ConfigurationError, read_private_json
from brokers.adapters.files import Keys, write_atomically
from brokers.control import enrol
from policyengine.errors import PortcullisError
from policyengine.primitives.canonical import b64, unb64
from policyengine.primitives.issuing import read_dates

ENROLMENT: Final = "enrolment.json"
APPLICATION: Final = "application.json"
TLS: Final = "tls.pem"
_API: Final = "/api/v1"
_MOST_ANSWER: Final = 2**20
_TIMEOUT: Final = 30.0
_LONGEST_PAUSE: Final = 3600.0
_SHORTEST_PAUSE: Final = 1.0
_PAUSES: Final = 20
"""How often the life of a certificate is looked at."""


class EnrolmentRefused(Exception):
    """The control plane said no.

    Args:
        status: of its answer.
        message: its reason.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class EnrolmentUnreachable(Exception):
    """The control plane did not answer, or not as one does; asking again may help."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead a token to somebody else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class EnrolmentServer:
    """A control plane, asked without an account.

    Args:
        url: its address, https, or http on this machine.
        ca: file with the certificates to trust for it, None for the system's.

    Raises:
        ConfigurationError: the address is none, or its file cannot be read.
    """

    def __init__(self, url: str, ca: Path | None = None) -> None:
        self.url = _checked(url)
        self.ca = ca
        try:
            context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        except (OSError, ssl.SSLError):
            raise ConfigurationError(f"{ca} holds no certificates to trust") from None
        self._opener = urllib.request.build_opener(
            _NoRedirects, urllib.request.HTTPSHandler(context=context)
        )

    def post(self, path: str, record: bytes, signature: bytes, **more: str) -> dict[str, Any]:
        """Send a signed record.

        Args:
            path: below `/api/v1`.
            record: its bytes.
            signature: over them.
            more: further members of the request.

        Raises:
            EnrolmentRefused: the answer is no.
            EnrolmentUnreachable: there is no answer, or it asks for patience.
        """
        body = {"record": b64(record), "signature": b64(signature), **more}
        request = urllib.request.Request(  # noqa: S310 - https, or loopback
            f"{self.url}{_API}{path}",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json", "User-Agent": "portcullis"},
            method="POST",
        )
        try:
            with self._opener.open(request, timeout=_TIMEOUT) as answer:
                return _document(answer.read(_MOST_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                raise _refused(error.code, error.read(_MOST_ANSWER)) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise EnrolmentUnreachable(f"{self.url} does not answer: {reason}") from None


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query:
        raise ConfigurationError(f"`{url}` is no address such as https://portcullis.example")
    if parts.username or parts.password:
        raise ConfigurationError("the control plane's address holds no name and no password")
    if parts.scheme == "http" and not _loopback(parts.hostname):
        raise ConfigurationError("only https: the token would travel in clear")
    return url.rstrip("/").removesuffix(_API)


def _loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _document(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise EnrolmentUnreachable("the answer is not that of a control plane")
    return found


def _refused(status: int, data: bytes) -> Exception:
    try:
        found = json.loads(data)
        message = str(found["detail"])
    except (ValueError, KeyError, TypeError):
        message = f"status {status}"
    if status == 429 or status >= 500:
        return EnrolmentUnreachable(message)
    return EnrolmentRefused(status, message)


# -- while the request waits -----------------------------------------------------------------


def save_application(
    folder: Path, application: enrol.Application, offered: enrol.Offered | None = None
) -> None:
    """Keep a request, and once there is one its offer; returns when they survive a crash."""
    document: dict[str, Any] = {
        "kind": application.kind,
        "record": b64(application.record),
        "signature": b64(application.signature),
        "tls_key": application.tls_key,
    }
    if offered is not None:
        document["offered"] = {
            "enrolment": offered.enrolment,
            "offer": b64(offered.offer),
            "answer": b64(offered.answer),
        }
    write_atomically(folder / APPLICATION, json.dumps(document).encode())


def load_application(folder: Path) -> tuple[enrol.Application, enrol.Offered | None] | None:
    """The request that waits, or None.

    Raises:
        ConfigurationError: the file is damaged or open to others.
    """
    path = folder / APPLICATION
    if not path.exists():
        return None
    document = read_private_json(path)
    try:
        application = enrol.Application(
            kind=str(document["kind"]),
            record=unb64(document["record"]),
            signature=unb64(document["signature"]),
            tls_key=str(document["tls_key"]),
        )
        held = document.get("offered")
        if held is None:
            return application, None
        offered = enrol.Offered(str(held["enrolment"]), unb64(held["offer"]), unb64(held["answer"]))
        return application, offered
    except (KeyError, TypeError, AttributeError, PortcullisError):
        raise ConfigurationError(f"{path}: not an application; remove it and begin anew") from None


# -- afterwards ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Enrolled:
    """Who this folder is, and where it renews its certificate.

    Args:
        kind: `agent` or `client`.
        name: the agent's name or the client's handle.
        place: an agent's overlay, a client's domain.
        url: the control plane's address.
        ca: file with the certificates to trust for it, or empty.
        keys: file of the private keys, from the folder.
        authority: certificate in PEM of the authority that issues certificates for TLS.
    """

    kind: str
    name: str
    place: str
    url: str
    ca: str
    keys: str
    authority: str

    def save(self, folder: Path) -> None:
        """Keep it; returns when it survives a crash."""
        write_atomically(folder / ENROLMENT, json.dumps(vars(self), indent=1).encode())

    @classmethod
    def load(cls, folder: Path) -> Enrolled:
        """Read it.

        Raises:
            ConfigurationError: missing, open to others, or not one.
        """
        path = folder / ENROLMENT
        document = read_private_json(path)
        if set(document) != set(cls.__dataclass_fields__):
            raise ConfigurationError(f"{path}: not an enrolment")
        return cls(**{name: str(value) for name, value in document.items()})


class Renewer:
    """Renews the certificate of a folder when half of its life is over.

    Args:
        folder: where `policyctl enrol` wrote.

    Raises:
        ConfigurationError: the folder is not one of an enrolled agent or client.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.enrolled = Enrolled.load(folder)
        self._keys = Keys.load(folder / self.enrolled.keys)
        ca = Path(self.enrolled.ca) if self.enrolled.ca else None
        self._server = EnrolmentServer(self.enrolled.url, ca)

    def dates(self) -> tuple[str, datetime, datetime]:
        """Serial, beginning and end of the certificate that holds now.

        Raises:
            ConfigurationError: there is none.
        """
        path = self._folder / TLS
        try:
            return read_dates(path.read_text(encoding="ascii"))
        except (OSError, ValueError, PortcullisError) as error:
            raise ConfigurationError(f"{path} holds no certificate") from error

    def due(self) -> bool:
        """Whether it is time."""
        _, begins, ends = self.dates()
        return enrol.is_due(begins, ends, datetime.now(UTC))

    def pause(self) -> float:
        """Seconds until one should look again."""
        _, begins, ends = self.dates()
        life = (ends - begins).total_seconds()
        return min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, life / _PAUSES))

    def renew(self) -> datetime:
        """Get the certificate that follows; returns when it ends.

        Raises:
            EnrolmentRefused: the control plane gives none.
            EnrolmentUnreachable: it does not answer; ask again.
            PortcullisError: what it gave is not ours.
        """
        serial, _, _ = self.dates()
        wish = self._kept(serial)
        answer = self._server.post("/enrol/renew", wish.record, wish.signature)
        whole = enrol.take_renewal(
            wish,
            str(answer.get("certificate", "")),
            authority=self.enrolled.authority,
            kind=self.enrolled.kind,
            name=self.enrolled.name,
            now=datetime.now(UTC),
        )
        write_atomically(self._folder / TLS, whole.encode("ascii"))
        for spent in self._folder.glob("renewal-*.json"):
            spent.unlink()
        return self.dates()[2]

    def _kept(self, serial: str) -> enrol.Renewal:
        """The wish to follow a certificate: the same one however often it is sent."""
        path = self._folder / self._wish_name(serial)
        if path.exists():
            held: Mapping[str, Any] = read_private_json(path)
            return enrol.Renewal(
                unb64(str(held["record"])), unb64(str(held["signature"])), str(held["tls_key"])
            )
        wish = enrol.renewal(
            kind=self.enrolled.kind,
            name=self.enrolled.name,
            serial=serial,
            signing=self._keys.signing,
        )
        document = {
            "record": b64(wish.record),
            "signature": b64(wish.signature),
            "tls_key": wish.tls_key,
        }
        write_atomically(path, json.dumps(document).encode())
        return wish

    @staticmethod
    def _wish_name(serial: str) -> str:
        return f"renewal-{serial}.json"
