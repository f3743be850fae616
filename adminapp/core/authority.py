"""Client of the trusted authority: one connection, one request at a time, nothing kept."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from adminapp.core.authorityanswers import (
    BlindClient,
    IssuedCertificate,
    JournalHead,
    RootStatus,
    SignedLog,
)
from policyengine.bundles.anchors import TrustAnchors
from policyengine.errors import DecodeError
from policyengine.primitives import canonical

__all__ = [
    "AuthorityClient",
    "AuthorityError",
    "AuthorityUnavailable",
    "BlindClient",
    "IssuedCertificate",
    "JournalHead",
    "RevisionRefused",
    "RootStatus",
    "SignedLog",
    "get_authority",
]

MAX_ANSWER = 16 * 2**20


class AuthorityError(Exception):
    """The authority answered that it will not do this."""


class RevisionRefused(AuthorityError):
    """The authority has signed this revision with another content, or a newer one."""


class AuthorityUnavailable(AuthorityError):
    """The authority does not answer; nothing was signed or made."""


class AuthorityClient:
    """Speaks to the authority behind `socket_path`; safe to share between threads.

    Every operation may be asked twice without harm, so a connection that turns out
    dead (the authority was restarted) is opened once more before giving up.
    """

    def __init__(self, socket_path: str | Path, *, timeout: float = 10.0) -> None:
        self._path = str(socket_path)
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def __del__(self) -> None:
        self._drop()  # nobody may be left to close it

    def anchors(self) -> TrustAnchors:
        """The public keys that agents and clients pin."""
        return TrustAnchors.from_json(self._call("anchors"))

    def root(self, *, after: int = 0) -> RootStatus:
        """The root in force, with the signed roots that lead there from version `after`."""
        answer = self._call("root", after=after)
        return RootStatus(
            version=int(answer["version"]),
            expires=int(answer["expires"]),
            fingerprint=str(answer["fingerprint"]),
            self_made=answer["self_made"] is True,
            roots=canonical.unb64(answer["roots"]),
        )

    def sign(self, purpose: str, context: bytes, payload: bytes) -> bytes:
        """A signature with the key of `purpose` (policy, lease or receipt)."""
        answer = self._call(
            "sign",
            purpose=purpose,
            context_b64=canonical.b64(context),
            payload_b64=canonical.b64(payload),
        )
        return canonical.unb64(answer["signature"])

    def sign_notices(self, payloads: Sequence[bytes], *, about: Mapping[str, str]) -> list[bytes]:
        """Signatures with the notice key for up to 100 notices of one revocation, in order.

        `about` is what the authority's journal is to keep beside what each of them says.
        """
        encoded = [canonical.b64(payload) for payload in payloads]
        answer = self._call("sign_notices", payloads_b64=encoded, about=dict(about))
        return [canonical.unb64(signature) for signature in answer["signatures"]]

    def signed_revision(self, domain: str) -> int:
        """The highest revision of a domain that was signed for anybody; 0 before the first."""
        return int(self._call("signed_revision", domain=domain)["revision"])

    def create_key(self, key_id: str) -> str:
        """A fresh key, wrapped for keeping in the database."""
        return str(self._call("create_key", key_id=key_id)["wrapped"])

    def rewrap(self, key_id: str, wrapped: str) -> str:
        """The same wrapped key under the authority's newest key-encryption key."""
        return str(self._call("rewrap", key_id=key_id, wrapped=wrapped)["wrapped"])

    def unwrap(self, key_id: str, wrapped: str) -> bytes:
        """An encoding or tag key in clear."""
        return canonical.unb64(self._call("unwrap", key_id=key_id, wrapped=wrapped)["key"])

    def wrap_for(
        self,
        key_id: str,
        wrapped: str,
        *,
        group: str,
        epoch: int,
        recipient: bytes,
        audience: str,
    ) -> bytes:
        """A trust group's key sealed to one agent, without passing through here in clear."""
        answer = self._call(
            "wrap_for",
            key_id=key_id,
            wrapped=wrapped,
            group=group,
            epoch=epoch,
            recipient=canonical.b64(recipient),
            audience=audience,
        )
        return canonical.unb64(answer["sealed"])

    def create_blind_master(self, domain: str, epoch: int) -> tuple[str, bytes]:
        """A master of a blind epoch: wrapped for keeping in the database, and its public key."""
        answer = self._call("create_blind_master", domain=domain, epoch=epoch)
        return str(answer["wrapped"]), canonical.unb64(answer["public"])

    def enrol_blind_clients(
        self, domain: str, epoch: int, wrapped: str, clients: Sequence[BlindClient]
    ) -> list[bytes]:
        """The keys of each client, sealed for that client; at most 1,024 at a time."""
        answer = self._call(
            "enrol_blind_clients",
            domain=domain,
            epoch=epoch,
            wrapped=wrapped,
            clients=[_written(client) for client in clients],
        )
        return [canonical.unb64(sealed) for sealed in answer["sealed"]]

    def filter_key(
        self,
        domain: str,
        epoch: int,
        wrapped: str,
        *,
        revision: int,
        client: BlindClient,
        event_type: str,
        names: Sequence[str],
        reads: Mapping[str, Sequence[Sequence[str]]],
    ) -> bytes:
        """A client's keys narrowed to what a filter reads, sealed for that client.

        Args:
            domain: the domain.
            epoch: number of the blind epoch.
            wrapped: its master.
            revision: of the policies that `reads` is from.
            client: as it was enrolled in that epoch.
            event_type: the filter's type.
            names: the attributes that it tests.
            reads: hidden attribute -> the ways to be allowed to read it, each the tokens that it
                takes together.

        Raises:
            AuthorityError: no way is open to the client, or it was not enrolled with these tokens;
                the message says which.
        """
        answer = self._call(
            "filter_key",
            domain=domain,
            epoch=epoch,
            wrapped=wrapped,
            revision=revision,
            client=_written(client),
            event_type=event_type,
            filter=list(names),
            reads={name: [list(tokens) for tokens in ways] for name, ways in reads.items()},
        )
        return canonical.unb64(answer["sealed"])

    def share_blind(
        self,
        domain: str,
        epoch: int,
        wrapped: str,
        *,
        agent: str,
        recipient: bytes,
        handles: Sequence[str],
    ) -> list[bytes]:
        """An agent's share of each client's keys, sealed for that agent; at most 1,024."""
        answer = self._call(
            "share_blind",
            domain=domain,
            epoch=epoch,
            wrapped=wrapped,
            agent=agent,
            recipient=canonical.b64(recipient),
            handles=list(handles),
        )
        return [canonical.unb64(sealed) for sealed in answer["sealed"]]

    def seal_order_keys(
        self,
        domain: str,
        epoch: int,
        wrapped: str,
        *,
        audience: str,
        recipient: bytes,
        scheme: str,
        attributes: Sequence[tuple[str, str]],
    ) -> list[bytes]:
        """Keys of order-preserving attributes, sealed for a client or a comparator."""
        answer = self._call(
            "seal_order_keys",
            domain=domain,
            epoch=epoch,
            wrapped=wrapped,
            audience=audience,
            recipient=canonical.b64(recipient),
            scheme=scheme,
            attributes=[list(pair) for pair in attributes],
        )
        return [canonical.unb64(sealed) for sealed in answer["sealed"]]

    def certificate_authority(self) -> str:
        """The certificate in PEM of who issues certificates to agents and clients."""
        return str(self._call("certificate_authority")["certificate"])

    def issue_certificate(
        self, *, kind: str, name: str, enrolment: str, request: str, seconds: int
    ) -> IssuedCertificate:
        """A certificate for TLS over the key of a request, for an `agent` or a `client`."""
        answer = self._call(
            "issue_certificate",
            kind=kind,
            name=name,
            enrolment=enrolment,
            request=request,
            seconds=seconds,
        )
        return IssuedCertificate(
            pem=str(answer["certificate"]),
            serial=str(answer["serial"]),
            begins=float(answer["begins"]),
            ends=float(answer["ends"]),
        )

    def audit_log(self) -> SignedLog:
        """The public key of the audit's checkpoints, and what was signed of the audit last."""
        answer = self._call("audit_log")
        return SignedLog(
            public=canonical.unb64(answer["public"]),
            size=int(answer["size"]),
            root=canonical.unb64(answer["root"]),
        )

    def sign_checkpoint(
        self, *, origin: str, size: int, root: bytes, time: str, proof: Sequence[bytes]
    ) -> str:
        """A signed note over a state of the audit; `proof` leads there from the last one signed."""
        answer = self._call(
            "sign_checkpoint",
            origin=origin,
            size=size,
            root=canonical.b64(root),
            time=time,
            proof=[canonical.b64(part) for part in proof],
        )
        return str(answer["note"])

    def journal_head(self) -> JournalHead:
        """How far the authority's own journal is."""
        answer = self._call("journal_head")
        return JournalHead(size=int(answer["size"]), digest=str(answer["digest"]))

    def journal_entries(self, *, after: int, limit: int) -> list[dict[str, Any]]:
        """Entries of the authority's journal from the one after `after` on; at most 500."""
        return list(self._call("journal_entries", after=after, limit=limit)["entries"])

    def close(self) -> None:
        """Let go of the connection; the next call opens another."""
        with self._lock:
            self._drop()

    def _call(self, operation: str, **fields: object) -> dict[str, Any]:
        frame = canonical.dumps({"op": operation, **fields})
        with self._lock:
            answer = self._exchange_or_reconnect(frame)
        if answer.get("ok") is not True and answer.get("code") == "revision":
            raise RevisionRefused(str(answer.get("error")))
        if answer.get("ok") is not True:
            raise AuthorityError(str(answer.get("error", "refused")))
        return answer["result"]

    def _exchange_or_reconnect(self, frame: bytes) -> dict[str, Any]:
        reused = self._connection is not None
        try:
            return self._exchange(frame)
        except (OSError, DecodeError) as error:
            self._drop()
            if not reused:
                raise AuthorityUnavailable("the authority does not answer") from error
        try:
            return self._exchange(frame)
        except (OSError, DecodeError) as error:
            self._drop()
            raise AuthorityUnavailable("the authority does not answer") from error

    def _exchange(self, frame: bytes) -> dict[str, Any]:
        if self._connection is None:
            self._connection = self._open()
        self._connection.sendall(struct.pack("!I", len(frame)) + frame)
        (length,) = struct.unpack("!I", self._read(4))
        if length > MAX_ANSWER:
            raise ConnectionError("the answer is too large")
        answer = canonical.loads(self._read(length), max_bytes=MAX_ANSWER)
        if not isinstance(answer, dict):
            raise ConnectionError("the answer is not an object")
        return answer

    def _open(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(self._timeout)
        try:
            connection.connect(self._path)
        except OSError:
            connection.close()
            raise
        return connection

    def _read(self, size: int) -> bytes:
        assert self._connection is not None
        data = bytearray()
        while len(data) < size:
            chunk = self._connection.recv(min(size - len(data), 65536))
            if not chunk:
                raise ConnectionError("the authority closed the connection")
            data += chunk
        return bytes(data)

    def _drop(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None


def _written(client: BlindClient) -> dict[str, Any]:
    return {
        "handle": client.handle,
        "variants": [list(tokens) for tokens in client.variants],
        "recipient": canonical.b64(client.recipient),
        # An authority of the release before knows no clients that ask for keys of filters.
        **({} if client.reads else {"reads": False}),
    }


@lru_cache(maxsize=8)
def _client(path: str, process: int) -> AuthorityClient:
    return AuthorityClient(path)


def get_authority() -> AuthorityClient:
    """The authority that the settings name; a forked worker gets a connection of its own."""
    return _client(str(settings.AUTHORITY_SOCKET), os.getpid())
