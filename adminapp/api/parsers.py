"""Reads bodies: JSON of a bounded size, and nothing that a database or a log cannot hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any

from django.conf import settings
from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser
from rest_framework.utils.json import strict_constant

from adminapp.api.refusals import TooLarge


class StrictJSONParser(JSONParser):
    """DRF's parser reads without end from the stream; this one stops."""

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise TooLarge
        try:
            text = raw.decode("utf-8")
            if "\x00" in text or "\\u0000" in text:
                raise ParseError("the body holds a null character")
            value = json.loads(text, parse_constant=strict_constant)
            if "\\ud" in text.lower():
                # Half of a surrogate pair is no character: refused by the codec, as a ValueError.
                json.dumps(value, ensure_ascii=False).encode("utf-8")
            return value
        except (ValueError, RecursionError) as error:
            raise ParseError(f"the body is no JSON: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} at character {error.pos}"
    if isinstance(error, RecursionError):
        return "it nests too deeply"
    return "it is not Unicode text, or a number is not finite"
