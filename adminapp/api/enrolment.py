"""Enrolment: tokens and decisions of people; requests, questions and renewals of machines."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from adminapp.api.base import (
    CreateMixin,
    DeleteMixin,
    ReadViewSet,
    StrictSerializer,
    VersionedSerializer,
    expected_version,
)
from adminapp.api.fields import SharedField
from adminapp.api.filters import DomainFilter
from adminapp.api.throttling import AddressThrottle, CountedMixin
from adminapp.core.errors import Invalid
from adminapp.enrolment import selectors, services
from adminapp.enrolment.models import Certificate, Enrolment, EnrolmentToken, Fleet, Kind
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain, Overlay, User
from policyengine.errors import DecodeError
from policyengine.primitives.canonical import b64, unb64

ASK_AGAIN = 3
"""Seconds after which whoever waits may ask again."""


class FleetField(serializers.SlugRelatedField):
    """A fleet by name."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(slug_field="name", queryset=Fleet.objects.all(), **kwargs)

    def get_queryset(self) -> Any:
        return selectors.fleets(self.context["request"].user)


# -- tokens and fleets -----------------------------------------------------------------------


class EnrolmentTokenSerializer(VersionedSerializer):
    """A token for one agent (name and overlay, or a fleet) or one principal's client."""

    kind = serializers.ChoiceField(Kind.choices)
    name = serializers.CharField(max_length=64, required=False, help_text="Of the agent.")
    overlay = SharedField(Overlay, required=False, allow_null=True)
    fleet = FleetField(required=False, allow_null=True, help_text="Which confirms by itself.")
    principal = serializers.IntegerField(
        source="principal_id", required=False, allow_null=True, help_text="Its identifier."
    )
    domain = serializers.CharField(source="domain.name", read_only=True, default=None)
    uid = serializers.CharField(read_only=True)
    created = serializers.DateTimeField(read_only=True)
    expires = serializers.DateTimeField(read_only=True)
    spent_at = serializers.DateTimeField(read_only=True, allow_null=True)


class IssuedEnrolmentTokenSerializer(EnrolmentTokenSerializer):
    """A token in the moment that it is made."""

    secret = serializers.CharField(read_only=True, help_text="Shown this once.")


class EnrolmentTokenViewSet(CreateMixin, DeleteMixin, ReadViewSet):
    """Tokens that let one agent or client ask, once, within five minutes. Making one needs the
    scope `revoke`.
    """

    serializer_class = EnrolmentTokenSerializer
    filterset_class = DomainFilter
    replayable = False
    write_scope = "revoke"

    def rows(self) -> QuerySet[Any]:
        return selectors.tokens(self.request.user)

    def domain_of(self, row: EnrolmentToken) -> Domain | None:
        return row.domain

    @extend_schema(responses={status.HTTP_201_CREATED: IssuedEnrolmentTokenSerializer})
    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """A new token; its secret is in this answer and in no other."""
        return super().create(request, *args, **kwargs)

    def create_with(self, actor: User, values: dict[str, Any]) -> EnrolmentToken:
        token, self._secret = _issue(actor, values)
        return token

    def shown(self, row: EnrolmentToken, code: int = status.HTTP_200_OK) -> Response:
        response = super().shown(row, code)
        if code == status.HTTP_201_CREATED:
            response.data["secret"] = self._secret
            response["Cache-Control"] = "no-store"
        return response

    def delete_with(self, actor: User, row: EnrolmentToken, version: int | None) -> None:
        services.withdraw_token(actor=actor, token=row, expected_version=version)


def _issue(actor: User, values: dict[str, Any]) -> tuple[EnrolmentToken, str]:
    kind, principal_id = values.pop("kind"), values.pop("principal_id", None)
    if kind == Kind.AGENT:
        if principal_id is not None:
            raise Invalid.at("/principal", "an agent is no principal's client")
        return services.issue_agent_token(actor=actor, **values)
    extra = [name for name in ("name", "overlay", "fleet") if values.get(name)]
    if extra or principal_id is None:
        place = f"/{extra[0]}" if extra else "/principal"
        raise Invalid.at(place, "a client's token names its principal, and nothing else")
    principal = identity.principals(actor).filter(pk=principal_id).first()
    if principal is None:
        raise Invalid.at("/principal", f"there is no principal {principal_id}", "unknown")
    return services.issue_client_token(actor=actor, principal=principal)


class FleetSerializer(VersionedSerializer):
    """Agents that are confirmed by themselves: so many, of such names, until an end."""

    name = serializers.CharField(max_length=64)
    overlay = SharedField(Overlay)
    pattern = serializers.CharField(
        max_length=64, help_text="Which names may be, with one `*`: `edge-*`."
    )
    most = serializers.IntegerField(min_value=1, max_value=10_000)
    ends = serializers.DateTimeField()
    confirmed = serializers.IntegerField(read_only=True, help_text="How many there are.")


class FleetViewSet(CreateMixin, DeleteMixin, ReadViewSet):
    """Fleets; operators alone see and change them. Making one needs the scope `revoke`."""

    serializer_class = FleetSerializer
    write_scope = "revoke"
    versioned_actions = ("end",)

    def rows(self) -> QuerySet[Any]:
        return selectors.fleets(self.request.user)

    def domain_of(self, row: Fleet) -> None:
        return None

    def create_with(self, actor: User, values: dict[str, Any]) -> Fleet:
        return services.create_fleet(actor=actor, **values)

    def delete_with(self, actor: User, row: Fleet, version: int | None) -> None:
        services.delete_fleet(actor=actor, fleet=row, expected_version=version)

    @extend_schema(request=None, responses=FleetSerializer, filters=False)
    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def end(self, request: Request, pk: str | None = None) -> Response:
        """Confirm nobody because of it from now on; the agents that were stay."""
        row = self.get_object()
        return self.shown(
            services.end_fleet(
                actor=request.user, fleet=row, expected_version=expected_version(request)
            )
        )


# -- requests, decided by people -------------------------------------------------------------


class EnrolmentSerializer(VersionedSerializer):
    """A request to take part."""

    uid = serializers.CharField(read_only=True)
    kind = serializers.ChoiceField(Kind.choices, read_only=True)
    name = serializers.CharField(read_only=True, help_text="An agent's name, a client's handle.")
    overlay = serializers.CharField(source="overlay.name", read_only=True, default=None)
    domain = serializers.CharField(source="domain.name", read_only=True, default=None)
    principal = serializers.IntegerField(source="principal_id", read_only=True, allow_null=True)
    fleet = serializers.CharField(source="token.fleet.name", read_only=True, default=None)
    fingerprint = serializers.CharField(
        read_only=True, help_text="Compare it with what the machine shows."
    )
    sealing_key = serializers.CharField(read_only=True)
    verify_key = serializers.CharField(read_only=True)
    proven_at = serializers.DateTimeField(read_only=True, allow_null=True)
    state = serializers.ChoiceField(Enrolment.State.choices, read_only=True)
    reason = serializers.CharField(read_only=True)
    created = serializers.DateTimeField(read_only=True)
    expires = serializers.DateTimeField(read_only=True)
    decided_at = serializers.DateTimeField(read_only=True, allow_null=True)
    decided_by = serializers.CharField(source="decided_by.username", read_only=True, default=None)


class ConfirmEnrolmentSerializer(StrictSerializer):
    """The fingerprint as the machine shows it."""

    fingerprint = serializers.CharField(max_length=64)


class RefuseEnrolmentSerializer(StrictSerializer):
    """Why not."""

    reason = serializers.CharField(max_length=500, help_text="For the audit and for who asked.")


class EnrolmentFilter(DomainFilter):
    kind = filters.ChoiceFilter(choices=Kind.choices)
    state = filters.ChoiceFilter(choices=Enrolment.State.choices)


class EnrolmentViewSet(ReadViewSet):
    """Requests to take part. Deciding one needs the scope `revoke`."""

    serializer_class = EnrolmentSerializer
    filterset_class = EnrolmentFilter
    write_scope = "revoke"
    versioned_actions = ("confirm", "refuse")

    def rows(self) -> QuerySet[Any]:
        return selectors.enrolments(self.request.user)

    def domain_of(self, row: Enrolment) -> Domain | None:
        return row.domain

    @extend_schema(request=ConfirmEnrolmentSerializer, responses=EnrolmentSerializer, filters=False)
    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def confirm(self, request: Request, pk: str | None = None) -> Response:
        """Say that the machine shows this fingerprint: its keys count from now on."""
        row = self.get_object()
        serializer = ConfirmEnrolmentSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        done = services.confirm_enrolment(
            actor=request.user,
            enrolment=row,
            expected_version=expected_version(request),
            **serializer.validated_data,
        )
        return self.shown(done)

    @extend_schema(request=RefuseEnrolmentSerializer, responses=EnrolmentSerializer, filters=False)
    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def refuse(self, request: Request, pk: str | None = None) -> Response:
        """Say no: these keys never count."""
        row = self.get_object()
        serializer = RefuseEnrolmentSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        done = services.refuse_enrolment(
            actor=request.user,
            enrolment=row,
            expected_version=expected_version(request),
            **serializer.validated_data,
        )
        return self.shown(done)


class TlsCertificateSerializer(VersionedSerializer):
    """A certificate for TLS."""

    kind = serializers.CharField(source="enrolment.kind", read_only=True)
    name = serializers.CharField(source="enrolment.name", read_only=True)
    domain = serializers.CharField(source="enrolment.domain.name", read_only=True, default=None)
    enrolment = serializers.IntegerField(source="enrolment_id", read_only=True)
    serial = serializers.CharField(read_only=True, help_text="Hexadecimal.")
    subject = serializers.CharField(read_only=True)
    begins = serializers.DateTimeField(read_only=True)
    ends = serializers.DateTimeField(read_only=True)
    pem = serializers.CharField(read_only=True)


class TlsCertificateFilter(filters.FilterSet):
    domain = filters.CharFilter(
        field_name="enrolment__domain__name", help_text="Name of the domain."
    )
    name = filters.CharFilter(field_name="enrolment__name", help_text="An agent's or a handle.")
    banned = filters.BooleanFilter(
        method="filter_banned",
        help_text="Those that would hold by their dates and that nobody may accept.",
    )

    def filter_banned(self, rows: QuerySet[Any], _name: str, wanted: bool) -> QuerySet[Any]:
        found = selectors.banned(rows)
        return found if wanted else rows.exclude(pk__in=found.values("pk"))


class TlsCertificateViewSet(ReadViewSet):
    """Certificates that agents and clients show to brokers."""

    serializer_class = TlsCertificateSerializer
    filterset_class = TlsCertificateFilter

    def rows(self) -> QuerySet[Any]:
        return selectors.certificates(self.request.user)

    def domain_of(self, row: Certificate) -> Domain | None:
        return row.enrolment.domain


# -- what machines send ----------------------------------------------------------------------


class BytesField(serializers.CharField):
    """Base64url without padding."""

    def to_internal_value(self, data: Any) -> Any:
        text = super().to_internal_value(data)
        try:
            return unb64(text)
        except DecodeError:
            raise serializers.ValidationError("base64url without padding is expected") from None

    def to_representation(self, value: Any) -> str:
        return b64(bytes(value))


class SignedSerializer(StrictSerializer):
    """A record of enrolment and the signature over it, by the key that is registered or named."""

    record = BytesField(max_length=65_536, help_text="Canonical JSON, base64url.")
    signature = BytesField(max_length=128)


class AskToEnrolSerializer(SignedSerializer):
    """A request, and the token that it spends."""

    token = serializers.CharField(max_length=128)


class TakenSerializer(serializers.Serializer[Any]):
    """A request was taken; it waits for a decision."""

    enrolment = serializers.CharField()
    offer = BytesField(help_text="Whom to trust and where brokers stand; canonical JSON.")
    challenge = BytesField(help_text="Sealed to the request's key.")
    expires = serializers.DateTimeField()
    retry_after = serializers.IntegerField(help_text="Seconds.")


class PlaceSerializer(serializers.Serializer[Any]):
    """What a confirmed enrolment gives."""

    kind = serializers.ChoiceField(Kind.choices)
    name = serializers.CharField()
    place = serializers.CharField(help_text="An agent's overlay, a client's domain.")
    certificate = serializers.CharField()
    serial = serializers.CharField()


class AnsweredSerializer(serializers.Serializer[Any]):
    """How far a request is."""

    state = serializers.ChoiceField(Enrolment.State.choices)
    reason = serializers.CharField()
    expires = serializers.DateTimeField()
    retry_after = serializers.IntegerField(help_text="Seconds.")
    place = PlaceSerializer(allow_null=True)


class RenewedSerializer(serializers.Serializer[Any]):
    """The certificate that follows."""

    certificate = serializers.CharField()
    serial = serializers.CharField()
    ends = serializers.DateTimeField()


class EnrolmentThrottle(AddressThrottle):
    """New requests are rare: whoever guesses tokens is slowed down."""

    scope = "enrolment"


class _FromMachines(CountedMixin, APIView):
    """Nobody is signed in here: a token or a signature says who asks."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    basename = "enrol"

    def read(self, kind: type[StrictSerializer], request: Request) -> dict[str, Any]:
        serializer = kind(data=request.data)
        serializer.is_valid(raise_exception=True)
        found: dict[str, Any] = serializer.validated_data
        return found

    @staticmethod
    def told(kind: type[serializers.Serializer[Any]], value: Any, code: int = 200) -> Response:
        return Response(kind(value).data, status=code, headers={"Cache-Control": "no-store"})


class EnrolView(_FromMachines):
    """Where agents and clients ask to take part."""

    throttle_classes = (EnrolmentThrottle, AddressThrottle)

    @extend_schema(
        operation_id="enrol_request",
        request=AskToEnrolSerializer,
        responses={201: TakenSerializer},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Ask to take part. The first request spends the token; sent again, it is the same one."""
        sent = self.read(AskToEnrolSerializer, request)
        asked = services.request_enrolment(
            secret=sent["token"], data=sent["record"], signature=sent["signature"]
        )
        row = asked.enrolment
        answer = {
            "enrolment": row.uid,
            "offer": row.offer,
            "challenge": asked.challenge,
            "expires": row.expires,
            "retry_after": ASK_AGAIN,
        }
        return self.told(TakenSerializer, answer, 201)


class EnrolQuestionView(_FromMachines):
    """Where they ask what became of it."""

    @extend_schema(
        operation_id="enrol_question",
        request=SignedSerializer,
        responses={200: AnsweredSerializer},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """How far a request is; who asks proves the keys that it named."""
        sent = self.read(SignedSerializer, request)
        told = services.ask(data=sent["record"], signature=sent["signature"])
        row = told.enrolment
        answer = {
            "state": row.state,
            "reason": row.reason,
            "expires": row.expires,
            "retry_after": ASK_AGAIN,
            "place": told.place,
        }
        return self.told(AnsweredSerializer, answer)


class RenewView(_FromMachines):
    """Where they ask for the next certificate."""

    @extend_schema(
        operation_id="enrol_renew",
        request=SignedSerializer,
        responses={200: RenewedSerializer},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """The certificate that follows one that still holds; sent again, the same one."""
        sent = self.read(SignedSerializer, request)
        row = services.renew(data=sent["record"], signature=sent["signature"])
        answer = {"certificate": row.pem, "serial": row.serial, "ends": row.ends}
        return self.told(RenewedSerializer, answer)
