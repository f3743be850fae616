"""Decryption keys for filters (004, RequestDecryptionKey): as far as policies allow, and no more.

A filter names attributes of an event type. The control plane says by which tokens policies let
each of them be read; the authority gives a key that reads exactly these attributes, where the
client holds such tokens for every one of them, and refuses otherwise. What the client holds it
knows from its own journal: the tokens are those that it enrolled the client with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from policyengine.primitives import canonical
from policyengine.primitives.kdf import derive
from tasks.authority.answers import Answer
from tasks.authority.blind import (
    MAX_BATCH,
    checked_client,
    checked_tokens,
    key_id_of,
    mark_of,
)
from tasks.authority.journal import Journal
from tasks.authority.lane import Lane
from tasks.authority.refusals import RefusedError
from tasks.authority.store import AuthorityState

POLICY: Final = "policy"
"""Code of a refusal because no policy lets the client read something."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_@.]{0,127}\Z")
_POLICY: Final = b"portcullis/filter-policy/v1"


class FilterKeyOperations:
    """The operation `filter_key`, over the authority's state and journal."""

    def __init__(self, state: AuthorityState, journal: Journal, lane: Lane) -> None:
        self._state = state
        self._journal = journal
        self._lane = lane

    def filter_key(
        self,
        *,
        domain: str,
        epoch: int,
        wrapped: str,
        revision: int,
        client: dict[str, Any],
        event_type: str,
        filter: list[str],  # noqa: A002 - the wire's name
        reads: dict[str, list[list[str]]],
    ) -> Answer:
        """A key that reads what the filter names, sealed for the client.

        Args:
            domain: the domain.
            epoch: number of the blind epoch.
            wrapped: its master.
            revision: of the policies that `reads` is from.
            client: handle, variants and recipient, as it was enrolled.
            event_type: the filter's type.
            filter: names of the attributes in it.
            reads: attribute that is hidden, or that no policy lets the client know -> the ways
                to be allowed to read it, each the tokens that it takes together.
        """
        secret = self._state.unwrap(key_id_of(domain, epoch), wrapped)
        checked = checked_client(client)
        names = _names(event_type, filter, reads)
        self._check_known(domain, epoch, revision, checked, mark_of(secret, checked))
        ways = {name: _ways(reads[name], checked["variants"]) for name in names if name in reads}
        closed = [name for name in names if name in ways and not ways[name]]
        if closed:
            told = ", ".join(f"`{name}`" for name in closed)
            who = checked["handle"]
            raise RefusedError(f"no policy lets `{who}` read {told} of `{event_type}`", code=POLICY)
        readers = _readers(ways.values(), checked["variants"])
        work = {"secret": canonical.b64(secret), "client": {**checked, "variants": readers}}
        sealed = self._lane("filter", {**work, "event_type": event_type})
        facts = {"handle": checked["handle"], "policy": _digest(secret, reads)}
        return Answer({"sealed": sealed}, facts)

    def _check_known(
        self, domain: str, epoch: int, revision: int, client: Mapping[str, Any], mark: str
    ) -> None:
        self._journal.refresh()
        ledger = self._journal.ledger
        if type(revision) is not int or revision < ledger.top(domain):
            raise RefusedError(f"policies of `{domain}` before revision {ledger.top(domain)}")
        # INVARIANT: who asks cannot give a client tokens that its enrolment did not have.
        if ledger.mark(domain, epoch, client["handle"]) != mark:
            raise RefusedError(
                f"`{client['handle']}` was not enrolled with these tokens in epoch {epoch}"
            )


def _names(event_type: object, named: object, reads: object) -> list[str]:
    if not isinstance(named, list) or not 0 < len(named) <= MAX_BATCH:
        raise RefusedError("a filter names at least one attribute")
    if not isinstance(reads, dict) or not set(reads) <= set(named):
        raise RefusedError("ways to read are of attributes of the filter")
    for name in (event_type, *named):
        if not isinstance(name, str) or not _NAME.match(name):
            raise RefusedError("not the name of a type or attribute")
    return sorted(set(named))


def _ways(alternatives: object, variants: Sequence[list[str]]) -> list[list[str]]:
    """The ways that the tokens of one variant open: of two they never stand together."""
    if not isinstance(alternatives, list) or len(alternatives) > MAX_BATCH:
        raise RefusedError("ways to read are lists of tokens")
    found = [checked_tokens(tokens) for tokens in alternatives]
    return [tokens for tokens in found if any(set(tokens) <= set(held) for held in variants)]


def _readers(ways: Iterable[list[list[str]]], variants: Sequence[list[str]]) -> list[list[str]]:
    """For each variant what of it the filter needs; none twice."""
    wanted = [set(tokens) for found in ways for tokens in found]
    fitting = [[tokens for tokens in wanted if tokens <= set(held)] for held in variants]
    found = {tuple(sorted(set().union(*each))) for each in fitting if each}
    return [list(tokens) for tokens in sorted(found)]


def _digest(secret: bytes, reads: Mapping[str, Any]) -> str:
    """Tells keys of one policy from those of another, to whoever holds the master alone."""
    return derive(secret, info=canonical.pack(_POLICY, canonical.dumps(reads)))[:16].hex()
