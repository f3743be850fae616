"""Lists come a page at a time, by cursor: pages stay right while rows come and go."""

from rest_framework.pagination import CursorPagination


class Cursor(CursorPagination):
    ordering = "id"
    page_size = 50
    page_size_query_param = "limit"
    max_page_size = 200
