"""Looks for texts in captured bytes: plain, in other encodings, and however they may be cut."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

LONG = 6
"""A text of so many bytes does not turn up in a few megabytes of ciphertext by chance."""

PROTOCOL = (b"ack:client-individual", b"ack:client\n")
"""Words that STOMP itself puts into its headers; they are nobody's secret."""

_ALARM = 1e-9
_WINDOW = 3
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


@dataclass(frozen=True)
class Finding:
    """A text that stands in the capture; `times` it was seen where chance explains `expected`."""

    text: str
    form: str
    times: int
    expected: float


@dataclass(frozen=True)
class Search:
    """What a search went through and what it found."""

    files: int
    size: int
    texts: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Needle:
    """One form of a text, as bytes; `word` asks that no letter stands beside it."""

    text: str
    form: str
    raw: bytes
    word: bool = False


def search(folder: Path, texts: Iterable[str]) -> Search:
    """Look for every text in every file of `folder`.

    A text of LONG bytes or more is reported when it stands there at all: as it is (in any case of
    letters when longer still), in UTF-16, in hexadecimal or inside base64 at any of its three
    alignments. A shorter one turns up in ciphertext by itself, so it is reported when it stands
    there, as a word of its own, in quotation marks or after an equals sign, more often than
    chance explains (Poisson, one false alarm in 10^9).
    """
    wanted = sorted({text for text in texts if text})
    streams = [_without_protocol(path.read_bytes()) for path in sorted(folder.glob("*.bin"))]
    size = sum(map(len, streams))
    found = _long([text for text in wanted if _is_long(text)], streams)
    for text in wanted:
        if not _is_long(text):
            found.extend(_short(text, streams, size))
    found.sort(key=lambda finding: (finding.text, finding.form))
    return Search(len(streams), size, len(wanted), tuple(found))


def _without_protocol(stream: bytes) -> bytes:
    for word in PROTOCOL:
        stream = stream.replace(word, b"ack:")
    return stream


def _is_long(text: str) -> bool:
    return len(text.encode()) >= LONG


# -- long texts: all of them in one pass -------------------------------------------------------


def _long(texts: Iterable[str], streams: Iterable[bytes]) -> list[Finding]:
    exact, folded = _Index(), _Index()
    for text in texts:
        for needle in _forms(text):
            exact.add(needle)
        # Any case of letters, where that still cannot come about by chance.
        if len(text) > LONG + 1:
            folded.add(Needle(text, "plain", text.encode().lower(), text.isalpha()))
        else:
            exact.add(Needle(text, "plain", text.encode(), text.isalpha()))
    counts: Counter[tuple[str, str]] = Counter()
    for stream in streams:
        counts.update(exact.found_in(stream))
        counts.update(folded.found_in(stream.lower()))
    return [Finding(text, form, times, 0.0) for (text, form), times in counts.items()]


def _forms(text: str) -> Iterator[Needle]:
    raw = text.encode()
    yield Needle(text, "utf-16", text.encode("utf-16-le"))
    yield Needle(text, "hexadecimal", raw.hex().encode())
    for shift in range(3):
        inner = _inside_base64(raw, shift)
        if len(inner) >= LONG:
            yield Needle(text, f"base64 at {shift}", inner)
            other = inner.translate(bytes.maketrans(b"+/", b"-_"))
            if other != inner:
                yield Needle(text, f"base64url at {shift}", other)


def _inside_base64(raw: bytes, shift: int) -> bytes:
    """The characters that `raw` surely becomes when `shift` unknown bytes stand before it."""
    coded = base64.b64encode(b"\0" * shift + raw)
    first = math.ceil(shift * 8 / 6)
    last = (shift + len(raw)) * 8 // 6
    return coded[first:last]


class _Index:
    """Needles by their first three bytes, so that one pass over a stream looks for all."""

    def __init__(self) -> None:
        self._needles: defaultdict[int, list[Needle]] = defaultdict(list)
        self._begins = np.zeros(1 << (8 * _WINDOW), dtype=bool)

    def add(self, needle: Needle) -> None:
        """Look for this one too."""
        place = int.from_bytes(needle.raw[:_WINDOW], "little")
        self._needles[place].append(needle)
        self._begins[place] = True

    def found_in(self, stream: bytes) -> Iterator[tuple[str, str]]:
        """(text, form) for every place where a needle stands."""
        if len(stream) < _WINDOW:
            return
        data = np.frombuffer(stream, dtype=np.uint8).astype(np.uint32)
        places = data[:-2] | data[1:-1] << 8 | data[2:] << 16
        for position in np.flatnonzero(self._begins[places]).tolist():
            for needle in self._needles[int(places[position])]:
                if stream.startswith(needle.raw, position) and _fits(needle, stream, position):
                    yield needle.text, needle.form


def _fits(needle: Needle, stream: bytes, position: int) -> bool:
    # Words stand inside others (`rating` in `operating`): only the word itself counts.
    if not needle.word:
        return True
    end = position + len(needle.raw)
    before = position > 0 and stream[position - 1] in _WORD
    return not before and not (end < len(stream) and stream[end] in _WORD)


# -- short texts: more often than by chance? ---------------------------------------------------


def _short(text: str, streams: list[bytes], size: int) -> Iterator[Finding]:
    raw = text.encode()
    for form, sought in (("plain", raw), ("quoted", b'"' + raw + b'"'), ("compared", b"==" + raw)):
        expected = size * 256.0 ** -len(sought)
        most = _likely_most(expected)
        times = sum(stream.count(sought) for stream in streams)
        if times > most and form == "plain":
            # Counting words is slow, counting bytes is not, and there are never more words.
            word = re.compile(rb"(?<![A-Za-z0-9_-])" + re.escape(raw) + rb"(?![A-Za-z0-9_-])")
            times = sum(len(word.findall(stream)) for stream in streams)
        if times > most:
            yield Finding(text, form, times, expected)


def _likely_most(mean: float) -> int:
    """The smallest count that a Poisson variable of this mean exceeds less often than _ALARM."""
    if mean > 500:
        return math.ceil(mean + 6.5 * math.sqrt(mean) + 10)
    term = total = math.exp(-mean)
    count = 0
    while 1.0 - total > _ALARM and count < 2000:
        count += 1
        term *= mean / count
        total += term
    return count
