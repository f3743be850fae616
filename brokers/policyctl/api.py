"""The REST interface as commands see it: answers, pages, and problems as ends of the program."""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.http import Answer, Call, Progress, Query, Transport

YAML = "application/yaml"
PAGE = "200"
_CODES = {
    401: Exit.SIGNED_OUT,
    403: Exit.REFUSED,
    412: Exit.STALE,
    502: Exit.UNREACHABLE,
    503: Exit.UNREACHABLE,
    504: Exit.UNREACHABLE,
}

Files = Sequence[tuple[str, bytes]]


class Api:
    """Calls, and what their answers mean."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, path: str, query: Query = (), progress: Progress | None = None) -> Answer:
        """Read something.

        Raises:
            Stop: with the exit code of the problem.
        """
        return _checked(self._transport.send(Call("GET", path, query), progress))

    def pages(self, path: str, query: Query) -> Iterator[list[dict[str, Any]]]:
        """Read a list to its end, a page at a time."""
        size = () if any(name == "limit" for name, _ in query) else (("limit", PAGE),)
        asked: list[tuple[str, str]] = [*query, *size]
        while True:
            answer = self.get(path, asked).json()
            yield answer["results"]
            if not answer.get("next"):
                return
            asked = [*(each for each in asked if each[0] != "cursor"), _cursor(answer["next"])]

    def post(self, path: str, body: Mapping[str, Any], *, version: int | None = None) -> Answer:
        """Have something done; asked twice, the server does it once.

        Args:
            version: of the object, as it was read.

        Raises:
            Stop: with the exit code of the problem.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        data = json.dumps(dict(body)).encode()
        return _checked(self._transport.send(Call("POST", path, (), data, headers)))

    def post_files(self, path: str, files: Files, query: Query) -> Answer:
        """Send organisations as files; asked twice, the server does it once.

        Raises:
            Stop: with the exit code of the problem.
        """
        body, kind = _multipart(files)
        headers = {"Content-Type": kind, "Idempotency-Key": str(uuid.uuid4())}
        return _checked(self._transport.send(Call("POST", path, query, body, headers)))


def _cursor(following: str) -> tuple[str, str]:
    """Lists say the address of the next page, or its cursor alone."""
    query = dict(parse_qsl(urlsplit(following).query)) if "?" in following else {}
    return "cursor", query.get("cursor", following)


def _multipart(files: Files) -> tuple[bytes, str]:
    boundary = f"portcullis-{secrets.token_hex(16)}"
    parts = bytearray()
    for name, data in files:
        quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        parts += (
            f"--{boundary}\r\n"
            f'Content-Disposition: form-data; name="files"; filename="{quoted}"\r\n'
            f"Content-Type: {YAML}\r\n\r\n"
        ).encode()
        parts += data + b"\r\n"
    parts += f"--{boundary}--\r\n".encode()
    return bytes(parts), f"multipart/form-data; boundary={boundary}"


def _checked(answer: Answer) -> Answer:
    if answer.status < 300:
        return answer
    problem = _problem(answer)
    message = str(problem.get("detail") or problem.get("title") or f"status {answer.status}")
    details = [
        f"{each.get('pointer', '')}: {each.get('detail', '')}{_suggestion(each)}"
        for each in problem.get("errors", ())
        if isinstance(each, dict)
    ]
    if "changes" in problem:
        details += [
            f"{each['pointer']}: yours {_short(each['yours'])}, now {_short(each['theirs'])}"
            for each in problem["changes"]
        ]
    if answer.status == 429 and "retry-after" in answer.headers:
        details.append(f"try again in {answer.headers['retry-after']} s")
    if details and len(details) == len(problem.get("errors", ())):
        message = str(problem.get("title", message))
    raise Stop(_CODES.get(answer.status, Exit.ERROR), message, details)


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _suggestion(problem: Mapping[str, Any]) -> str:
    return f" (did you mean `{problem['suggestion']}`?)" if problem.get("suggestion") else ""


def _problem(answer: Answer) -> dict[str, Any]:
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
