"""An address of the API that fails on purpose."""

from __future__ import annotations

from typing import Any

from django.urls import path
from rest_framework.request import Request
from rest_framework.views import APIView


class Broken(APIView):
    def get(self, request: Request, **_kwargs: Any) -> None:
        raise RuntimeError("the secret is 42")


urlpatterns = [path("api/v1/broken", Broken.as_view())]
