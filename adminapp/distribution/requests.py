"""Answers what agents and clients send to the requests queue.

Whatever stands there was written by somebody: nothing in it is believed before its signature
verified under the registered key, and nothing in it can stop the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from adminapp.distribution import (
    acknowledgements,
    decisionlogs,
    filterrequests,
    leases,
    recipients,
    roots,
)
from policyengine.bundles import addresses, messages
from policyengine.errors import DecodeError, PortcullisError, RejectedError

log = logging.getLogger("portcullis.requests")
T = TypeVar("T")


Answers = list[tuple[str, bytes]]
"""What to send, each with the queue that it goes to."""


class UnknownError(PortcullisError):
    """Nobody has this address."""


def answer_request(data: bytes) -> Answers:
    """What to send in answer to one message; often nothing."""
    ((_, answers),) = (each for group in answer_requests([data]) for each in group)
    return answers


def answer_requests(batch: Sequence[bytes]) -> Iterator[list[tuple[int, Answers]]]:
    """Answer messages; gives groups of (place in the batch, what to send) as they are done.

    Leases come first and together, since whoever asked must not wait for what others report;
    then acknowledgements, together too.
    """
    decoded = [_decoded(data) for data in batch]
    senders = recipients.find_all({request.audience for request in decoded if request})
    asking: dict[int, leases.Wish] = {}
    told: dict[int, messages.Acknowledgement] = {}
    others: list[tuple[int, messages.Request]] = []
    unheard: list[tuple[int, Answers]] = []
    for place, request in enumerate(decoded):
        if request is None:
            unheard.append((place, []))
        elif request.kind not in ("lease", "ack"):
            others.append((place, request))
        elif request.kind == "lease" and (wish := _read(leases.read, senders, request)):
            asking[place] = wish
        elif request.kind == "ack" and (ack := _read(acknowledgements.read, senders, request)):
            told[place] = ack
        else:
            unheard.append((place, []))
    if asking:
        granted = _granted(list(asking.values()))
        unheard += zip(asking, map(_leased, asking.values(), granted), strict=True)
    if unheard:
        yield unheard
    if told:
        _heard(list(told.values()))
        yield [(place, []) for place in told]
    for place, request in others:
        _take(request)
        yield [(place, [])]


def _decoded(data: bytes) -> messages.Request | None:
    try:
        return messages.decode_request(data)
    except DecodeError:
        log.warning("a request was malformed")
        return None


def _read(
    read: Callable[[recipients.Audience, messages.Request], T],
    senders: Mapping[str, recipients.Audience],
    request: messages.Request,
) -> T | None:
    """What a message says, its signature checked; None where it is not to be believed."""
    with _refusing(request):
        return read(_known(senders.get(request.audience)), request)
    return None


def _heard(acks: Sequence[messages.Acknowledgement]) -> None:
    """Take in acknowledgements; one that cannot be does not take the others with it."""
    try:
        acknowledgements.take(acks)
    except PortcullisError:
        if len(acks) == 1:
            log.warning("a request of %s could not be answered", acks[0].audience)
            return
        for ack in acks:
            _heard([ack])


def _granted(wishes: Sequence[leases.Wish]) -> list[leases.Granted | None]:
    """One that cannot be answered does not take the others with it."""
    try:
        return leases.grant(wishes)
    except PortcullisError:
        if len(wishes) == 1:
            log.warning("a request of %s could not be answered", wishes[0].asked.address)
            return [None]
    return [each for wish in wishes for each in _granted([wish])]


def _leased(wish: leases.Wish, lease: leases.Granted | None) -> Answers:
    if lease is None:
        return []
    lacking = roots.after(lease.trusted) if lease.root > lease.trusted else []
    answer = messages.encode_control("lease", "", lease.sealed)
    queue = addresses.control_queue(wish.asked.address)
    return [(queue, body) for body in (*lacking, answer)]


def _take(request: messages.Request) -> None:
    """Take in what needs no answer; its sender as it is at this moment."""
    with _refusing(request):
        sender = _known(recipients.find(request.audience))
        if request.kind == "decisions":
            decisionlogs.accept(sender, request)
        else:
            filterrequests.accept(sender, request)


def _known(sender: recipients.Audience | None) -> recipients.Audience:
    if sender is None:
        raise UnknownError("a request came from an unknown audience")
    return sender


@contextmanager
def _refusing(request: messages.Request) -> Iterator[None]:
    try:
        yield
    except UnknownError as error:
        log.warning("%s", error)
    except RejectedError as error:
        log.warning("a request of %s was refused: %s", request.audience, error.reason)
    except PortcullisError:
        log.warning("a request of %s could not be answered", request.audience)
