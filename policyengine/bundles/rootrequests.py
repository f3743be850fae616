"""What the authority hands to the root ceremony: the public online keys that it holds.

Each key signs all of them in its role, so that a mistyped or exchanged key is found before the
holders come together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

from policyengine.bundles.contexts import ROOT_REQUEST
from policyengine.bundles.limits import SIGNATURE_SIZE
from policyengine.bundles.roots import ROLES
from policyengine.errors import DecodeError, RejectedError, SignatureError
from policyengine.primitives.canonical import dumps, loads, pack
from policyengine.primitives.records import KEY, Binary, Choice, ListOf, Record
from policyengine.primitives.signatures import SigningKey, sign, verify

REQUEST_FORMAT: Final = "portcullis/root-request/v1"
_MAX_FILE: Final = 2**14
_PROOFS: Final = ListOf(Binary(SIGNATURE_SIZE, SIGNATURE_SIZE), len(ROLES))


@dataclass(frozen=True)
class RootRequest(Record):
    """Public online keys that a root is to name.

    Args:
        format: `portcullis/root-request/v1`.
        policy: a public Ed25519 key, as are the others.
        notice: see `Root`.
        lease: see `Root`.
        receipt: see `Root`.
        audit: see `Root`.
        enrolment: see `Root`.
        proofs: a signature by each key, in the order of `ROLES`.
    """

    format: Annotated[str, Choice((REQUEST_FORMAT,))]
    policy: Annotated[bytes, KEY]
    notice: Annotated[bytes, KEY]
    lease: Annotated[bytes, KEY]
    receipt: Annotated[bytes, KEY]
    audit: Annotated[bytes, KEY]
    enrolment: Annotated[bytes, KEY]
    proofs: Annotated[tuple[bytes, ...], _PROOFS]

    def online(self) -> dict[str, bytes]:
        """Role -> public key."""
        return {role: getattr(self, role) for role in ROLES}


def make_request(keys: Mapping[str, SigningKey]) -> bytes:
    """Write the request for a root.

    Args:
        keys: role -> key, for every role.
    """
    public = {role: keys[role].public for role in ROLES}
    proofs = tuple(sign(keys[role], ROOT_REQUEST, _payload(role, public)) for role in ROLES)
    return dumps(RootRequest(REQUEST_FORMAT, **public, proofs=proofs).to_json()) + b"\n"


def open_request(data: bytes) -> RootRequest:
    """Read a request and check that whoever made it holds every key.

    Raises:
        RejectedError: `malformed` or `signature`.
    """
    try:
        request = RootRequest.from_json(loads(data.removesuffix(b"\n"), max_bytes=_MAX_FILE))
    except DecodeError as error:
        raise RejectedError("malformed", "this is no request for a root") from error
    public = request.online()
    if len(request.proofs) != len(ROLES):
        raise RejectedError("malformed", "the request lacks a proof")
    for role, proof in zip(ROLES, request.proofs, strict=True):
        try:
            verify(public[role], proof, ROOT_REQUEST, _payload(role, public))
        except SignatureError as error:
            raise RejectedError("signature", f"the proof for `{role}` is wrong") from error
    return request


def _payload(role: str, public: Mapping[str, bytes]) -> bytes:
    return pack(role.encode(), *(public[each] for each in ROLES))
