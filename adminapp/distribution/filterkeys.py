"""Keys for filters (paper 004, RequestDecryptionKey): what policies let a client read, no more.

Who asks names the attributes that a filter tests, never the values that it tests them for. Policies
are asked first, by the code that explains access to people; then the trusted authority, which
knows by itself with which tokens it enrolled the client, gives the key or refuses. Every answer is
in the audit before anybody has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from adminapp.audit import services as audit
from adminapp.core.authority import (
    AuthorityError,
    AuthorityUnavailable,
    BlindClient,
    get_authority,
)
from adminapp.core.errors import Invalid
from adminapp.distribution import blindepochs, blindkeys
from adminapp.distribution.blindplan import BlindPlan
from adminapp.distribution.gather import gather, steady
from adminapp.distribution.models import BlindEpoch, EncodingEpoch
from adminapp.distribution.plan import PlainDomain, PlainSubject
from adminapp.identity.models import Domain, Principal, User
from adminapp.identity.permissions import require_manager
from adminapp.identity.recording import person_of
from adminapp.policies.explain import Explanation, explain
from adminapp.policies.models import Policy

MOST = 256
"""Most attributes of one filter."""


class _RefusedError(Exception):
    """There is no key; the text says why."""


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
        key: None where it was refused.
    """

    reason: str
    decisions: tuple[Explanation, ...] = ()
    key: FilterKey | None = None

    @property
    def granted(self) -> bool:
        """Whether there is a key."""
        return self.key is not None


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
    if not 0 < len(names) <= MOST:
        raise Invalid.at("/attributes", f"a filter tests between one attribute and {MOST}")
    answer = _answered(principal, event_type, names)
    _record(actor=actor, principal=principal, event_type=event_type, names=names, answer=answer)
    return answer


def _answered(principal: Principal, event_type: str, names: list[str]) -> FilterAnswer:
    decisions = tuple(_decisions(principal, event_type, names))
    closed = [each.summary for each in decisions if not each.allowed]
    if closed:
        return FilterAnswer("; ".join(closed), decisions)
    try:
        key = _key(principal, event_type, names)
    except AuthorityUnavailable:
        raise
    except (AuthorityError, _RefusedError) as error:
        return FilterAnswer(str(error), decisions)
    return FilterAnswer("", decisions, key)


def _decisions(principal: Principal, event_type: str, names: list[str]) -> Iterator[Explanation]:
    """The event as such, then each attribute; no attribute where not even that is allowed."""
    domain, action = principal.domain, Policy.Action.SUBSCRIBE
    whole = explain(domain, principal, action, event_type)
    yield whole
    if whole.allowed:
        for name in names:
            yield explain(domain, principal, action, event_type, name)


def _key(principal: Principal, event_type: str, names: list[str]) -> FilterKey:
    plain, epoch = steady(principal.domain_id, _read)
    if epoch is None:
        raise _RefusedError(f"`{plain.name}` hides nothing from its agents: no filter needs a key")
    plan = BlindPlan(plain)
    subject = next((each for each in plain.subjects if each.handle == principal.handle), None)
    if subject is None or subject.handle not in plan.readers:
        raise _RefusedError(f"`{principal.name}` needs a home agent and keys of its own first")
    client = BlindClient(subject.handle, plan.readers[subject.handle], subject.sealing_key)
    if not blindkeys.enrolled(epoch, client):
        raise _RefusedError(
            f"keys of `{principal.name}` for its newest rights are being made: ask again shortly"
        )
    sealed = get_authority().filter_key(
        plain.name,
        epoch.number,
        epoch.wrapped,
        revision=plain.revision,
        client=client,
        event_type=event_type,
        names=names,
        reads=_reads(plan, subject, event_type, names),
    )
    return FilterKey(plain.name, epoch.number, event_type, f"client:{subject.handle}", sealed)


def _read(domain: Domain) -> tuple[PlainDomain, BlindEpoch | None]:
    """The domain, and the epoch that publishers make new events in."""
    live = blindepochs.live(domain)
    told = [each for each in live if each.client_state == EncodingEpoch.State.CURRENT]
    return gather(domain), told[0] if told else None


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
) -> None:
    told = {"type": event_type, "attributes": names}
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
