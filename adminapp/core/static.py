"""Static files by WhiteNoise, also where the server is an asynchronous one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import IO, Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import FileResponse, HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware

_CHUNK = 256 * 1024


class StaticFiles(WhiteNoiseMiddleware):
    """Under ASGI Django would read a whole file into memory, and warn of it; this reads chunks."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> FileResponse:
        response = WhiteNoiseMiddleware.serve(static_file, request)
        file = response.file_to_stream
        if isinstance(request, ASGIRequest) and file is not None:
            response.streaming_content = _chunks(file)
        elif isinstance(request, ASGIRequest):
            response.streaming_content = _nothing()
        return response


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    read = sync_to_async(file.read, thread_sensitive=False)
    while chunk := await read(_CHUNK):
        yield chunk


async def _nothing() -> AsyncIterator[bytes]:
    """The body of an answer without one."""
    for chunk in ():
        yield chunk
