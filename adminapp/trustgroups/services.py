"""Changes of trust groups, and the epochs that their keys go through."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from django.db.models import Max
from django.utils import timezone

from adminapp.audit import services as audit
from adminapp.catalog.models import AttributeKey
from adminapp.core import versions
from adminapp.core.authority import get_authority
from adminapp.core.errors import Conflict, Invalid
from adminapp.identity import permissions
from adminapp.identity.lineage import lineage
from adminapp.identity.models import Agent, Domain, Overlay, User
from adminapp.identity.services import record_change, record_row
from adminapp.trustgroups import mapping, periods, selectors
from adminapp.trustgroups.models import KeyEpoch, TrustGroup

State = KeyEpoch.State


class KeyMaker(Protocol):
    """The part of the trusted authority that makes keys."""

    def create_key(self, key_id: str) -> str:
        """Make a key that never leaves the authority; returns it wrapped."""


# -- groups ----------------------------------------------------------------------------------


@audit.change
def create_trust_group(
    *,
    actor: User | None,
    domain: Domain,
    name: str,
    kind: str = TrustGroup.Kind.ATTRIBUTE,
    overlay: Overlay | None = None,
    members: Iterable[Agent] = (),
    keys: Iterable[AttributeKey] = (),
) -> TrustGroup:
    """A new group; its members get `keys`, or the hop key of `overlay`."""
    permissions.require_manager(actor, domain)
    agents, attribute_keys = list(members), list(keys)
    row = TrustGroup(domain=domain, name=name, kind=kind, overlay=overlay)
    _check(row, agents, attribute_keys)
    versions.create(row)
    with periods.noted(domain, "the group was made"):
        row.members.set(agents)
        row.keys.set(attribute_keys)
    record_row(actor, row.domain, "trust-group.created", row, after=mapping.trust_group(row))
    return row


@audit.change
def update_trust_group(
    *,
    actor: User | None,
    trust_group: TrustGroup,
    members: Iterable[Agent] | None = None,
    keys: Iterable[AttributeKey] | None = None,
    reason: str = "",
    expected_version: int | None = None,
    authority: KeyMaker | None = None,
) -> TrustGroup:
    """Change members or keys. Who leaves must not read what comes after, so keys that somebody
    loses get a new epoch, staged in the same transaction.

    Args:
        reason: why, for the history of its members.
    """
    permissions.require_manager(actor, trust_group.domain)
    row = versions.locked(trust_group, expected_version)
    before, held_before = mapping.trust_group(row), _holders(row.domain)
    agents = list(row.members.all() if members is None else members)
    attribute_keys = list(row.keys.all() if keys is None else keys)
    _check(row, agents, attribute_keys)
    versions.save(row)
    with periods.noted(row.domain, reason or "the group was changed"):
        row.members.set(agents)
        row.keys.set(attribute_keys)
    after = mapping.trust_group(row)
    record_row(
        actor,
        row.domain,
        "trust-group.updated",
        row,
        before=before,
        after=after,
        revokes=all(set(after[part]) <= set(before[part]) for part in ("members", "keys")),
    )
    _rekey_lost(actor, row.domain, held_before, authority, reason or "a member left")
    return row


@audit.change
def delete_trust_group(
    *,
    actor: User | None,
    trust_group: TrustGroup,
    expected_version: int | None = None,
    authority: KeyMaker | None = None,
) -> None:
    """The members lose what the group gave them; keys that somebody loses get a new epoch."""
    permissions.require_manager(actor, trust_group.domain)
    row = versions.locked(trust_group, expected_version)
    before, pk, domain = mapping.trust_group(row), row.pk, row.domain
    held_before = _holders(domain)
    # A group for a hop key keeps others of the overlay from it: to delete that one gives rights.
    revokes = row.kind == TrustGroup.Kind.ATTRIBUTE
    with periods.noted(domain, "the group was deleted"):
        row.members.clear()
        row.keys.clear()
    row.delete()
    row.pk = pk
    record_row(actor, row.domain, "trust-group.deleted", row, before=before, revokes=revokes)
    _rekey_lost(actor, domain, held_before, authority, "the group was deleted")


def _check(row: TrustGroup, agents: list[Agent], keys: list[AttributeKey]) -> None:
    above = {domain.pk for domain in lineage(row.domain)}
    if any(key.domain_id not in above for key in keys):
        raise Invalid.at("/keys", "a key belongs to another domain", "unknown")
    if row.kind == TrustGroup.Kind.ATTRIBUTE:
        if row.overlay_id is not None:
            raise Invalid.at("/overlay", "only a group for an overlay's hop key names one")
        return
    if row.overlay_id is None:
        raise Invalid.at("/overlay", "a group for a hop key names its overlay")
    if keys:
        raise Invalid.at("/keys", "a group for a hop key gives no attribute keys")
    if any(agent.overlay_id != row.overlay_id for agent in agents):
        raise Invalid.at("/members", "only agents of the overlay can be members")


@audit.change
def distrust_agent(
    *,
    actor: User | None,
    agent: Agent,
    reason: str,
    domain: Domain | None = None,
    authority: KeyMaker | None = None,
) -> list[TrustGroup]:
    """Take an agent out of every trust group at once; what it knew gets a new epoch.

    It may still be somebody's home and pass on what it cannot read: banning is another thing.

    Args:
        reason: why, for the audit and the history.
        domain: only the groups of this domain, which its managers may do; those of every domain,
            which operators may do, where it is left out.

    Returns:
        The groups that it was a member of.
    """
    if domain is None:
        permissions.require_operator(actor)
    else:
        permissions.require_manager(actor, domain)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit")
    groups = list(TrustGroup.objects.filter(members=agent).select_related("domain").order_by("pk"))
    groups = [group for group in groups if domain is None or group.domain_id == domain.pk]
    for group in groups:
        update_trust_group(
            actor=actor,
            trust_group=group,
            members=[member for member in group.members.all() if member.pk != agent.pk],
            reason=f"distrusted: {reason.strip()}"[:200],
            authority=authority,
        )
    record_change(
        actor=actor,
        domain=domain,
        action="agent.distrusted",
        object_type="distrust",
        object_id=agent.pk,
        object_name=agent.name,
        before={"groups": sorted(f"{group.domain.name}/{group.name}" for group in groups)},
        after={"groups": [], "reason": reason.strip()},
        affects_agents=False,
        revokes=True,
    )
    return groups


# -- epochs ----------------------------------------------------------------------------------


@audit.change
def ensure_epochs(
    *, actor: User | None, domain: Domain, authority: KeyMaker | None = None
) -> list[KeyEpoch]:
    """Make the keys that the domain needs and does not have yet; returns the new epochs."""
    maker = authority or _authority()
    held = set(
        KeyEpoch.objects.filter(domain=domain, state=State.CURRENT).values_list(
            "group_ref", flat=True
        )
    )
    missing = [ref for ref in selectors.group_refs(domain) if ref not in held]
    return [
        _new_epoch(actor, domain, ref, State.CURRENT, maker, reason="the first") for ref in missing
    ]


@audit.change
def stage_epoch(
    *,
    actor: User | None,
    domain: Domain,
    group_ref: str,
    reason: str = "",
    authority: KeyMaker | None = None,
) -> KeyEpoch:
    """Make the next key of a group; agents learn it before anybody seals under it.

    One that is staged already is the next one: a rotation on its way needs no second one.
    """
    permissions.require_manager(actor, domain)
    if group_ref not in selectors.group_refs(domain):
        raise Invalid.at("/group_ref", f"`{group_ref}` is no key of this domain", "unknown")
    staged = KeyEpoch.objects.filter(domain=domain, group_ref=group_ref, state=State.STAGED).first()
    if staged is not None:
        return staged
    return _new_epoch(
        actor,
        domain,
        group_ref,
        State.STAGED,
        authority or _authority(),
        reason=reason,
        agents=True,
    )


@audit.change
def rotate_keys(
    *,
    actor: User | None,
    domain: Domain,
    group_refs: Iterable[str],
    reason: str,
    authority: KeyMaker | None = None,
) -> list[KeyEpoch]:
    """Record the next epoch of these keys at once; the rollout that follows brings it to agents.

    Raises:
        Invalid: no reason is given, or a key is not one of the domain's.
    """
    permissions.require_manager(actor, domain)
    if not reason.strip():
        raise Invalid.at("/reason", "say why, for the audit")
    return [
        stage_epoch(
            actor=actor,
            domain=domain,
            group_ref=ref,
            reason=reason.strip()[:200],
            authority=authority,
        )
        for ref in sorted(set(group_refs))
    ]


@audit.change
def switch_epoch(*, actor: User | None, epoch: KeyEpoch) -> KeyEpoch:
    """Seal under a staged epoch from now on; the one before only opens what is on its way."""
    row = versions.locked(epoch, None)
    if row.state != State.STAGED:
        raise Conflict("this epoch is not staged", expected=None, current=row.version)
    before = mapping.key_epoch(row)
    for old in _in_state(row, State.CURRENT):
        old.state, old.draining_at = State.DRAINING, timezone.now()
        versions.save(old)
    row.state, row.current_at = State.CURRENT, timezone.now()
    versions.save(row)
    record_row(
        actor, row.domain, "key-epoch.switched", row, before=before, after=mapping.key_epoch(row)
    )
    return row


@audit.change
def retire_epoch(*, actor: User | None, epoch: KeyEpoch) -> KeyEpoch:
    """Nobody opens anything under a draining epoch any more."""
    row = versions.locked(epoch, None)
    if row.state != State.DRAINING:
        raise Conflict("this epoch is not draining", expected=None, current=row.version)
    before = mapping.key_epoch(row)
    row.state, row.retired_at = State.RETIRED, timezone.now()
    versions.save(row)
    record_row(
        actor, row.domain, "key-epoch.retired", row, before=before, after=mapping.key_epoch(row)
    )
    return row


agents_holding = selectors.agents_holding


def _in_state(row: KeyEpoch, state: str) -> list[KeyEpoch]:
    return list(KeyEpoch.objects.filter(domain=row.domain, group_ref=row.group_ref, state=state))


def _new_epoch(
    actor: User | None,
    domain: Domain,
    group_ref: str,
    state: str,
    maker: KeyMaker,
    *,
    reason: str = "",
    agents: bool = False,
) -> KeyEpoch:
    last = KeyEpoch.objects.filter(domain=domain, group_ref=group_ref).aggregate(
        last=Max("number")
    )["last"]
    number = (last or 0) + 1
    row = KeyEpoch(domain=domain, group_ref=group_ref, number=number, state=state, reason=reason)
    row.current_at = row.created if state == State.CURRENT else None
    row.wrapped = maker.create_key(row.key_id)
    versions.create(row)
    record_row(
        actor,
        domain,
        "key-epoch.created",
        row,
        after=mapping.key_epoch(row),
        affects_agents=agents,
        revokes=True,
    )
    return row


def _holders(domain: Domain) -> dict[str, set[int]]:
    """Who holds which key that has been made."""
    refs = KeyEpoch.objects.filter(domain=domain, state=State.CURRENT)
    return {
        ref: set(selectors.agents_for(domain, ref).values_list("pk", flat=True))
        for ref in refs.values_list("group_ref", flat=True)
    }


def _rekey_lost(
    actor: User | None,
    domain: Domain,
    before: Mapping[str, set[int]],
    authority: KeyMaker | None,
    reason: str,
) -> None:
    after = _holders(domain)
    wanted = set(selectors.group_refs(domain))
    for ref in sorted(before):
        if ref in wanted and before[ref] - after.get(ref, set()):
            stage_epoch(
                actor=actor, domain=domain, group_ref=ref, reason=reason, authority=authority
            )


def _authority() -> KeyMaker:
    return get_authority()
