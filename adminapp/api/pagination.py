"""Lists come a page at a time, by cursor: pages stay right while rows come and go."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from adminapp.core.errors import Invalid


class Cursor(CursorPagination):
    ordering = "id"
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 200

    def decode_cursor(self, request: Request) -> Any:
        """Where the page begins; a cursor that is not ours is a mistake of the caller's."""
        try:
            return super().decode_cursor(request)
        except NotFound as error:
            raise Invalid.at("/cursor", "this is no cursor of this list") from error

    def get_page_size(self, request: Request) -> int:
        """How many were asked for; anything but a number within the bounds is a mistake."""
        text = request.query_params.get(self.page_size_query_param)
        if text is None:
            return self.page_size
        known = text.isascii() and text.isdecimal() and len(text) <= len(str(self.max_page_size))
        if not known or not 1 <= int(text) <= self.max_page_size:
            raise Invalid.at("/limit", f"a page has 1 to {self.max_page_size} rows")
        return int(text)

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        parameters = super().get_schema_operation_parameters(view)
        for each in parameters:
            if each["name"] == self.page_size_query_param:
                each["schema"] |= {"minimum": 1, "maximum": self.max_page_size}
        return parameters
