"""`python -m torchstray`."""

from __future__ import annotations

import sys

from torchstray.cli import main

if __name__ == "__main__":
    sys.exit(main())
