"""Who signs in, with which standing in which domain: users, memberships, delegations, tokens."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.api.authentication import SessionOnly
from adminapp.api.base import CreateMixin, DeleteMixin, ReadViewSet, VersionedSerializer
from adminapp.api.fields import DomainField
from adminapp.api.filters import DomainFilter
from adminapp.api.permissions import Operator
from adminapp.core.errors import Invalid
from adminapp.identity import selectors, services
from adminapp.identity.models import ApiToken, Delegation, Domain, Membership, User


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
        user = active_user(values["user"]["username"])
        return services.set_membership(
            actor=actor, user=user, domain=values["domain"], role=values["role"]
        )

    def delete_with(self, actor: User, row: Membership, version: int | None) -> None:
        services.remove_membership(actor=actor, membership=row, expected_version=version)


class DelegationSerializer(VersionedSerializer):
    user = serializers.CharField(source="user.username", max_length=150)
    domain = DomainField()
    roles = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, help_text="Names of roles."
    )
    event_types = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="Names of event types; their sub-types and policies come with them.",
    )
    begins = serializers.DateTimeField(read_only=True)
    ends = serializers.DateTimeField(help_text="Within 366 days.")
    granted_by = serializers.CharField(
        source="granted_by.username", read_only=True, allow_null=True, default=None
    )


class DelegationFilter(DomainFilter):
    user = filters.CharFilter(field_name="user__username", help_text="Name of the user.")
    in_force = filters.BooleanFilter(
        method="filter_in_force", help_text="Whether it holds now, or is over."
    )

    def filter_in_force(
        self, rows: QuerySet[Delegation], _name: str, value: bool
    ) -> QuerySet[Delegation]:
        now = timezone.now()
        return rows.filter(ends__gt=now) if value else rows.filter(ends__lte=now)


class DelegationViewSet(CreateMixin, DeleteMixin, ReadViewSet):
    """Parts of a domain in colleagues' hands. DELETE ends one now; it stays on record."""

    serializer_class = DelegationSerializer
    filterset_class = DelegationFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.delegations(self.request.user)

    def create_with(self, actor: User, values: dict[str, Any]) -> Delegation:
        self.require_change(values["domain"])
        user = active_user(values.pop("user")["username"])
        return services.delegate(actor=actor, user=user, **values)

    def delete_with(self, actor: User, row: Delegation, version: int | None) -> None:
        services.end_delegation(actor=actor, delegation=row, expected_version=version)


def active_user(username: str) -> User:
    """Somebody who can sign in, by name."""
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise Invalid.at("/user", f"there is no user `{username}`", "unknown")
    return user


class KeptToField(serializers.ListField):
    """The domains of a restricted token; null for one that is not."""

    child = DomainField()

    def get_attribute(self, instance: ApiToken) -> Any:
        return list(instance.domains.all()) if instance.restricted else None

    def to_representation(self, data: list[Domain]) -> list[str]:
        return sorted(domain.name for domain in data)


class TokenSerializer(VersionedSerializer):
    name = serializers.CharField(max_length=64)
    scopes = serializers.ListField(child=serializers.ChoiceField(ApiToken.SCOPES))
    days = serializers.IntegerField(write_only=True, required=False, min_value=1, max_value=365)
    created = serializers.DateTimeField(read_only=True)
    expires = serializers.DateTimeField(read_only=True)
    last_used = serializers.DateTimeField(read_only=True, allow_null=True)
    domains = KeptToField(
        required=False,
        allow_null=True,
        help_text="Names of the domains that it opens, and nothing else; null is all.",
    )


class IssuedTokenSerializer(TokenSerializer):
    """A token in the moment that it is made."""

    secret = serializers.CharField(read_only=True, help_text="Shown this once.")


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

    @extend_schema(responses={status.HTTP_201_CREATED: IssuedTokenSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A new token of one's own; its secret is in this answer and in no other."""
        return super().create(request, *args, **kwargs)

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
