"""Answers what agents and clients send to the requests queue.

Whatever stands there was written by somebody: nothing in it is believed before its signature
verified under the registered key, and nothing in it can stop the process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from adminapp.distribution import decisionlogs, filterrequests, leases, recipients, reports, roots
from policyengine.bundles import addresses, messages
from policyengine.errors import DecodeError, PortcullisError, RejectedError

log = logging.getLogger("portcullis.requests")


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

    Leases come first and together, since whoever asked must not wait for what others report.
    """
    decoded = [_decoded(data) for data in batch]
    senders = recipients.find_all({request.audience for request in decoded if request})
    asking: dict[int, leases.Wish] = {}
    others: list[tuple[int, messages.Request]] = []
    unheard: list[tuple[int, Answers]] = []
    for place, request in enumerate(decoded):
        if request is not None and request.kind != "lease":
            others.append((place, request))
        elif request is not None and (wish := _wish(senders.get(request.audience), request)):
            asking[place] = wish
        else:
            unheard.append((place, []))
    if asking:
        granted = _granted(list(asking.values()))
        unheard += zip(asking, map(_leased, asking.values(), granted), strict=True)
    if unheard:
        yield unheard
    for place, request in others:
        _take(request)
        yield [(place, [])]


def _decoded(data: bytes) -> messages.Request | None:
    try:
        return messages.decode_request(data)
    except DecodeError:
        log.warning("a request was malformed")
        return None


def _wish(sender: recipients.Audience | None, request: messages.Request) -> leases.Wish | None:
    with _refusing(request):
        return leases.read(_known(sender), request)
    return None


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
        if request.kind == "ack":
            reports.acknowledge(sender, request)
        elif request.kind == "decisions":
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
