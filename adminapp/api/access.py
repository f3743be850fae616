"""Who may do what: lists of access, and who reads and writes what by which policy."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from adminapp.api.base import Parameters, StrictSerializer
from adminapp.api.fields import DomainField
from adminapp.api.schema import PROBLEM, ProblemSerializer
from adminapp.api.throttling import CountedMixin
from adminapp.core.errors import Invalid, Problem
from adminapp.identity import selectors as identity
from adminapp.identity.models import Domain
from adminapp.policies import reach
from adminapp.policies.access import Access, right
from adminapp.policies.models import Policy
from adminapp.policies.reach import Reach
from adminapp.policies.ways import Grant, Group
from policyengine.attributes import unknown

_DOMAINS = 20  # domains that one page looks at, however few lines they have
REFUSED = {
    (400, PROBLEM): ProblemSerializer,
    (404, PROBLEM): ProblemSerializer,
}


class AccessSerializer(serializers.Serializer[Access]):
    """One thing that a principal may do."""

    domain = serializers.CharField(help_text="Whose principal it is.")
    principal = serializers.CharField()
    handle = serializers.CharField()
    action = serializers.ChoiceField(Policy.Action.choices)
    right = serializers.CharField(
        help_text="What that means for the attributes: `read`, `write`, or the action itself."
    )
    type = serializers.CharField()
    attributes = serializers.ListField(child=serializers.CharField())
    condition = serializers.CharField(help_text="On the event, in words; empty is always.")
    policies = serializers.ListField(
        child=serializers.CharField(), help_text="Each of them alone permits it."
    )
    agreement = serializers.CharField(
        help_text="That lets the principal in; empty for the domain's own."
    )


class AccessGroupTypeSerializer(serializers.Serializer[Any]):
    """What is permitted of one event type."""

    type = serializers.CharField()
    attributes = serializers.ListField(child=serializers.CharField())


class AccessGroupSerializer(serializers.Serializer[Any]):
    """Principals who may do the same by the same way of satisfying a policy."""

    policy = serializers.CharField()
    agreement = serializers.CharField(
        help_text="That lets them in; empty for the domain's own principals."
    )
    action = serializers.ChoiceField(Policy.Action.choices)
    right = serializers.CharField()
    who = serializers.CharField(help_text="What they have in common, in words.")
    roles = serializers.ListField(child=serializers.CharField(), help_text="Roles that they need.")
    principals = serializers.IntegerField(help_text="How many they are.")
    types = AccessGroupTypeSerializer(many=True)
    condition = serializers.CharField(help_text="On the event, in words; empty is always.")


class AccessPageSerializer(serializers.Serializer[Any]):
    next = serializers.CharField(
        allow_null=True, help_text="Send it as `cursor` for what follows; null is the end."
    )
    results = AccessSerializer(many=True)


class AccessGroupPageSerializer(serializers.Serializer[Any]):
    next = serializers.CharField(
        allow_null=True, help_text="Send it as `cursor` for what follows; null is the end."
    )
    results = AccessGroupSerializer(many=True)


class QuestionSerializer(StrictSerializer):
    """What lists may be narrowed to."""

    domain = DomainField(required=False, help_text="Name of the domain; all of one's own if not.")
    action = serializers.ChoiceField(Policy.Action.choices, required=False)
    type = serializers.CharField(max_length=64, required=False, help_text="Name of an event type.")
    attribute = serializers.CharField(
        max_length=64, required=False, help_text="Name of an attribute."
    )
    at = serializers.DateTimeField(required=False, help_text="The moment; now if not.")
    limit = serializers.IntegerField(required=False, min_value=1, max_value=200, default=50)
    cursor = serializers.CharField(max_length=4096, required=False)


class AccessQuestionSerializer(QuestionSerializer):
    principal = serializers.CharField(
        max_length=64, required=False, help_text="Name of a principal."
    )


class GroupQuestionSerializer(QuestionSerializer):
    domain = DomainField(help_text="Name of the domain.")


class AccessViewSet(CountedMixin, GenericViewSet):
    """Who may do what, now or at a date."""

    serializer_class = AccessSerializer
    pagination_class = None

    def rows(self) -> QuerySet[Domain]:
        """The domains that the caller may see."""
        return identity.domains(self.request.user).order_by("name")

    @extend_schema(
        parameters=[AccessQuestionSerializer],
        responses={200: forced_singular_serializer(AccessPageSerializer), **REFUSED},
        filters=False,
    )
    def list(self, request: Request) -> Response:
        """What principals may do, attribute by attribute, by domain and name.

        A page may hold fewer lines than its limit; the list ends where `next` is null.
        """
        asked = _asked(AccessQuestionSerializer, request)
        cursor = _cursor(asked, (str, int, str, str, str, str, str))
        domains = [asked["domain"]] if "domain" in asked else self._domains(cursor)
        found: list[Access] = []
        last: list[Any] | None = None
        for domain in domains[:_DOMAINS]:
            shown = list(islice(_lines(domain, asked, cursor), asked["limit"] - len(found)))
            found += [line for _, line in shown]
            if len(found) == asked["limit"]:
                last = shown[-1][0]
                break
        if last is None and len(domains) > _DOMAINS:
            last = [domains[_DOMAINS].name, 0, "", "", "", "", ""]
        return _page(AccessSerializer, found, last)

    def _domains(self, cursor: list[Any] | None) -> list[Domain]:
        found = self.rows()
        if cursor is not None:
            found = found.filter(name__gte=cursor[0])
        return list(found[: _DOMAINS + 1])

    @extend_schema(
        parameters=[GroupQuestionSerializer],
        responses={200: AccessGroupPageSerializer, **REFUSED},
        filters=False,
    )
    @action(detail=False, methods=["get"], filter_backends=[])
    def matrix(self, request: Request) -> Response:
        """Who reads and writes which attribute: principals together that have it in common."""
        asked = _asked(GroupQuestionSerializer, request)
        cursor = _cursor(asked, (int, str, int))
        state = reach.take(asked["domain"], at=asked.get("at"))
        _check(state, asked)
        named = {name: asked.get(name) for name in ("action", "type", "attribute")}
        rows = [row for part in state.parts for row in _numbered(part, part.groups(**named))]
        rows = [row for row in rows if cursor is None or row[0] > tuple(cursor)]
        shown = rows[: asked["limit"]]
        last = list(shown[-1][0]) if len(rows) > len(shown) else None
        return _page(AccessGroupSerializer, [_group(group, asked) for _, group in shown], last)


def _asked(serializer: type[QuestionSerializer], request: Request) -> dict[str, Any]:
    read = serializer(data=Parameters.of(request), context={"request": request})
    read.is_valid(raise_exception=True)
    return dict(read.validated_data)


def _lines(
    domain: Domain, asked: dict[str, Any], cursor: list[Any] | None
) -> Iterator[tuple[list[Any], Access]]:
    """What follows the cursor in one domain, each line with its place."""
    name = asked.get("principal")
    state = _state(domain, asked.get("at"), name)
    if "domain" in asked:
        _check(state, asked)
    begun = cursor is not None and cursor[0] == domain.name
    narrowed = [asked.get(each) for each in ("action", "type", "attribute")]
    for part in state.parts:
        start = None
        if begun and cursor is not None:
            if part.number < cursor[1]:
                continue
            start = cursor[2] if part.number == cursor[1] else None
        for line in part.effective(name, *narrowed, start=start):
            key = _key(domain, part, line)
            if cursor is None or not begun or key > cursor:
                yield key, line


def _state(domain: Domain, at: datetime | None, name: str | None) -> Reach:
    if name is None:
        return reach.take(domain, at=at)
    row = domain.principals.filter(name=name).first()
    return reach.take(domain, at=at, only=None if row is None else [row.pk])


def _check(state: Reach, asked: dict[str, Any]) -> None:
    """Raises Invalid for a type, attribute or principal that the domain does not have."""
    name, attribute, problems = asked.get("type"), asked.get("attribute"), []
    if name is not None and name not in state.types:
        error = unknown("event type", name, state.types)
        problems.append(Problem.from_input_error(error, "/type"))
    elif attribute is not None:
        among = state.types[name] if name else {each for k in state.types.values() for each in k}
        if attribute not in among:
            error = unknown("attribute", attribute, among)
            problems.append(Problem.from_input_error(error, "/attribute"))
    if problems:
        raise Invalid(problems)


def _key(domain: Domain, part: Reach, line: Access) -> list[Any]:
    return [
        domain.name,
        part.number,
        line.principal,
        line.action,
        line.type,
        line.condition,
        "\n".join(line.policies),
    ]


def _numbered(part: Reach, groups: Iterable[Group]) -> list[tuple[tuple[int, str, int], Group]]:
    """Groups by policy, those of one policy counted."""
    seen: dict[str, int] = {}
    rows = []
    for group in groups:
        name = group.grant.rule.policy
        seen[name] = seen.get(name, 0) + 1
        rows.append(((part.number, name, seen[name]), group))
    return sorted(rows, key=lambda row: row[0])


def _group(group: Group, asked: dict[str, Any]) -> dict[str, Any]:
    grant = group.grant
    return {
        "policy": grant.rule.policy,
        "agreement": group.agreement,
        "action": grant.rule.action,
        "right": right(grant.rule.action),
        "who": grant.who,
        "roles": list(grant.roles),
        "principals": group.principals,
        "types": _types(grant, asked.get("type"), asked.get("attribute")),
        "condition": grant.condition,
    }


def _types(grant: Grant, name: str | None, attribute: str | None) -> list[dict[str, Any]]:
    return [
        {"type": each, "attributes": [a for a in names if attribute in (None, a)]}
        for each, names in grant.types.items()
        if name in (None, each) and (attribute is None or attribute in names)
    ]


def _page(
    serializer: type[serializers.Serializer[Any]], rows: list[Any], last: list[Any] | None
) -> Response:
    return Response({"next": _written(last), "results": serializer(rows, many=True).data})


def _written(key: list[Any] | None) -> str | None:
    if key is None:
        return None
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode()


def _cursor(asked: dict[str, Any], shape: tuple[type, ...]) -> list[Any] | None:
    """Where the page before ended."""
    text = asked.get("cursor")
    if text is None:
        return None
    try:
        key = json.loads(base64.urlsafe_b64decode(text.encode()))
    except (binascii.Error, ValueError, RecursionError):
        key = None
    if not isinstance(key, list) or tuple(type(each) for each in key) != shape:
        raise Invalid.at("/cursor", "this is no cursor that was given here")
    return key
