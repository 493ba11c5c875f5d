"""What lies outside the file that is checked."""

from __future__ import annotations


class Project:
    """The only reader of other files; for now it knows none."""
