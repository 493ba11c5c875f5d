from __future__ import annotations

import pytest

from torchstray.text.lines import Lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a\n", ["a", ""]),
        ("a\nb\r\nc\rd", ["a", "b", "c", "d"]),
        ("\r\r\n\n", ["", "", "", ""]),
        ("a\x0cb\x0bc\x85d\u2028e\u2029f\x1cg\n", ["a\x0cb\x0bc\x85d\u2028e\u2029f\x1cg", ""]),
    ],
)
def test_lines_end_at_lf_crlf_and_cr_only(text: str, lines: list[str]) -> None:
    found = Lines(text)
    assert [found.line(row) for row in range(1, len(found) + 1)] == lines


def test_every_offset_has_one_position() -> None:
    text = "x = 1\r\ny\u2028 = '\U0001f600é'\rz\n\n"
    lines = Lines(text)
    positions = [lines.position(offset) for offset in range(len(text) + 1)]
    assert positions == sorted(set(positions))
    assert positions[0] == (1, 1)
    assert lines.position(text.index("é")) == (2, 8)
    assert positions[-1] == (5, 1)
    assert [lines.offset(*position) for position in positions if position != (1, 7)] == [
        offset
        for offset in range(len(text) + 1)
        if offset != 6  # between CR and LF no column of the line reaches
    ]


def test_a_column_behind_the_line_means_its_end() -> None:
    assert Lines("ab\r\nc").offset(1, 99) == 2
    assert Lines("ab\r\nc").offset(2, 99) == 5


@pytest.mark.parametrize("place", [(0, 1), (3, 1), (1, 0)])
def test_places_outside_the_text_are_refused(place: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=r"outside|from 1"):
        Lines("a\nb").offset(*place)


@pytest.mark.parametrize("offset", [-1, 4])
def test_offsets_outside_the_text_are_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        Lines("a\nb").position(offset)


@pytest.mark.parametrize(
    ("text", "newline"),
    [("", "\n"), ("a", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb", "\r"), ("a\nb\r\n", "\n"), ("a\n\r\r\n", "\n")],
)
def test_newline_is_the_line_end_of_most_lines(text: str, newline: str) -> None:
    assert Lines(text).newline == newline
