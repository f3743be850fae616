"""Taking part from a shell: events as lines of JSON, published and received."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NoReturn

from brokers.client import (
    BadRequest,
    BufferFull,
    ClientError,
    Event,
    Handle,
    NotReady,
    ProfileError,
    Published,
    Publisher,
    Refused,
    Subscriber,
    TimedOut,
)
from brokers.policyctl.errors import Exit, Stop
from brokers.policyctl.output import Output
from policyengine.attributes import Value
from policyengine.errors import InputError, PortcullisError

PROFILE = "PORTCULLIS_PROFILE"
MAX_LINE = 1024 * 1024
_EVENT = frozenset({"type", "attributes"})
_WORST = (Exit.ERROR, Exit.REFUSED, Exit.UNREACHABLE)


@dataclass(frozen=True)
class Line:
    """An event as it was read.

    Args:
        number: of its line, from 1.
        type: its event type.
        attributes: name -> value.
    """

    number: int
    type: str
    attributes: Mapping[str, Value]


# reading


def read_event(number: int, text: str, event_type: str | None) -> Line:
    """An event from a line of JSON.

    Args:
        number: of the line, from 1.
        text: `{"type": ..., "attributes": {...}}`; the attributes alone with an event type.
        event_type: of every line, or None where each says it.

    Raises:
        InputError: it is none, with what is wrong.
    """
    document = _document(text)
    if event_type is None:
        if set(document) != _EVENT or not isinstance(document["type"], str):
            raise InputError("invalid", 'needs exactly "type" and "attributes", or give --type')
        event_type, document = document["type"], document["attributes"]
    if not isinstance(document, dict):
        raise InputError("invalid", "attributes are an object of names and values")
    for name, value in document.items():
        if not isinstance(value, str | int | float | bool):
            raise InputError("invalid", f"`{name}` is no text, number or truth value")
    return Line(number, event_type, document)


def _document(text: str) -> dict[str, Any]:
    if len(text) > MAX_LINE:
        raise InputError("invalid", f"is longer than {MAX_LINE} characters")
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError("invalid", f"is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError("invalid", "is no JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"`{text}` is no number")


def _lines(stream: IO[str]) -> Iterator[tuple[int, str]]:
    number = 0
    while text := stream.readline(MAX_LINE + 2):
        number += 1
        rest = text
        while len(rest) == MAX_LINE + 2 and not rest.endswith("\n"):
            rest = stream.readline(MAX_LINE + 2)  # of a line that is refused
        if text.strip():
            yield number, text.rstrip("\r\n")


@contextmanager
def _input(file: Path | None) -> Iterator[IO[str]]:
    if file is None or str(file) == "-":
        yield sys.stdin
        return
    try:
        opened = file.open(encoding="utf-8")
    except OSError as error:
        raise Stop(Exit.ERROR, f"{file} cannot be read: {error.strerror}") from None
    with opened:
        yield opened


# telling


@dataclass
class _Account:
    """Tells the result of each line, and counts them; used by several threads."""

    output: Output
    show: Callable[[int], None]
    counts: Counter[Exit] = field(default_factory=Counter)
    gone: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def tell(self, code: Exit, **result: Any) -> None:
        with self.lock:
            self.counts[code] += 1
            try:
                self.output.line(result)
            except OSError:
                self.gone = True
            self.show(sum(self.counts.values()))

    def failed(self, number: int, error: Exception, **more: Any) -> None:
        code, reason, message = _why(error)
        self.tell(code, line=number, **more, accepted=False, reason=reason, message=message)

    def check(self) -> None:
        """Raises BrokenPipeError once nobody reads results any more."""
        if self.gone:
            raise BrokenPipeError

    @property
    def code(self) -> Exit:
        return next((code for code in _WORST if self.counts[code]), Exit.OK)


def _why(error: Exception) -> tuple[Exit, str, str]:
    if isinstance(error, BadRequest):
        return Exit.ERROR, error.reason, error.message
    if isinstance(error, TimedOut | NotReady):
        return Exit.UNREACHABLE, error.reason, error.message
    if isinstance(error, Refused):
        return Exit.REFUSED, error.reason, error.message
    if isinstance(error, InputError):
        return Exit.ERROR, "malformed", str(error)
    return Exit.ERROR, "failed", "the event could not be made ready to be sent"


# publishing


def publish(output: Output, args: argparse.Namespace) -> Exit:
    """Publish events: one JSON object a line in, one line with the result of each out."""
    with ExitStack() as stack:
        stream = stack.enter_context(_input(args.file))
        publisher = stack.enter_context(open_client(Publisher, args))
        show = stack.enter_context(output.progress("published", lines=True))
        account = _Account(output, show)
        try:
            (_keep if args.durable else _send)(publisher, account, stream, args)
        except UnicodeDecodeError:
            raise Stop(Exit.ERROR, "the input is not UTF-8") from None
        account.check()
        return account.code


def _send(
    publisher: Publisher, account: _Account, stream: IO[str], args: argparse.Namespace
) -> None:
    wait_ready(publisher, args)
    # Held until decided: a handle that nobody holds is not sent again.
    under_way: dict[int, Handle] = {}
    for number, text in _lines(stream):
        account.check()
        try:
            event = read_event(number, text, args.type)
            handle = publisher.publish_nowait(
                event.type, event.attributes, timeout=args.wait, domain=args.domain
            )
        except BufferFull as error:
            raise Stop(Exit.UNREACHABLE, f"no answer: {error}") from None
        except (Refused, InputError) as error:
            account.failed(number, error)
            continue
        under_way[number] = handle
        handle.future.add_done_callback(_teller(account, under_way, number, handle.id))
    for number, handle in sorted(under_way.items()):
        try:
            handle.wait(args.wait)
        except TimedOut as error:
            if under_way.pop(number, None) is not None:
                account.failed(number, error, id=handle.id)
        except PortcullisError:
            continue  # told by whoever decided it


def _teller(
    account: _Account, under_way: dict[int, Handle], number: int, name: str
) -> Callable[[Future[Published]], None]:
    def tell(done: Future[Published]) -> None:
        if done.cancelled() or under_way.pop(number, None) is None:
            return
        error = done.exception()
        if isinstance(error, Exception):
            account.failed(number, error, id=name)
        else:
            dropped = list(done.result().dropped)
            account.tell(Exit.OK, line=number, id=name, accepted=True, dropped=dropped)

    return tell


def _keep(
    publisher: Publisher, account: _Account, stream: IO[str], args: argparse.Namespace
) -> None:
    """Each event is on disk before its result is told; then they are sent as far as possible."""
    for number, text in _lines(stream):
        account.check()
        try:
            event = read_event(number, text, args.type)
            name = _enqueue(publisher, event, args)
        except (Refused, InputError) as error:
            account.failed(number, error)
        else:
            account.tell(Exit.OK, line=number, id=name, kept=True)
    sent = publisher.flush(args.wait)
    for one in publisher.refused():
        code, _, _ = _why(one.error)
        account.tell(code, id=one.id, accepted=False, reason=one.reason, message=one.message)
        account.check()
        publisher.forget_refused(one.id)
    if not sent:
        raise Stop(
            Exit.UNREACHABLE,
            f"{publisher.waiting} events wait on disk; the next `publish --durable` sends them",
        )


def _enqueue(publisher: Publisher, event: Line, args: argparse.Namespace) -> str:
    while True:
        try:
            return publisher.enqueue(event.type, event.attributes, domain=args.domain)
        except BufferFull as error:
            if not publisher.flush(args.wait):
                raise Stop(Exit.UNREACHABLE, f"nothing more can be kept: {error}") from None


# receiving


def subscribe(output: Output, args: argparse.Namespace) -> Exit:
    """Receive events, one JSON object a line, until --count, --idle, Ctrl-C or SIGTERM."""
    done = 0
    with ExitStack() as stack:
        stack.enter_context(_ended_by_sigterm())
        subscriber = stack.enter_context(open_client(Subscriber, args))
        wait_ready(subscriber, args)
        name = _subscribe(subscriber, args)
        show = stack.enter_context(output.progress("received", total=args.count, lines=True))
        try:
            while args.count is None or done < args.count:
                event = subscriber.next_event(args.idle)
                if event is None:
                    break
                output.line(_shown(event))
                # Written first: whoever reads may see an event twice, and misses none.
                subscriber.finish()
                done += 1
                show(done)
        except KeyboardInterrupt:
            subscriber.give_back()
        if args.leave:
            _leave(subscriber, name, args)
    return Exit.OK if args.count is None or done >= args.count else Exit.FEWER


def _subscribe(subscriber: Subscriber, args: argparse.Namespace) -> str:
    try:
        return subscriber.subscribe(args.type, args.filter, timeout=args.wait, domain=args.domain)
    except (Refused, InputError) as error:
        stop_with(error)


def _leave(subscriber: Subscriber, name: str, args: argparse.Namespace) -> None:
    try:
        subscriber.unsubscribe(name, timeout=args.wait)
    except Refused as error:
        stop_with(error)


def _shown(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        "attributes": dict(event.attributes),
        "withheld": dict(event.withheld),
        "publication": event.publication,
        "publisher": event.publisher,
        "domain": event.domain,
    }


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does; only the main thread may say so."""

    def end(_number: int, _frame: object) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


# both


@contextmanager
def open_client(
    kind: type[Publisher] | type[Subscriber], args: argparse.Namespace
) -> Iterator[Any]:
    """A publisher or subscriber of the profile that the command line or the environment names.

    Raises:
        Stop: there is none, it is wrong, or the client's library gave up.
    """
    folder = args.profile or args.environment.get(PROFILE)
    if not folder:
        raise Stop(Exit.ERROR, f"name the client's profile folder with --profile or {PROFILE}")
    if args.output == "yaml":
        raise Stop(Exit.ERROR, "events are lines of JSON, not YAML")
    try:
        opened = kind(folder)
    except ProfileError as error:
        raise Stop(Exit.ERROR, str(error)) from None
    with opened as client:
        try:
            yield client
        except ClientError as error:
            raise Stop(Exit.ERROR, str(error)) from None


def wait_ready(client: Publisher | Subscriber, args: argparse.Namespace) -> None:
    """Wait until the client may take part.

    Raises:
        Stop: it may not in time.
    """
    try:
        client.wait_ready(args.wait, domain=args.domain)
    except Refused as error:
        stop_with(error)


def stop_with(error: Refused | InputError) -> NoReturn:
    """End with the exit code and the words of a refusal."""
    code, reason, message = _why(error)
    raise Stop(code, f"{reason}: {message}") from None
