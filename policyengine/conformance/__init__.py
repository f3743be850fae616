"""The engine behind one command: a line of JSON in, a line of JSON out.

`python -m policyengine.conformance` answers every line of its input, whatever the line
holds. `docs/conformance.md` has an example of each operation.
"""

from policyengine.conformance.dispatch import OPERATIONS, Operation, Responder
from policyengine.conformance.reader import MAX_LINE, Line, lines

__all__ = ["MAX_LINE", "OPERATIONS", "Line", "Operation", "Responder", "lines"]
