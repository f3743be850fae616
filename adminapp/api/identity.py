"""Domains, memberships, users, tokens, overlays, agents and principals."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.authentication import SessionOnly
from adminapp.api.base import (
    CreateMixin,
    DeleteMixin,
    ReadViewSet,
    ServiceViewSet,
    StrictSerializer,
    UpdateMixin,
    VersionedSerializer,
    expected_version,
)
from adminapp.api.fields import DomainField, SharedField
from adminapp.api.permissions import Operator
from adminapp.core.errors import Invalid
from adminapp.distribution.selectors import domain_progress
from adminapp.identity import selectors, services
from adminapp.identity.models import (
    Agent,
    ApiToken,
    Domain,
    Membership,
    Overlay,
    Principal,
    User,
)
from adminapp.policies.access import Access
from adminapp.policies.selectors import effective_access


class DomainFilter(filters.FilterSet):
    """Filters of everything that belongs to a domain."""

    domain = filters.CharFilter(field_name="domain__name", help_text="Name of the domain.")


class AccessSerializer(serializers.Serializer[Access]):
    """One thing that a principal may do."""

    principal = serializers.CharField()
    handle = serializers.CharField()
    action = serializers.ChoiceField(["publish", "subscribe"])
    type = serializers.CharField()
    attributes = serializers.ListField(child=serializers.CharField())
    condition = serializers.CharField(help_text="On the event, in words; empty is always.")
    policy = serializers.CharField()


class ProgressSerializer(serializers.Serializer[Any]):
    """How many of a domain's agents acknowledged its newest revision."""

    domain = serializers.CharField()
    revision = serializers.IntegerField()
    agents = serializers.IntegerField()
    applied = serializers.IntegerField()
    behind = serializers.ListField(child=serializers.CharField())


class DomainSerializer(VersionedSerializer):
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200)
    description = serializers.CharField(required=False, allow_blank=True)
    parent = DomainField(required=False, allow_null=True)
    lease_seconds = serializers.IntegerField(required=False, min_value=5, max_value=86_400)
    encoding = serializers.ChoiceField(Domain.Encoding.choices, required=False)
    revision = serializers.IntegerField(
        read_only=True, help_text="Rises with every change that agents must hear of."
    )


class DomainViewSet(ServiceViewSet):
    """Organisations."""

    serializer_class = DomainSerializer
    fixed = ("name",)

    def rows(self) -> QuerySet[Any]:
        return selectors.domains(self.request.user)

    def domain_of(self, row: Domain) -> Domain:
        return row

    def create_with(self, actor: User, values: dict[str, Any]) -> Domain:
        return services.create_domain(actor=actor, **values)

    def update_with(
        self, actor: User, row: Domain, values: dict[str, Any], version: int | None
    ) -> Domain:
        if values.get("parent", row.parent) == row.parent:
            values.pop("parent", None)
        return services.update_domain(
            actor=actor, domain=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: Domain, version: int | None) -> None:
        services.delete_domain(actor=actor, domain=row, expected_version=version)

    @extend_schema(responses=AccessSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def access(self, request: Request, pk: str | None = None) -> Response:
        """Who may publish and receive what now, attribute by attribute."""
        lines = effective_access(self.get_object())
        return Response(AccessSerializer(lines, many=True).data)

    @extend_schema(responses=ProgressSerializer, filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def progress(self, request: Request, pk: str | None = None) -> Response:
        """How many agents acknowledged the newest revision, and which are behind."""
        return Response(ProgressSerializer(domain_progress(self.get_object())).data)


class UserSerializer(VersionedSerializer):
    username = serializers.CharField(max_length=150)
    email = serializers.EmailField(required=False, allow_blank=True)
    password = serializers.CharField(write_only=True, required=False, max_length=256)
    operator = serializers.BooleanField(source="is_superuser", required=False)
    active = serializers.BooleanField(source="is_active", read_only=True)


class UserViewSet(CreateMixin, DeleteMixin, ReadViewSet):
    """People who sign in; for operators."""

    serializer_class = UserSerializer
    permission_classes = [Operator]
    # The answer holds no secret, the request does: nothing of it is kept.
    replayable = True

    def rows(self) -> QuerySet[Any]:
        return User.objects.order_by("id")

    def domain_of(self, row: User) -> None:
        return None

    def create_with(self, actor: User, values: dict[str, Any]) -> User:
        operator = values.pop("is_superuser", False)
        return services.create_user(actor=actor, operator=operator, **values)

    def delete_with(self, actor: User, row: User, version: int | None) -> None:
        """The user stays as a name in the records and can no longer sign in."""
        services.deactivate_user(actor=actor, user=row, expected_version=version)


class MembershipSerializer(VersionedSerializer):
    user = serializers.CharField(source="user.username")
    domain = DomainField()
    role = serializers.ChoiceField(Membership.Role.choices)


class MembershipViewSet(CreateMixin, DeleteMixin, ReadViewSet):
    """Who manages and who audits a domain."""

    serializer_class = MembershipSerializer
    filterset_class = DomainFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.memberships(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> Membership:
        self.require_change(values["domain"])
        username = values["user"]["username"]
        user = User.objects.filter(username=username, is_active=True).first()
        if user is None:
            raise Invalid.at("/user", f"there is no user `{username}`", "unknown")
        return services.set_membership(
            actor=actor, user=user, domain=values["domain"], role=values["role"]
        )

    def delete_with(self, actor: User, row: Membership, version: int | None) -> None:
        services.remove_membership(actor=actor, membership=row, expected_version=version)


class TokenSerializer(VersionedSerializer):
    name = serializers.CharField(max_length=64)
    scopes = serializers.ListField(child=serializers.ChoiceField(ApiToken.SCOPES))
    days = serializers.IntegerField(write_only=True, required=False, min_value=1, max_value=365)
    created = serializers.DateTimeField(read_only=True)
    expires = serializers.DateTimeField(read_only=True)
    last_used = serializers.DateTimeField(read_only=True, allow_null=True)
    secret = serializers.CharField(
        read_only=True, required=False, help_text="Shown once, when the token is made."
    )


class TokenViewSet(CreateMixin, DeleteMixin, ReadViewSet):
    """One's own bearer tokens. They are made and withdrawn in a signed-in session only."""

    serializer_class = TokenSerializer
    replayable = False

    def get_authenticators(self) -> list[Any]:
        # A token that could make tokens could outlive its own end and widen its own scopes.
        return [SessionOnly()] if self._changes() else super().get_authenticators()

    def _changes(self) -> bool:
        return self.request is not None and self.request.method not in ("GET", "HEAD", "OPTIONS")

    def rows(self) -> QuerySet[Any]:
        return selectors.tokens(self.request.user)

    def require_change(self, domain: Domain | None, key: str = "", *, below: str = "") -> None:
        """`rows` holds one's own tokens and nothing else."""

    def domain_of(self, row: ApiToken) -> None:
        return None

    def create_with(self, actor: User, values: dict[str, Any]) -> ApiToken:
        token, secret = services.issue_token(actor=actor, user=actor, **values)
        self._secret = secret
        return token

    def shown(self, row: ApiToken, code: int = status.HTTP_200_OK) -> Response:
        response = super().shown(row, code)
        if code == status.HTTP_201_CREATED:
            response.data["secret"] = self._secret
            response["Cache-Control"] = "no-store"
        return response

    def delete_with(self, actor: User, row: ApiToken, version: int | None) -> None:
        services.revoke_token(actor=actor, token=row, expected_version=version)


class OverlaySerializer(VersionedSerializer):
    name = serializers.CharField(max_length=64)
    title = serializers.CharField(max_length=200)
    operator = serializers.CharField(max_length=200, required=False, allow_blank=True)


class OverlayViewSet(ServiceViewSet):
    """Networks of brokers; operators change them."""

    serializer_class = OverlaySerializer
    fixed = ("name",)

    def rows(self) -> QuerySet[Any]:
        return selectors.overlays(self.request.user)

    def domain_of(self, row: Overlay) -> None:
        return None

    def create_with(self, actor: User, values: dict[str, Any]) -> Overlay:
        return services.create_overlay(actor=actor, **values)

    def update_with(
        self, actor: User, row: Overlay, values: dict[str, Any], version: int | None
    ) -> Overlay:
        return services.update_overlay(
            actor=actor, overlay=row, data=values, expected_version=version
        )

    def delete_with(self, actor: User, row: Overlay, version: int | None) -> None:
        services.delete_overlay(actor=actor, overlay=row, expected_version=version)


class KeysSerializer(StrictSerializer):
    """Two public keys."""

    sealing_key = serializers.CharField(
        max_length=64, help_text="X25519, 32 bytes, base64url without padding."
    )
    verify_key = serializers.CharField(
        max_length=64, help_text="Ed25519, 32 bytes, base64url without padding."
    )


class AgentSerializer(VersionedSerializer, KeysSerializer):
    name = serializers.CharField(max_length=64)
    overlay = SharedField(Overlay)
    state = serializers.ChoiceField(Agent.State.choices, required=False)
    registered_at = serializers.DateTimeField(read_only=True)


class AgentFilter(filters.FilterSet):
    overlay = filters.CharFilter(field_name="overlay__name", help_text="Name of the overlay.")
    state = filters.ChoiceFilter(choices=Agent.State.choices)


class AgentViewSet(CreateMixin, UpdateMixin, ReadViewSet):
    """Broker agents; operators register and ban them."""

    serializer_class = AgentSerializer
    filterset_class = AgentFilter
    fixed = ("name", "overlay")

    def rows(self) -> QuerySet[Any]:
        return selectors.agents(self.request.user)

    def domain_of(self, row: Agent) -> None:
        return None

    def create_with(self, actor: User, values: dict[str, Any]) -> Agent:
        values.pop("state", None)
        return services.register_agent(actor=actor, **values)

    def update_with(
        self, actor: User, row: Agent, values: dict[str, Any], version: int | None
    ) -> Agent:
        return services.update_agent(actor=actor, agent=row, data=values, expected_version=version)


class PrincipalSerializer(VersionedSerializer):
    domain = DomainField()
    name = serializers.CharField(max_length=64)
    kind = serializers.ChoiceField(Principal.Kind.choices)
    handle = serializers.CharField(read_only=True)
    attributes = serializers.DictField(required=False, help_text="As the domain declares them.")
    agents = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="Names of the home agents, at most one on each overlay.",
        source="homes",
    )
    sealing_key = serializers.CharField(read_only=True)
    verify_key = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(Principal.State.choices, read_only=True)
    revoked_at = serializers.DateTimeField(read_only=True, allow_null=True)

    def to_representation(self, instance: Principal) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for name, each in self.fields.items():
            if name == "agents":
                shown[name] = [home.agent.name for home in instance.homes.all()]
            else:
                value = each.get_attribute(instance)
                shown[name] = None if value is None else each.to_representation(value)
        return shown


class PrincipalFilter(DomainFilter):
    kind = filters.ChoiceFilter(choices=Principal.Kind.choices)
    state = filters.ChoiceFilter(choices=Principal.State.choices)
    name = filters.CharFilter(lookup_expr="icontains", help_text="A part of the name.")


class PrincipalViewSet(ServiceViewSet):
    """Publishers, subscribers, services and persons of a domain."""

    serializer_class = PrincipalSerializer
    filterset_class = PrincipalFilter
    fixed = ("domain",)

    def rows(self) -> QuerySet[Any]:
        return selectors.principals(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> Principal:
        agents = agents_by_name(actor, values.pop("homes", []), "/agents")
        return services.create_principal(actor=actor, agents=agents, **values)

    def update_with(
        self, actor: User, row: Principal, values: dict[str, Any], version: int | None
    ) -> Principal:
        names = values.pop("homes", None)
        return services.update_principal(
            actor=actor,
            principal=row,
            data=values,
            agents=None if names is None else agents_by_name(actor, names, "/agents"),
            expected_version=version,
        )

    def delete_with(self, actor: User, row: Principal, version: int | None) -> None:
        services.delete_principal(actor=actor, principal=row, expected_version=version)

    @extend_schema(request=KeysSerializer, responses=PrincipalSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def credentials(self, request: Request, pk: str | None = None) -> Response:
        """Register the two public keys of the principal's client."""
        row = self.get_object()
        serializer = KeysSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        version = expected_version(request) if "If-Match" in request.headers else None
        services.register_credentials(
            actor=request.user,
            principal=row,
            expected_version=version,
            **serializer.validated_data,
        )
        return self.shown(row)


def agents_by_name(actor: User, names: list[str], pointer: str) -> list[Agent]:
    """Agents that the caller may see, in order, each once."""
    found = {agent.name: agent for agent in selectors.agents(actor).filter(name__in=names)}
    for index, name in enumerate(names):
        if name not in found:
            raise Invalid.at(f"{pointer}/{index}", f"there is no agent `{name}`", "unknown")
    return [found[name] for name in dict.fromkeys(names)]
