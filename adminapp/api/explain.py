"""Why a principal may do something, and what is missing where it may not."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from adminapp.api.access import REFUSED
from adminapp.api.base import StrictSerializer
from adminapp.api.fields import DomainField
from adminapp.api.idempotency import OnceMixin
from adminapp.api.throttling import CountedMixin
from adminapp.core.errors import Invalid, Problem
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain, Principal
from adminapp.policies.candidates import Question
from adminapp.policies.explain import Explanation, contrast, explain
from adminapp.policies.models import Policy
from policyengine.attributes import unknown

_NAMES = 1000  # names of principals among which the nearest is looked for


class ChainLineSerializer(serializers.Serializer[Any]):
    """One line of a chain."""

    depth = serializers.IntegerField(help_text="It is a reason for the last line less deep.")
    kind = serializers.CharField()
    text = serializers.CharField()
    name = serializers.CharField(help_text="Of the policy, role, appointment, agreement or key.")


class RemedyStepSerializer(serializers.Serializer[Any]):
    """One thing that would have to be done."""

    kind = serializers.CharField()
    name = serializers.CharField()
    value = serializers.JSONField(allow_null=True)
    text = serializers.CharField()


class LackSerializer(serializers.Serializer[Any]):
    """A condition that is not met."""

    kind = serializers.CharField()
    text = serializers.CharField()
    steps = RemedyStepSerializer(many=True, help_text="None where nothing helps.")


class WayToAccessSerializer(serializers.Serializer[Any]):
    """One way to be permitted, and what is missing for it."""

    policy = serializers.CharField()
    condition = serializers.CharField(help_text="On the event, in words; empty is always.")
    missing = LackSerializer(many=True)
    sufficient = serializers.BooleanField(help_text="Whether all the steps together would do.")


class ExplanationSerializer(serializers.Serializer[Explanation]):
    """The answer to a question."""

    domain = serializers.CharField(source="question.domain.name")
    principal = serializers.CharField(source="question.principal.name")
    action = serializers.ChoiceField(Policy.Action.choices, source="question.action")
    type = serializers.CharField(source="question.type")
    attribute = serializers.CharField(source="question.attribute", allow_null=True)
    at = serializers.DateTimeField(source="question.at")
    allowed = serializers.BooleanField()
    condition = serializers.CharField(help_text="On the event, in words; empty is always.")
    summary = serializers.CharField()
    chain = ChainLineSerializer(many=True)
    missing = LackSerializer(many=True, help_text="For the nearest way.")
    alternatives = WayToAccessSerializer(many=True, help_text="The nearest first.")


class ContrastSerializer(serializers.Serializer[Any]):
    """Why one principal may and another may not."""

    summary = serializers.CharField()
    differences = LackSerializer(many=True)
    first = ExplanationSerializer()
    second = ExplanationSerializer()


class WhySerializer(StrictSerializer):
    """A question of access."""

    domain = DomainField(help_text="Name of the domain whose events it is about.")
    principal = serializers.CharField(
        max_length=64, help_text="Its name, or its identifier where no principal has that name."
    )
    home = DomainField(
        required=False, help_text="Domain of the principal, where that is another one."
    )
    action = serializers.ChoiceField(Policy.Action.choices)
    type = serializers.CharField(max_length=64, help_text="Name of the event type.")
    attribute = serializers.CharField(
        max_length=64, required=False, help_text="Left out: the event as such."
    )
    at = serializers.DateTimeField(required=False, help_text="The moment; now if not.")


class WhyThisSerializer(WhySerializer):
    """A question about one event."""

    event = serializers.DictField(
        child=serializers.JSONField(), help_text="Values of the event by name of the attribute."
    )

    def validate_event(self, event: dict[str, Any]) -> dict[str, Any]:
        for name, value in event.items():
            if not isinstance(value, str | int | float | bool):
                raise serializers.ValidationError(
                    {name: ["this is text, a number or a truth value"]}
                )
        return event


class WhyNotSerializer(WhySerializer):
    """A question about two principals."""

    other = serializers.CharField(max_length=64, help_text="The other principal.")


class ExplainViewSet(OnceMixin, CountedMixin, GenericViewSet):
    """Why, and why not."""

    serializer_class = ExplanationSerializer
    pagination_class = None
    write_scope = "read"  # a question may be too long for an address; it changes nothing

    def rows(self) -> QuerySet[Domain]:
        """The domains that the caller may see."""
        return identity.domains(self.request.user)

    @extend_schema(
        parameters=[WhySerializer],
        responses={200: forced_singular_serializer(ExplanationSerializer), **REFUSED},
        filters=False,
    )
    def list(self, request: Request) -> Response:
        """Whether a principal may do something and why, or what is missing, the nearest first."""
        asked = _asked(WhySerializer, request, request.query_params.dict())
        return Response(ExplanationSerializer(_answer(asked)).data)

    @extend_schema(request=WhyThisSerializer, responses={200: ExplanationSerializer, **REFUSED})
    def create(self, request: Request) -> Response:
        """The same for one event, whose values are sent along."""
        asked = _asked(WhyThisSerializer, request, request.data)
        return Response(ExplanationSerializer(_answer(asked)).data)

    @extend_schema(
        parameters=[WhyNotSerializer], responses={200: ContrastSerializer, **REFUSED}, filters=False
    )
    @action(detail=False, methods=["get"], filter_backends=[])
    def contrast(self, request: Request) -> Response:
        """Why one principal may do something and another may not."""
        asked = _asked(WhyNotSerializer, request, request.query_params.dict())
        home = asked.get("home", asked["domain"])
        found = contrast(_question(asked), _principal(home, asked["other"], "/other"))
        return Response(ContrastSerializer(found).data)


def _asked(serializer: type[WhySerializer], request: Request, data: Any) -> dict[str, Any]:
    read = serializer(data=data, context={"request": request})
    read.is_valid(raise_exception=True)
    return dict(read.validated_data)


def _answer(asked: dict[str, Any]) -> Explanation:
    question = _question(asked)
    return explain(
        question.domain,
        question.principal,
        question.action,
        question.type,
        question.attribute,
        at=question.at,
        event=question.event,
    )


def _question(asked: dict[str, Any]) -> Question:
    return Question(
        asked["domain"],
        _principal(asked.get("home", asked["domain"]), asked["principal"], "/principal"),
        asked["action"],
        asked["type"],
        asked.get("attribute"),
        asked.get("at") or timezone.now(),
        asked.get("event"),
    )


def _principal(domain: Domain, named: str, pointer: str) -> Principal:
    """A principal by name, or by identifier.

    Raises:
        Invalid: the domain has no such principal.
    """
    rows = domain.principals.select_related("domain")
    found = rows.filter(name=named).first()
    if found is None and named.isdecimal() and len(named) < 19:
        found = rows.filter(pk=int(named)).first()
    if found is None:
        names = rows.order_by("name").values_list("name", flat=True)[:_NAMES]
        raise Invalid([Problem.from_input_error(unknown("principal", named, names), pointer)])
    return found
