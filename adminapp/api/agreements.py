"""Agreements between domains, and the directory of domains to agree with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import django_filters as filters
from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from adminapp.agreements import selectors, services
from adminapp.agreements.models import Agreement, AgreementRound, Side
from adminapp.agreements.selectors import directory
from adminapp.api.base import CreateMixin, ReadViewSet, StrictSerializer, VersionedSerializer
from adminapp.api.throttling import CountedMixin
from adminapp.identity import permissions
from adminapp.identity.models import Domain, User
from adminapp.policies.models import Policy


class DirectoryField(serializers.SlugRelatedField):
    """A domain by name, any that the directory lists: one may propose to strangers."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(slug_field="name", queryset=Domain.objects.all(), **kwargs)

    def get_queryset(self) -> Any:
        return directory(self.context["request"].user)


class MappingSerializer(StrictSerializer):
    """A role of the consumer, and the provider's role by which its policies know it."""

    role = serializers.CharField(max_length=64)

    def get_fields(self) -> dict[str, Any]:
        # `as` is a word of Python's.
        return {**super().get_fields(), "as": serializers.CharField(max_length=64)}


class CeilingSerializer(StrictSerializer):
    """The most that is opened of an event type and its sub-types."""

    type = serializers.CharField(max_length=64)
    action = serializers.ChoiceField(Policy.Action.choices)
    attributes = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        allow_null=True,
        help_text="Names; null is all.",
    )


class TermsSerializer(StrictSerializer):
    """What is agreed on."""

    roles = MappingSerializer(many=True)
    opens = CeilingSerializer(many=True)
    subject_attributes = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        help_text="Attributes of the consumer's principals that the provider's policies may see.",
    )
    starts = serializers.DateTimeField(required=False)
    ends = serializers.DateTimeField()
    purpose = serializers.CharField(required=False, allow_blank=True, max_length=2000)


class AcceptanceSerializer(serializers.Serializer[Any]):
    """One side's word."""

    side = serializers.ChoiceField(Side.choices)
    by = serializers.SerializerMethodField(help_text="Shown to the same side alone.")
    at = serializers.DateTimeField()

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_by(self, row: Any) -> str | None:
        return _shown_actor(self, row)


class RoundSerializer(serializers.Serializer[Any]):
    """One proposal."""

    number = serializers.IntegerField()
    side = serializers.ChoiceField(Side.choices, help_text="Who proposed it.")
    by = serializers.SerializerMethodField(help_text="Shown to the same side alone.")
    terms = TermsSerializer()
    digest = serializers.CharField(help_text="Send it back to accept exactly these terms.")
    note = serializers.CharField()
    at = serializers.DateTimeField()
    rejected_at = serializers.DateTimeField(allow_null=True)
    accepted = AcceptanceSerializer(many=True, source="acceptances")

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_by(self, row: AgreementRound) -> str | None:
        return _shown_actor(self, row)


def _shown_actor(serializer: Any, row: Any) -> str | None:
    """People of the other side are its own business."""
    sides = serializer.context.get("sides", frozenset())
    return row.actor.get_username() if row.actor and row.side in sides else None


class AgreementSerializer(VersionedSerializer):
    provider = DirectoryField()
    consumer = DirectoryField()
    name = serializers.CharField(max_length=64)
    terms = TermsSerializer(write_only=True)
    side = serializers.ChoiceField(
        Side.choices,
        required=False,
        write_only=True,
        help_text="For which side you speak; needed where you manage both.",
    )
    note = serializers.CharField(required=False, allow_blank=True, max_length=2000, write_only=True)
    state = serializers.SerializerMethodField()
    accepted_round = serializers.IntegerField(
        source="accepted_round.number", read_only=True, default=None, allow_null=True
    )
    created = serializers.DateTimeField(read_only=True)
    closed_at = serializers.DateTimeField(read_only=True, allow_null=True)
    closed_by = serializers.CharField(read_only=True)
    reason = serializers.CharField(read_only=True)
    rounds = serializers.SerializerMethodField()

    @extend_schema_field(serializers.ChoiceField([*Agreement.State.choices, ("lapsed", "Lapsed")]))
    def get_state(self, row: Agreement) -> str:
        return selectors.state(row)

    @extend_schema_field(RoundSerializer(many=True))
    def get_rounds(self, row: Agreement) -> Any:
        seen: frozenset[int] | None = self.context.get("seen")
        sides = frozenset(
            side for side in Side.values if seen is None or row.domain_of(side).pk in seen
        )
        context = {**self.context, "sides": sides}
        return RoundSerializer(row.rounds.all(), many=True, context=context).data


class CounterSerializer(StrictSerializer):
    round = serializers.IntegerField(help_text="The round that is answered: the newest one.")
    terms = TermsSerializer()
    side = serializers.ChoiceField(Side.choices, required=False)
    note = serializers.CharField(required=False, allow_blank=True, max_length=2000)


class AcceptSerializer(StrictSerializer):
    round = serializers.IntegerField()
    digest = serializers.CharField(max_length=64, help_text="Of the round's terms, as shown.")
    side = serializers.ChoiceField(Side.choices, required=False)


class EndSerializer(StrictSerializer):
    reason = serializers.CharField(required=False, allow_blank=True, max_length=2000)
    side = serializers.ChoiceField(Side.choices, required=False)


class AgreementFilter(filters.FilterSet):
    domain = filters.CharFilter(method="of_either", help_text="Name of either domain.")
    provider = filters.CharFilter(field_name="provider__name")
    consumer = filters.CharFilter(field_name="consumer__name")
    state = filters.ChoiceFilter(choices=Agreement.State.choices)

    def of_either(self, found: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        return found.filter(Q(provider__name=value) | Q(consumer__name=value))


class AgreementViewSet(CreateMixin, ReadViewSet):
    """What domains open to one another. Members of both see it, managers of both decide."""

    serializer_class = AgreementSerializer
    filterset_class = AgreementFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.agreements(self.request.user)

    def get_serializer_context(self) -> dict[str, Any]:
        context = super().get_serializer_context()
        user = getattr(self.request, "user", None)
        if user is not None and user.is_authenticated and not user.is_superuser:
            context["seen"] = selectors.seen_domains(user)
        return context

    def domain_of(self, row: Agreement) -> Domain:
        return row.provider

    def require_change(self, domain: Domain | None, key: str = "", *, below: str = "") -> None:
        """Which of the two sides the caller may speak for is decided by the services."""

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        _require_a_manager(request.user)
        return super().create(request, *args, **kwargs)

    def create_with(self, actor: User, values: dict[str, Any]) -> Agreement:
        return services.propose_agreement(actor=actor, **values)

    @extend_schema(request=CounterSerializer, responses=AgreementSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def counter(self, request: Request, **_: Any) -> Response:
        """Propose other terms instead."""

        def call(row: Agreement, values: dict[str, Any]) -> Agreement:
            number = values.pop("round")
            return services.counter_agreement(
                actor=request.user, agreement=row, number=number, **values
            )

        return self._act(CounterSerializer, call)

    @extend_schema(request=AcceptSerializer, responses=AgreementSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def accept(self, request: Request, **_: Any) -> Response:
        """Say yes for your side; the second yes puts the terms in force."""

        def call(row: Agreement, values: dict[str, Any]) -> Agreement:
            number = values.pop("round")
            return services.accept_agreement(
                actor=request.user, agreement=row, number=number, **values
            )

        return self._act(AcceptSerializer, call)

    @extend_schema(request=EndSerializer, responses=AgreementSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def reject(self, request: Request, **_: Any) -> Response:
        """Say no to the newest round."""
        return self._act(
            EndSerializer,
            lambda row, values: services.reject_agreement(
                actor=request.user, agreement=row, **values
            ),
        )

    @extend_schema(request=EndSerializer, responses=AgreementSerializer)
    @action(detail=True, methods=["post"], filter_backends=[])
    def withdraw(self, request: Request, **_: Any) -> Response:
        """End it at once, by either side alone."""
        return self._act(
            EndSerializer,
            lambda row, values: services.withdraw_agreement(
                actor=request.user, agreement=row, **values
            ),
        )

    def _act(
        self,
        serializer_class: type[StrictSerializer],
        call: Callable[[Agreement, dict[str, Any]], Agreement],
    ) -> Response:
        row = self.get_object()
        serializer = serializer_class(data=self.request.data, context=self.get_serializer_context())
        serializer.is_valid(raise_exception=True)
        return self.shown(call(row, dict(serializer.validated_data)))


class DirectoryEntrySerializer(serializers.Serializer[Domain]):
    """A domain, to those who look for somebody to agree with."""

    name = serializers.CharField()
    title = serializers.CharField()


class DirectoryFilter(filters.FilterSet):
    search = filters.CharFilter(method="named", help_text="Part of a name or title.")

    def named(self, found: QuerySet[Any], _name: str, value: str) -> QuerySet[Any]:
        return found.filter(Q(name__icontains=value) | Q(title__icontains=value))


class DirectoryViewSet(CountedMixin, mixins.ListModelMixin, GenericViewSet):
    """Names and titles of every domain, for managers."""

    serializer_class = DirectoryEntrySerializer
    filterset_class = DirectoryFilter

    def rows(self) -> QuerySet[Any]:
        return directory(self.request.user)

    def get_queryset(self) -> QuerySet[Any]:
        return self.rows()

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        _require_a_manager(request.user)
        return super().list(request, *args, **kwargs)


def _require_a_manager(user: Any) -> None:
    if not (permissions.is_operator(user) or selectors.manages_anything(user)):
        raise PermissionDenied
