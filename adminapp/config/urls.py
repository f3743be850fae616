"""Addresses of the control plane."""

from importlib.util import find_spec

from django.urls import include, path

from adminapp.api.metrics import metrics
from adminapp.core.views import health

urlpatterns = [
    path("health", health, name="health"),
    path("metrics", metrics, name="metrics"),
    path("api/v1/", include("adminapp.api.urls")),
]
if find_spec("adminapp.console.urls"):
    urlpatterns.append(path("", include("adminapp.console.urls")))
