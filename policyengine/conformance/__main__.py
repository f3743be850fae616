"""The command itself: the only place of the engine that touches streams."""

from __future__ import annotations

import os
import sys
from fcntl import F_DUPFD_CLOEXEC, fcntl
from typing import BinaryIO, Final

from policyengine.conformance.dispatch import Responder
from policyengine.conformance.reader import lines

_INTERRUPTED: Final = 130
_GONE: Final = 1


def main() -> int:
    """Answer standard input line by line until it ends.

    Returns:
        0, or 1 when the reader of the answers went away, or 130 after an interrupt.
    """
    with _own_output() as answers:
        try:
            serve(sys.stdin.buffer, answers)
        except BrokenPipeError:
            # nobody reads any more; what is left in the buffer goes nowhere, without complaint
            _discard(answers.fileno())
            return _GONE
        except KeyboardInterrupt:
            return _INTERRUPTED
    return 0


def serve(questions: BinaryIO, answers: BinaryIO) -> None:
    """Answer each line as soon as it is read.

    Args:
        questions: lines of JSON.
        answers: gets one line for each, in order, flushed.
    """
    responder = Responder()
    for line in lines(questions):
        answers.write(responder.answer(line) + b"\n")
        answers.flush()


def _own_output() -> BinaryIO:
    """Keep standard output for answers alone; whatever a library prints goes to the errors."""
    # above the standard streams: one of them may be closed, and its number free
    answers = os.fdopen(fcntl(1, F_DUPFD_CLOEXEC, 3), "wb")
    try:
        os.dup2(2, 1)
    except OSError:  # there is no standard error
        _discard(1)
    return answers


def _discard(descriptor: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, descriptor)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
