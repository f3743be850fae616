"""What an agent holds of each domain, told from what it signed: who lies or is silent shows."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from adminapp.distribution import selectors

STATES = ("current", "behind", "held", "rejected", "silent", "contradicts")


class AgentDomainSerializer(serializers.Serializer[Any]):
    """One agent and one domain that it serves."""

    domain = serializers.CharField()
    state = serializers.ChoiceField(
        STATES,
        help_text="`silent`: never heard of, or its lease has ended, so it delivers nothing. "
        "`contradicts`: it claims to hold what was never built for it. `held`: its stage of a "
        "rollout is not in force yet.",
    )
    revision = serializers.IntegerField(help_text="What it says it applied; 0 is nothing.")
    target = serializers.IntegerField(help_text="The newest revision of the domain.")
    reason = serializers.CharField(help_text="Why it refused the last bundle, or empty.")
    notice = serializers.IntegerField(help_text="The last notice that it applied.")
    target_notice = serializers.IntegerField(help_text="The last one that was written for it.")
    leased = serializers.BooleanField()
    leased_until = serializers.DateTimeField(allow_null=True)
    last_seen = serializers.DateTimeField(allow_null=True)
    root = serializers.IntegerField(help_text="The root of trust that it trusts; 0: not told.")


class Standing:
    """How an agent stands in the domains that the caller may see."""

    @extend_schema(responses=AgentDomainSerializer(many=True), filters=False)
    @action(detail=True, methods=["get"], pagination_class=None, filter_backends=[])
    def standing(self: Any, request: Request, **_: Any) -> Response:
        """What it holds of each domain, from signed acknowledgements and lease requests alone."""
        found = selectors.standing_of(self.get_object(), request.user)
        return Response(AgentDomainSerializer(found, many=True).data)
