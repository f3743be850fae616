"""What answers where nothing else does."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from adminapp.api.throttling import CountedMixin


class Nowhere(CountedMixin, APIView):
    """An address of the API that does not exist: a problem, as everywhere."""

    @extend_schema(exclude=True)
    def dispatch(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFound
