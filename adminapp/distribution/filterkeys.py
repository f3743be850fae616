"""Keys for filters (paper 004, RequestDecryptionKey): what policies let a client read, no more.

A client that reads by filters has no other reading keys: its bundle brings those that it searches
and publishes with, and it asks for the rest by itself (`filterrequests`); a manager may ask for
anybody. Who asks names the attributes that a filter tests, never the values that it tests them
for. Policies are asked first, by the code that explains access to people; then the trusted
authority, which knows by itself with which tokens it enrolled the client, gives the key or
refuses. Every answer is in the audit before anybody has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from adminapp.audit import services as audit
from adminapp.core.authority import (
    AuthorityError,
    AuthorityUnavailable,
    get_authority,
)
from adminapp.core.errors import Invalid
from adminapp.distribution import blindepochs, blindkeys
from adminapp.distribution.blindplan import BlindPlan
from adminapp.distribution.gather import gather, steady
from adminapp.distribution.models import BlindEpoch, BlindKey, EncodingEpoch, FilterReader
from adminapp.distribution.plan import PlainSubject
from adminapp.identity.models import Domain, Principal, User
from adminapp.identity.permissions import require_manager
from adminapp.identity.recording import person_of, record_row
from adminapp.policies.explain import Explanation, explain
from adminapp.policies.models import Policy
from policyengine.bundles import MOST_ATTRIBUTES

Kind = BlindKey.Kind
_Epochs: TypeAlias = Callable[[Domain], list[BlindEpoch]]
BY_CLIENT = "client"
"""Who asked, in the audit, where no person did."""


class _RefusedError(Exception):
    """There is no key; the text says why.

    Args:
        again: whether asking again soon may help.
    """

    def __init__(self, text: str, *, again: bool = False) -> None:
        super().__init__(text)
        self.again = again


@dataclass(frozen=True)
class FilterKey:
    """A key that the authority sealed for one client.

    Args:
        domain: the domain, the first part of the place that it is sealed for.
        epoch: the blind epoch.
        type: the event type.
        audience: the client.
        sealed: opens with the client's own sealing key alone.
    """

    domain: str
    epoch: int
    type: str
    audience: str
    sealed: bytes


@dataclass(frozen=True)
class FilterAnswer:
    """What was answered.

    Args:
        reason: why there is no key, for people; "" where there is one.
        decisions: for the type and then for each attribute whether policies let it, and why.
        keys: by epoch, oldest first; none where it was refused.
        again: whether asking again soon may help.
    """

    reason: str
    decisions: tuple[Explanation, ...] = ()
    keys: tuple[FilterKey, ...] = ()
    again: bool = False

    @property
    def granted(self) -> bool:
        """Whether there is a key."""
        return bool(self.keys)

    @property
    def key(self) -> FilterKey | None:
        """The key of the newest epoch; None where it was refused."""
        return self.keys[-1] if self.keys else None


def filter_key(
    *, actor: User | None, principal: Principal, event_type: str, attributes: Iterable[str]
) -> FilterAnswer:
    """A key that reads what a filter of this client tests, or why policies give none.

    Args:
        actor: a manager of the principal's domain.
        principal: the client that the key is for.
        event_type: name of the filter's type.
        attributes: names of the attributes that the filter tests.

    Raises:
        Invalid: no attribute, or too many.
        Forbidden: the actor does not manage the domain.
        AuthorityUnavailable: nothing was given, and nothing is known to be refused.
    """
    require_manager(actor, principal.domain)
    names = sorted(set(attributes))
    if not 0 < len(names) <= MOST_ATTRIBUTES:
        limit = f"a filter tests between one attribute and {MOST_ATTRIBUTES}"
        raise Invalid.at("/attributes", limit)
    answer = _answered(principal, event_type, names, _told)
    _record(actor=actor, principal=principal, event_type=event_type, names=names, answer=answer)
    return answer


def client_filter_keys(
    *, principal: Principal, event_type: str, names: Sequence[str]
) -> FilterAnswer:
    """The keys of every open epoch for a filter, asked for by the client itself.

    Args:
        principal: the client; its signature was checked.
        event_type: name of the filter's type.
        names: names of the attributes that the filter reads, sorted.

    Raises:
        AuthorityUnavailable: nothing was given, and nothing is known to be refused.
    """
    answer = _answered(principal, event_type, list(names), blindepochs.live)
    _record(
        actor=None,
        principal=principal,
        event_type=event_type,
        names=list(names),
        answer=answer,
        by=BY_CLIENT,
    )
    return answer


@audit.change
def read_by_filters(*, actor: User | None, principal: Principal, on: bool) -> bool:
    """Have a client read by keys for its filters, or by all that policies let it.

    What it was given before cannot be called back: another epoch follows, from which it has none
    of it.

    Args:
        actor: a manager of the principal's domain.
        principal: the client.
        on: whether it is to ask.

    Returns:
        Whether that changed anything.
    """
    require_manager(actor, principal.domain)
    if on == reads_by_filters(principal):
        return False
    if on:
        FilterReader.objects.create(principal=principal)
        _end_given(principal)
    else:
        FilterReader.objects.filter(principal=principal).delete()
    before, after = {"by_filters": not on}, {"by_filters": on}
    record_row(actor, principal.domain, "reading.changed", principal, before=before, after=after)
    return True


def reads_by_filters(principal: Principal) -> bool:
    """Whether a client asks for the keys of its filters."""
    return FilterReader.objects.filter(principal=principal).exists()


def _end_given(principal: Principal) -> None:
    held = blindepochs.current(principal.domain)
    if held is not None and held.keys.filter(kind=Kind.CLIENT, name=principal.handle).exists():
        blindepochs.note_due(held, "a client is to read by filters")


def _answered(
    principal: Principal, event_type: str, names: list[str], epochs: _Epochs
) -> FilterAnswer:
    decisions = tuple(_decisions(principal, event_type, names))
    closed = [each.summary for each in decisions if not each.allowed]
    if closed:
        return FilterAnswer("; ".join(closed), decisions)
    try:
        keys = _keys(principal, event_type, names, epochs)
    except AuthorityUnavailable:
        raise
    except _RefusedError as error:
        return FilterAnswer(str(error), decisions, again=error.again)
    except AuthorityError as error:
        return FilterAnswer(str(error), decisions)
    return FilterAnswer("", decisions, keys)


def _decisions(principal: Principal, event_type: str, names: list[str]) -> Iterator[Explanation]:
    """The event as such, then each attribute; no attribute where not even that is allowed."""
    domain, action = principal.domain, Policy.Action.SUBSCRIBE
    whole = explain(domain, principal, action, event_type)
    yield whole
    if whole.allowed:
        for name in names:
            yield explain(domain, principal, action, event_type, name)


def _keys(
    principal: Principal, event_type: str, names: list[str], epochs: _Epochs
) -> tuple[FilterKey, ...]:
    plain, found = steady(principal.domain_id, lambda domain: (gather(domain), epochs(domain)))
    if not found:
        raise _RefusedError(f"`{plain.name}` hides nothing from its agents: no filter needs a key")
    plan = BlindPlan(plain)
    subject = next((each for each in plain.subjects if each.handle == principal.handle), None)
    if subject is None or subject.handle not in plan.readers:
        raise _RefusedError(f"`{principal.name}` needs a home agent and keys of its own first")
    client = blindkeys.client_of(plan, subject)
    ready = [epoch for epoch in found if blindkeys.enrolled(epoch, client)]
    if not ready:
        being = f"keys of `{principal.name}` for its newest rights are being made"
        raise _RefusedError(f"{being}: ask again shortly", again=True)
    reads = _reads(plan, subject, event_type, names)
    return tuple(
        FilterKey(
            plain.name,
            epoch.number,
            event_type,
            f"client:{subject.handle}",
            get_authority().filter_key(
                plain.name,
                epoch.number,
                epoch.wrapped,
                revision=plain.revision,
                client=client,
                event_type=event_type,
                names=names,
                reads=reads,
            ),
        )
        for epoch in ready
    )


def _told(domain: Domain) -> list[BlindEpoch]:
    """The epoch that publishers make new events in."""
    live = blindepochs.live(domain)
    return [each for each in live if each.client_state == EncodingEpoch.State.CURRENT][:1]


def _reads(
    plan: BlindPlan, subject: PlainSubject, event_type: str, names: list[str]
) -> dict[str, list[list[str]]]:
    """The hidden attributes whose values travel, with the ways that are open to the client."""
    sealed = plan.terms.get(event_type, {})
    return {
        name: [list(way) for way in plan.ways(subject, event_type, name)]
        for name in names
        if name in sealed
    }


@audit.change
def _record(
    *,
    actor: User | None,
    principal: Principal,
    event_type: str,
    names: list[str],
    answer: FilterAnswer,
    by: str = "",
) -> None:
    told: dict[str, object] = {"type": event_type, "attributes": names}
    if by:
        told["asked_by"] = by
    more = {"epoch": answer.key.epoch} if answer.key else {"reason": answer.reason}
    audit.write(
        actor=actor,
        action="filter-key.given" if answer.granted else "filter-key.refused",
        domain_name=principal.domain.name,
        object_type="principal",
        object_id=principal.pk,
        object_name=principal.name,
        after=told | more,
        person=person_of(principal),
    )
