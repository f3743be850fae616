"""Answers what agents and clients send to the requests queue.

Whatever stands there was written by somebody: nothing in it is believed before its signature
verified under the registered key, and nothing in it can stop the process.
"""

from __future__ import annotations

import logging

from adminapp.distribution import decisionlogs, filterrequests, leases, recipients, reports, roots
from policyengine.bundles import addresses, messages
from policyengine.errors import DecodeError, PortcullisError, RejectedError

log = logging.getLogger("portcullis.requests")


def answer_request(data: bytes) -> list[tuple[str, bytes]]:
    """What to send, and on which queue, in answer to one message; often nothing."""
    try:
        request = messages.decode_request(data)
    except DecodeError:
        log.warning("a request was malformed")
        return []
    sender = recipients.find(request.audience)
    if sender is None:
        log.warning("a request came from an unknown audience")
        return []
    try:
        return _answer(sender, request)
    except RejectedError as error:
        log.warning("a request of %s was refused: %s", request.audience, error.reason)
    except PortcullisError:
        log.warning("a request of %s could not be answered", request.audience)
    return []


def _answer(sender: recipients.Audience, request: messages.Request) -> list[tuple[str, bytes]]:
    if request.kind == "ack":
        reports.acknowledge(sender, request)
        return []
    if request.kind == "decisions":
        decisionlogs.accept(sender, request)
        return []
    if request.kind == "filter-key":
        filterrequests.accept(sender, request)
        return []
    lease = leases.grant(sender, request)
    if lease is None:
        return []
    queue = addresses.control_queue(sender.address)
    lacking = roots.after(lease.trusted) if lease.root > lease.trusted else []
    answer = messages.encode_control("lease", "", lease.sealed)
    return [(queue, body) for body in (*lacking, answer)]
