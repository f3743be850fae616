"""The OpenAPI document and its pages."""

from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from adminapp.api.throttling import CountedMixin


class SchemaView(CountedMixin, SpectacularAPIView):
    """The OpenAPI document."""


class DocsView(CountedMixin, SpectacularSwaggerSplitView):
    """The document as pages; script and style are files, as the security policy asks."""

    template_name = "api/docs.html"
    url_name = "api:schema"
