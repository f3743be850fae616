"""What a request to revoke names, and what a revocation would do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rest_framework import serializers

from adminapp.agreements import selectors as agreements
from adminapp.api.base import StrictSerializer
from adminapp.core.errors import Forbidden, Invalid
from adminapp.distribution import endings, services
from adminapp.distribution.endings import Target
from adminapp.distribution.models import Revocation
from adminapp.distribution.serving import domains_of_agent
from adminapp.identity import permissions
from adminapp.identity.models import Agent
from adminapp.identity.selectors import agents, principals
from adminapp.roles import selectors as roles
from adminapp.trustgroups import selectors as trustgroups

Kind = Revocation.Kind


class RevokedSerializer(StrictSerializer):
    """What is to be revoked. Each kind needs its own members:

    `principal` and `client-key`: `principal`. `appointment`: `appointment`. `role-holder`:
    `principal` and `role`. `role`: `domain` and `role`. `attribute`: `principal` and `attribute`.
    `agreement`: `agreement` (and `side`, for whoever may speak for both). `agent`: `agent`.
    `trust-group-member`: `trust_group` and `agent`.
    """

    kind = serializers.ChoiceField(Kind.choices, default=Kind.PRINCIPAL)
    principal = serializers.IntegerField(required=False, help_text="Its identifier.")
    appointment = serializers.IntegerField(required=False, help_text="Its identifier.")
    domain = serializers.CharField(required=False, help_text="Name of the role's domain.")
    role = serializers.CharField(required=False, help_text="Name of the role.")
    attribute = serializers.CharField(required=False, help_text="Name, without `subject.`.")
    agreement = serializers.IntegerField(required=False, help_text="Its identifier.")
    side = serializers.ChoiceField(["provider", "consumer"], required=False)
    agent = serializers.IntegerField(required=False, help_text="Its identifier.")
    trust_group = serializers.IntegerField(required=False, help_text="Its identifier.")


class RevokeSerializer(RevokedSerializer):
    """What to revoke, and why."""

    reason = serializers.CharField(max_length=500, help_text="For the audit and the receipt.")


class RightSerializer(serializers.Serializer[Any]):
    principal = serializers.CharField()
    action = serializers.CharField()
    type = serializers.CharField()
    attributes = serializers.ListField(child=serializers.CharField())
    condition = serializers.CharField()


class ImpactSerializer(serializers.Serializer[Any]):
    """What a revocation would do; nothing is changed yet."""

    loses = RightSerializer(many=True, help_text="Rights that end; the first 200.")
    lost = serializers.IntegerField(help_text="Rights that end in all.")
    principals = serializers.IntegerField(help_text="Principals that lose something.")
    roles = serializers.ListField(child=serializers.CharField())
    appointments = serializers.ListField(child=serializers.CharField())
    agents = serializers.ListField(child=serializers.CharField(), help_text="Told at once.")
    keys = serializers.ListField(child=serializers.CharField(), help_text="Keys replaced.")
    encodings = serializers.IntegerField(help_text="Computed anew.")
    moves = serializers.BooleanField(help_text="Whether the domain gets a new encoding epoch.")


def target_of(user: Any, wanted: Mapping[str, Any]) -> Target:
    """What a request names; of an agent the first domain that it serves.

    Raises:
        Invalid: a member is missing, or there is no such thing for this user.
    """
    return _TARGETS[Kind(wanted["kind"])](user, wanted)


def start(
    user: Any, wanted: Mapping[str, Any], *, expected_version: int | None
) -> list[Revocation]:
    """Revoke what a request names; more than one for an agent of several domains."""
    if wanted["kind"] == Kind.AGENT:
        return services.revoke_agent(
            actor=user,
            agent=_agent(user, wanted),
            reason=wanted["reason"],
            expected_version=expected_version,
        )
    if wanted["kind"] == Kind.PRINCIPAL:
        made = services.revoke_principal(
            actor=user,
            principal=_principal(user, wanted),
            reason=wanted["reason"],
            expected_version=expected_version,
        )
        return [made]
    made = services.revoke(
        actor=user,
        target=target_of(user, wanted),
        reason=wanted["reason"],
        expected_version=expected_version,
    )
    return [made]


def _named(wanted: Mapping[str, Any], name: str) -> Any:
    if name not in wanted:
        raise Invalid.at(f"/{name}", f"a revocation of this kind needs `{name}`", "missing")
    return wanted[name]


def _row(rows: Any, wanted: Mapping[str, Any], name: str) -> Any:
    pk = _named(wanted, name)
    found = rows.filter(pk=pk).first()
    if found is None:
        raise Invalid.at(f"/{name}", f"there is no {name.replace('_', ' ')} {pk}", "unknown")
    return found


def _principal(user: Any, wanted: Mapping[str, Any]) -> Any:
    return _row(principals(user), wanted, "principal")


def _agent(user: Any, wanted: Mapping[str, Any]) -> Agent:
    found: Agent = _row(agents(user), wanted, "agent")
    return found


def _role(user: Any, wanted: Mapping[str, Any]) -> Target:
    domain, name = _named(wanted, "domain"), _named(wanted, "role")
    found = roles.roles(user).filter(domain__name=domain, name=name).first()
    if found is None:
        raise Invalid.at("/role", f"there is no role `{name}` in `{domain}`", "unknown")
    return endings.role(found)


def _agreement(user: Any, wanted: Mapping[str, Any]) -> Target:
    row = _row(agreements.agreements(user), wanted, "agreement")
    if "side" in wanted:
        return endings.agreement(row, wanted["side"])
    sides = [
        side
        for side in ("provider", "consumer")
        if permissions.may_manage(user, row.domain_of(side))
    ]
    if not sides:
        raise Forbidden("only managers of one of the two domains may do this")
    if len(sides) > 1:
        raise Invalid.at("/side", "you may speak for both domains; say for which side")
    return endings.agreement(row, sides[0])


def _first_of_agent(user: Any, wanted: Mapping[str, Any]) -> Target:
    agent = _agent(user, wanted)
    domains = domains_of_agent(agent)
    if not domains:
        raise Invalid.at("/agent", f"`{agent.name}` serves no domain; banning it is enough")
    return endings.agents(agent, domains[:1])[0]


_TARGETS: dict[str, Callable[[Any, Mapping[str, Any]], Target]] = {
    Kind.PRINCIPAL: lambda user, wanted: endings.principal(_principal(user, wanted)),
    Kind.APPOINTMENT: lambda user, wanted: endings.appointment(
        _row(roles.appointments(user), wanted, "appointment")
    ),
    Kind.HOLDER: lambda user, wanted: endings.holder(
        _principal(user, wanted), _named(wanted, "role")
    ),
    Kind.ROLE: _role,
    Kind.ATTRIBUTE: lambda user, wanted: endings.attribute(
        _principal(user, wanted), _named(wanted, "attribute")
    ),
    Kind.AGREEMENT: _agreement,
    Kind.CLIENT_KEY: lambda user, wanted: endings.client_key(_principal(user, wanted)),
    Kind.AGENT: _first_of_agent,
    Kind.MEMBER: lambda user, wanted: endings.member(
        _row(trustgroups.trust_groups(user), wanted, "trust_group"), _agent(user, wanted)
    ),
}
