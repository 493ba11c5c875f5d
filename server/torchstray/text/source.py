"""From the bytes of a file to its text, and back."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass

# PEP 263: a comment in one of the first two lines; the first may only be a comment or blank for the second to count.
_COOKIE = re.compile(rb"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
_FIRST_LINE_COOKIE = re.compile(rb"[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")


class UnreadableText(Exception):
    """Bytes that are no text, or text that its encoding cannot write. The message completes "this file ..."."""


@dataclass(frozen=True)
class Source:
    """A decoded file: its text without the byte order mark and with the line ends of the file, and how to write it."""

    text: str
    encoding: str
    bom: bool

    def encode(self, text: str) -> bytes:
        """Return the bytes of a changed text. Raises UnreadableText for a character that the encoding does not have."""
        try:
            data = text.encode(self.encoding)
        except UnicodeEncodeError as error:
            character = text[error.start]
            raise UnreadableText(
                f"is written in {self.encoding}, which has no character {character!r} (U+{ord(character):04X})"
            ) from None
        except UnicodeError:  # some codecs say no more than that
            raise UnreadableText(f"is written in {self.encoding}, which cannot write the new text") from None
        return codecs.BOM_UTF8 + data if self.bom else data


def decode(data: bytes) -> Source:
    """Decode a Python file as Python does: by its byte order mark, its encoding declaration (PEP 263), or as UTF-8.

    Raises UnreadableText for anything that Python would not read either.
    """
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise UnreadableText("is UTF-32, which Python does not read; save it as UTF-8")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnreadableText("is UTF-16, which Python does not read; save it as UTF-8")
    if (nul := data.find(0)) >= 0:
        raise UnreadableText(f"contains a NUL byte at offset {nul}, so it is not Python source")
    bom = data.startswith(codecs.BOM_UTF8)
    body = data[len(codecs.BOM_UTF8) :] if bom else data
    encoding = _encoding(body, bom)
    try:
        text = body.decode(encoding)
    except UnicodeDecodeError as error:
        offset = error.start + len(data) - len(body)
        reason = f"byte 0x{data[offset]:02x} at offset {offset}"
        if encoding == "utf-8":
            raise UnreadableText(
                f"is not UTF-8: {reason}; declare its encoding in a first line such as `# -*- coding: latin-1 -*-`"
            ) from None
        raise UnreadableText(f"declares {encoding} but is not: {reason}") from None
    except UnicodeError:  # some codecs do not say where
        raise UnreadableText(f"declares {encoding} but is not") from None
    return Source(text, encoding, bom)


def _encoding(body: bytes, bom: bool) -> str:
    declared = _FIRST_LINE_COOKIE.match(body) or _COOKIE.match(body)
    if declared is None:
        return "utf-8"
    name = declared[1].decode("ascii", "replace")
    try:
        encoding = codecs.lookup(name).name
        # The declaration itself was read as ASCII, and codecs such as rot13 or UTF-16 cannot be meant by it.
        if declared[0].decode(encoding) != declared[0].decode("ascii", "replace") and encoding != "utf-8-sig":
            raise LookupError
    except (LookupError, ValueError):
        raise UnreadableText(f"declares the encoding {name!r}, which Python does not read source in") from None
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    if bom and encoding != "utf-8":
        raise UnreadableText(f"starts with a UTF-8 byte order mark but declares {encoding}")
    return encoding
