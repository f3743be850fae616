"""Reading a caller's JSON: what is wrong, and where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from policyengine.attributes import shown, unknown
from policyengine.errors import InputError


def at(where: str, name: str) -> str:
    """Name a field of an object: `subscription.filters`."""
    return f"{where}.{name[:100]}"


def invalid(where: str, problem: str) -> InputError:
    """Make the error for a value of the wrong shape."""
    return InputError("invalid", f"{shown(where)} {problem}", where=where)


@contextmanager
def placed(where: str) -> Iterator[None]:
    """Give errors from inside the name of the place; all else about them stays."""
    try:
        yield
    except InputError as error:
        raise InputError(
            error.kind, error.message, at=error.at, where=where, suggestion=error.suggestion
        ) from error


def as_object(
    obj: object,
    where: str,
    *,
    required: Sequence[str] | None = None,
    optional: Sequence[str] = (),
) -> Mapping[str, object]:
    """Check that a value is an object with text keys.

    Args:
        obj: the value.
        where: its name.
        required: fields that it must have; None when its keys are free.
        optional: fields that it may have beside them.

    Raises:
        InputError: `invalid` for another shape or a missing field, `unknown` for a
            field that does not exist.
    """
    if not isinstance(obj, Mapping) or not all(isinstance(key, str) for key in obj):
        raise invalid(where, "is an object")
    if required is not None:
        known = (*required, *optional)
        for key in obj:
            if key not in known:
                raise unknown(f"field of `{where}`", key, known, where=at(where, key))
        for key in required:
            if key not in obj:
                raise InputError(
                    "invalid", f"{shown(where)} has no {shown(key)}", where=at(where, key)
                )
    return obj


def as_list(obj: object, where: str, *, limit: int | None = None) -> Sequence[object]:
    """Check that a value is a list.

    Args:
        obj: the value.
        where: its name.
        limit: most items; None is no bound.

    Raises:
        InputError: `invalid`, or `too-large` beyond the limit.
    """
    if not isinstance(obj, list | tuple):
        raise invalid(where, "is a list")
    if limit is not None:
        bounded(len(obj), limit, where)
    return obj


def bounded(size: int, limit: int, where: str) -> None:
    """Check how many things there are.

    Raises:
        InputError: `too-large` beyond the limit.
    """
    if size > limit:
        raise InputError("too-large", f"{shown(where)} has over {limit} entries", where=where)


def as_text(obj: object, where: str) -> str:
    """Check that a value is text.

    Raises:
        InputError: `invalid`.
    """
    if not isinstance(obj, str):
        raise invalid(where, "is text")
    return obj


def as_texts(obj: object, where: str) -> tuple[str, ...]:
    """Check that a value is a list of texts, none of them twice.

    Raises:
        InputError: `invalid`.
    """
    texts = tuple(
        as_text(item, f"{where}[{number}]") for number, item in enumerate(as_list(obj, where))
    )
    if len(set(texts)) != len(texts):
        raise invalid(where, "names something twice")
    return texts
