from __future__ import annotations

import ast

import pytest

from torchstray.text.source import Source, UnreadableText, decode


@pytest.mark.parametrize(
    ("data", "text", "encoding", "bom"),
    [
        (b"", "", "utf-8", False),
        ("é = 1\r\n\ry".encode(), "é = 1\r\n\ry", "utf-8", False),
        (b"\xef\xbb\xbfx = 1\n", "x = 1\n", "utf-8", True),
        (b"\xef\xbb\xbf# coding: utf-8\n", "# coding: utf-8\n", "utf-8", True),
        (b"# coding: utf-8-sig\n\xc3\xa9", "# coding: utf-8-sig\né", "utf-8", False),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "# -*- coding: latin-1 -*-\nx = 'é'\n", "iso8859-1", False),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n'\x80'", None, "cp1252", False),
        (b"\x0c# coding: latin-1\n\xe9", "\x0c# coding: latin-1\né", "iso8859-1", False),
        (b"\n# coding: latin-1\n'\xe9'", "\n# coding: latin-1\n'é'", "iso8859-1", False),
        (b"x = 1\n# coding: latin-1\n", "x = 1\n# coding: latin-1\n", "utf-8", False),
        (b"\n\n# coding: latin-1\n", "\n\n# coding: latin-1\n", "utf-8", False),
        (b"x = 'coding: latin-1'\n", "x = 'coding: latin-1'\n", "utf-8", False),
    ],
)
def test_decodes_and_writes_back_the_same_bytes(data: bytes, text: str | None, encoding: str, bom: bool) -> None:
    source = decode(data)
    assert (source.encoding, source.bom) == (encoding, bom)
    assert text is None or source.text == text
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"x = '\xff'\n", "is not UTF-8: byte 0xff at offset 5"),
        (b"\xef\xbb\xbf\xff", "is not UTF-8: byte 0xff at offset 3"),
        (b"x = 1\n\x00", "contains a NUL byte at offset 6"),
        ("x = 1\n".encode("utf-16"), "is UTF-16"),
        (b"\xff\xfe\0\0" + "x = 1\n".encode("utf-32-le"), "is UTF-32"),
        (b"\0\0\xfe\xff" + "x = 1\n".encode("utf-32-be"), "is UTF-32"),
        ("x = 1\n".encode("utf-16-be"), "contains a NUL byte at offset 0"),
        (b"# coding: nonsense\n", "declares the encoding 'nonsense'"),
        (b"# coding: rot13\nk = 1\n", "declares the encoding 'rot13'"),
        (b"# coding: utf-16\nk = 1\n", "declares the encoding 'utf-16'"),
        (b"# coding: ascii\n'\xe9'", "declares ascii but is not: byte 0xe9 at offset 17"),
        (b"\xef\xbb\xbf# coding: latin-1\n", "byte order mark but declares iso8859-1"),
    ],
)
def test_says_why_bytes_are_no_python_source(data: bytes, message: str) -> None:
    with pytest.raises(UnreadableText, match=message):
        decode(data)
    with pytest.raises((SyntaxError, ValueError)):
        ast.parse(data)


def test_a_character_that_the_encoding_lacks_is_named() -> None:
    with pytest.raises(UnreadableText, match=r"iso8859-1, which has no character '→' \(U\+2192\)"):
        decode(b"# coding: latin-1\n").encode("# coding: latin-1\n# →")


def test_a_changed_text_keeps_mark_and_encoding() -> None:
    assert Source("", "utf-8", bom=True).encode("é") == b"\xef\xbb\xbf\xc3\xa9"


def test_a_codec_that_does_not_say_where_it_fails() -> None:
    source = decode(b"# coding: idna\n" + b"x = 1\n" * 20)
    with pytest.raises(UnreadableText, match="is written in idna, which cannot write the new text"):
        source.encode(source.text)
