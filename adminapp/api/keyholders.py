"""Keys as agents hold them: who has which epoch, new epochs, and agents that lose trust."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.base import StrictSerializer, VersionedSerializer, expected_version
from adminapp.api.fields import DomainField
from adminapp.catalog.models import AttributeKey
from adminapp.core.errors import Invalid
from adminapp.distribution import coverage
from adminapp.identity import permissions
from adminapp.identity.models import Agent, Domain
from adminapp.trustgroups import emergency, mapping, selectors, services
from adminapp.trustgroups.models import KeyEpoch


class KeyEpochSerializer(VersionedSerializer):
    """One generation of a key; the key itself is shown to nobody."""

    domain = serializers.CharField(source="domain.name", read_only=True)
    group = serializers.CharField(source="group_ref", read_only=True)
    number = serializers.IntegerField(read_only=True)
    state = serializers.ChoiceField(KeyEpoch.State.choices, read_only=True)
    reason = serializers.CharField(read_only=True)
    created = serializers.DateTimeField(read_only=True)
    current_at = serializers.DateTimeField(read_only=True, allow_null=True)
    draining_at = serializers.DateTimeField(read_only=True, allow_null=True)
    retired_at = serializers.DateTimeField(read_only=True, allow_null=True)


class ReasonSerializer(StrictSerializer):
    reason = serializers.CharField(max_length=180, help_text="For the audit and the history.")


class RotateSerializer(ReasonSerializer):
    domain = serializers.CharField(
        max_length=64, required=False, help_text="A domain below that inherits the key."
    )


class DistrustSerializer(ReasonSerializer):
    domain = DomainField(
        required=False, help_text="Its groups alone; left out: every domain, for operators."
    )


class LeftSerializer(serializers.Serializer[Any]):
    domain = serializers.CharField()
    group = serializers.CharField()


class DistrustedSerializer(serializers.Serializer[Any]):
    """The groups that an agent was taken out of."""

    agent = serializers.CharField()
    left = LeftSerializer(many=True)


class HolderSerializer(serializers.Serializer[Any]):
    """An agent that was entitled to one generation of a key."""

    agent = serializers.CharField(source="agent.name")
    overlay = serializers.CharField(source="agent.overlay.name")
    agent_state = serializers.ChoiceField(Agent.State.choices, source="agent.state")
    epoch = serializers.IntegerField(source="epoch.number")
    epoch_state = serializers.ChoiceField(KeyEpoch.State.choices, source="epoch.state")
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(allow_null=True)
    why = serializers.CharField()
    ended_why = serializers.CharField()


class LossesSerializer(serializers.Serializer[Any]):
    """Who loses what when an epoch ends at once, from what agents signed."""

    key = serializers.CharField()
    epoch = serializers.IntegerField()
    attributes = serializers.ListField(child=serializers.CharField())
    holders = serializers.ListField(child=serializers.CharField())
    successor = serializers.ListField(child=serializers.CharField())
    without = serializers.ListField(child=serializers.CharField())
    replaced = serializers.BooleanField()


class EndedKeys:
    """What can be asked and done of one generation of a key."""

    @extend_schema(responses=LossesSerializer, filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def losses(self: Any, request: Request, **_: Any) -> Response:
        """Who would lose what if this epoch ended at once."""
        return Response(LossesSerializer(coverage.losses(self.get_object())).data)

    @extend_schema(request=ReasonSerializer, responses=KeyEpochSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def retire(self: Any, request: Request, **_: Any) -> Response:
        """End it at once: what is sealed under it no longer opens. Ask for `losses` first."""
        row = emergency.retire_now(
            actor=request.user,
            epoch=self.get_object(),
            reason=reason_of(request),
            expected_version=expected_version(request),
        )
        return self.shown(row)


class HeldKeys:
    """What can be asked and done of an attribute key as agents hold it."""

    @extend_schema(
        responses=HolderSerializer(many=True),
        filters=False,
        parameters=[
            OpenApiParameter("domain", str, description="A domain below that inherits the key."),
            OpenApiParameter("past", bool, description="Whether to tell of what is over, too."),
        ],
    )
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def holders(self: Any, request: Request, **_: Any) -> Response:
        """Which agents hold which epoch of this key, since when."""
        row = self.get_object()
        domain = _domain_below(request.user, row, request.query_params.get("domain"))
        past = _truth(request, "past")
        found = selectors.holders(domain, mapping.key_ref(row.name), past=past)
        return Response(HolderSerializer(found, many=True).data)

    @extend_schema(request=RotateSerializer, responses={201: KeyEpochSerializer})
    @action(detail=True, methods=["post"], filter_backends=[])
    def rotate(self: Any, request: Request, **_: Any) -> Response:
        """A new epoch of the key, recorded at once; a rollout brings it to the agents."""
        row = self.get_object()
        serializer = RotateSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        domain = _domain_below(request.user, row, values.get("domain"))
        (made,) = services.rotate_keys(
            actor=request.user,
            domain=domain,
            group_refs=[mapping.key_ref(row.name)],
            reason=values["reason"],
        )
        return Response(KeyEpochSerializer(made).data, status.HTTP_201_CREATED)


class Distrusted:
    """What can be done to an agent that is no longer trusted with keys."""

    @extend_schema(request=DistrustSerializer, responses=DistrustedSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def distrust(self: Any, request: Request, **_: Any) -> Response:
        """Take it out of every trust group at once, and replace the keys that it knew."""
        agent = self.get_queryset().filter(pk=self.kwargs["pk"]).first()
        if agent is None:
            raise NotFound
        serializer = DistrustSerializer(data=request.data, context={"request": request})
        serializer.is_valid(raise_exception=True)
        values = serializer.validated_data
        domain = values.get("domain")
        if domain is None:
            permissions.require_operator(request.user)
        groups = services.distrust_agent(
            actor=request.user, agent=agent, reason=values["reason"], domain=domain
        )
        left = [{"domain": group.domain.name, "group": group.name} for group in groups]
        return Response(DistrustedSerializer({"agent": agent.name, "left": left}).data)


def _truth(request: Request, name: str) -> bool:
    said = request.query_params.get(name, "false")
    if said not in ("true", "false"):
        raise Invalid.at(f"/{name}", "say `true` or `false`")
    return said == "true"


def reason_of(request: Request) -> str:
    serializer = ReasonSerializer(data=request.data)
    serializer.is_valid(raise_exception=True)
    return str(serializer.validated_data["reason"])


def _domain_below(user: Any, row: AttributeKey, name: str | None) -> Domain:
    """The key's own domain, or one that inherits it and that the caller may see."""
    if name in (None, "", row.domain.name):
        return row.domain
    found = Domain.objects.visible_to(user).filter(name=name).first()
    if found is None:
        raise NotFound
    if selectors.attribute_keys(found, [row.name]).get(row.name) != row:
        raise Invalid.at("/domain", f"`{name}` does not inherit this key")
    return found
