"""`python -m brokers.policyctl`."""

from __future__ import annotations

import sys

from brokers.policyctl.main import main

if __name__ == "__main__":
    sys.exit(main())
