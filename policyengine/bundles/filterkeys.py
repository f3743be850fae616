"""Keys for filters: a client asks for one, and is told whether policies let it have it.

The request is signed by the client, the answer by the authority's key for policies and sealed to
the client. A key inside of it is sealed once more, by the authority for that client and epoch
(`authority_seals`, kind `filter`), so that who writes the answer never has it in clear.

Source: paper 004, RequestDecryptionKey (section 4.3, step 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from policyengine.bundles.authority_seals import open_secret
from policyengine.bundles.contexts import FILTER_ANSWER, FILTER_REQUEST
from policyengine.bundles.framing import Request
from policyengine.bundles.limits import AUDIENCE, MAX_MESSAGE
from policyengine.bundles.requests import signed_request, verified_request
from policyengine.bundles.sealing import (
    Sign,
    open_authority_body,
    read_body,
    reject,
    seal_body,
    write_body,
)
from policyengine.errors import DecryptionError, RejectedError
from policyengine.primitives.hpke import SealingKey
from policyengine.primitives.records import (
    HEX_ID,
    IDENTIFIER,
    LABEL,
    SENTENCE,
    UINT,
    Binary,
    Boolean,
    ListOf,
    Nested,
    Record,
    invalid,
)
from policyengine.primitives.signatures import SigningKey

FILTER_KEY: Final = "filter-key"
"""Kind of the request and of the answer."""
MOST_ATTRIBUTES: Final = 256
"""Most attributes of one filter."""
_ATTRIBUTES = ListOf(LABEL, MOST_ATTRIBUTES, unique=True)
_EPOCHS: Final = 16


def _check_names(attributes: tuple[str, ...]) -> None:
    if not attributes or list(attributes) != sorted(attributes):
        raise invalid("attributes", "must name at least one attribute, in order")


@dataclass(frozen=True)
class FilterRequest(Record):
    """Ask for the key of a filter, without the values that it tests for.

    Args:
        audience: who asks, and for whom the key is.
        domain: the domain.
        request: random, 32 hexadecimal digits; the answer names it.
        type: event type.
        attributes: names of the attributes that the filter reads, sorted.
        at: the client's own clock, seconds since 1970; for people only.
    """

    audience: Annotated[str, AUDIENCE]
    domain: Annotated[str, IDENTIFIER]
    request: Annotated[str, HEX_ID]
    type: Annotated[str, LABEL]
    attributes: Annotated[tuple[str, ...], _ATTRIBUTES]
    at: Annotated[int, UINT]

    def _agree(self) -> None:
        _check_names(self.attributes)


@dataclass(frozen=True)
class EpochKey(Record):
    """A filter's key in one blind epoch.

    Args:
        epoch: its number.
        key: `blind.ClientKeys`, sealed for the client by the authority.
    """

    epoch: Annotated[int, UINT]
    key: Annotated[bytes, Binary(1, 2**21)]


@dataclass(frozen=True)
class FilterAnswer(Record):
    """A filter's keys, or why there is none.

    Args:
        audience: whom it is for.
        domain: the domain.
        request: that of the request.
        type: event type.
        attributes: names of the attributes that the keys read, sorted.
        at: the control plane's clock, seconds since 1970.
        reason: why there is no key, for people; empty where there is one.
        again: whether asking again soon may help.
        keys: one for each blind epoch that is open, by number; none where it was refused.
    """

    audience: Annotated[str, AUDIENCE]
    domain: Annotated[str, IDENTIFIER]
    request: Annotated[str, HEX_ID]
    type: Annotated[str, LABEL]
    attributes: Annotated[tuple[str, ...], _ATTRIBUTES]
    at: Annotated[int, UINT]
    reason: Annotated[str, SENTENCE] = ""
    again: Annotated[bool, Boolean()] = False
    keys: Annotated[tuple[EpochKey, ...], ListOf(Nested(EpochKey), _EPOCHS)] = ()

    def _agree(self) -> None:
        _check_names(self.attributes)
        if bool(self.reason) == bool(self.keys) or (self.again and self.keys):
            raise invalid("keys", "must be there, or a reason why not")
        numbers = [each.epoch for each in self.keys]
        if numbers != sorted(set(numbers)):
            raise invalid("keys", "must be in the order of their epochs, one each")

    @property
    def granted(self) -> bool:
        """Whether there are keys."""
        return bool(self.keys)

    def opened(self, key: SealingKey) -> dict[int, bytes]:
        """Epoch -> the bytes of `blind.ClientKeys`, opened with the client's own key.

        Raises:
            RejectedError: `malformed`, where one does not open.
        """
        try:
            return {
                each.epoch: open_secret(
                    "filter",
                    each.key,
                    domain=self.domain,
                    epoch=each.epoch,
                    name=self.type,
                    key=key,
                    audience=self.audience,
                )
                for each in self.keys
            }
        except DecryptionError as error:
            raise RejectedError("malformed", "a key in the answer does not open") from error


def sign_filter_request(request: FilterRequest, signing_key: SigningKey) -> Request:
    """Sign a request as its client; `.encode()` gives the bytes to send."""
    return signed_request(FILTER_KEY, FILTER_REQUEST, request.audience, request, signing_key)


def verify_filter_request(request: Request, public: bytes) -> FilterRequest:
    """Check a request.

    Args:
        request: as decoded from the requests queue.
        public: the client's registered Ed25519 key, 32 bytes.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    asked = verified_request(FILTER_KEY, FILTER_REQUEST, FilterRequest, request, public)
    if asked.audience != request.audience:
        reject("audience", "the request speaks for someone else")
    return asked


def seal_filter_answer(answer: FilterAnswer, *, sign: Sign, recipient: bytes) -> bytes:
    """Sign an answer with the key for policies and seal it for its client.

    Args:
        answer: the answer.
        sign: signs (context, payload) with that key.
        recipient: the client's public sealing key.

    Raises:
        InputError: `too-large` over 8 MiB.
    """
    return seal_body(
        FILTER_ANSWER,
        write_body(answer),
        address=answer.audience,
        signer="",
        sign=sign,
        recipient=recipient,
        limit=MAX_MESSAGE,
    )


def open_filter_answer(
    data: bytes, *, key: SealingKey, audience: str, policy_key: bytes
) -> FilterAnswer:
    """Open an answer and check it.

    Args:
        data: the sealed message.
        key: the client's own key.
        audience: who opens it.
        policy_key: pinned public Ed25519 key, 32 bytes.

    Raises:
        RejectedError: `malformed`, `signature` or `audience`.
    """
    body = open_authority_body(
        FILTER_ANSWER, data, address=audience, key=key, limit=MAX_MESSAGE, public=policy_key
    )
    answer = read_body(FilterAnswer, body)
    if answer.audience != audience:
        reject("audience", "the answer is for someone else")
    return answer
