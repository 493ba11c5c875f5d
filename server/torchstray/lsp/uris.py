"""Document URIs and the files they stand for."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

_DRIVE = re.compile(r"^(file:///)([A-Za-z])(?=:)")


def key(uri: str) -> str:
    """Return what is the same for all spellings of a document's URI: clients differ in what they escape, and in the
    case of a drive's letter."""
    return _DRIVE.sub(lambda match: match[1] + match[2].lower(), unquote(uri))


def path(uri: str) -> Path | None:
    """Return the file that a URI stands for; None for a document that is in no file yet, or a URI that is none."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file":
        return None
    place = url2pathname(parts.path)
    return Path(f"//{parts.netloc}{place}") if parts.netloc not in ("", "localhost") else Path(place)
