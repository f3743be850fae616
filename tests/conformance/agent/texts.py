"""Ways to write a record that no honest signer uses: each must be refused, well signed or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from policyengine.primitives.canonical import dumps

Text = Callable[[bytes], bytes]


def member(name: str, raw: bytes) -> Text:
    """A member's value replaced by a text."""

    def change(text: bytes) -> bytes:
        document: dict[str, Any] = json.loads(text)
        marker = "\x00marker"
        written = json.dumps(
            document | {name: marker}, sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        return written.encode().replace(json.dumps(marker).encode(), raw)

    return change


def _twice(text: bytes) -> bytes:
    name, value = next(iter(json.loads(text).items()))
    return b"{" + dumps({name: value})[1:-1] + b"," + text[1:]


def _unsorted(text: bytes) -> bytes:
    turned = _turned(json.loads(text))
    return json.dumps(turned, separators=(",", ":"), ensure_ascii=False).encode()


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _turned(value[name]) for name in sorted(value, reverse=True)}
    return [_turned(one) for one in value] if isinstance(value, list) else value


def _lacking(text: bytes) -> bytes:
    document: dict[str, Any] = json.loads(text)
    del document[next(iter(document))]
    return dumps(document)


EVERYWHERE: dict[str, Text] = {
    "a member twice": _twice,
    "a space after a colon": lambda text: text.replace(b":", b": ", 1),
    "members out of order": _unsorted,
    "a newline at the end": lambda text: text + b"\n",
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "a letter escaped": lambda text: text.replace(b'{"a', b'{"\\u0061', 1),
    "an unknown member": lambda text: dumps({**json.loads(text), "unknown": 1}),
    "a missing member": _lacking,
    "bytes that are no UTF-8": lambda text: text[:-1] + b',"z":"\xff"}',
    "nested too deep": lambda text: text[:-1] + b',"z":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a number of 5000 digits": lambda text: text[:-1] + b',"z":' + b"9" * 5000 + b"}",
    "not a number": lambda text: text[:-1] + b',"z":NaN}',
    "null": lambda _: b"null",
    "a list": lambda text: b"[" + text + b"]",
    "nothing": lambda _: b"",
}
"""Name -> how a record's canonical text is changed."""

NUMBERS: dict[str, bytes] = {
    "negative": b"-1",
    "a float": b"6.0",
    "an exponent": b"6e0",
    "with a zero before it": b"06",
    "text": b'"6"',
    "true": b"true",
    "beyond 63 bits": str(2**63).encode(),
    "null": b"null",
}
"""Name -> what stands where a whole number belongs."""
