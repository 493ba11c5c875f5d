"""Edits that lead from one text to another."""

from __future__ import annotations

import random

import pytest

from torchstray.text.edits import Edit, apply_edits, difference


@pytest.mark.parametrize(
    ("before", "after", "edits"),
    [
        ("", "", []),
        ("a\n", "a\n", []),
        ("a\nb\nc\n", "a\nB\nc\n", [Edit(2, 4, "B\n")]),
        ("a\nb\nc\n", "a\nc\n", [Edit(2, 4, "")]),
        ("a\nc", "a\nb\nc", [Edit(2, 2, "b\n")]),
        ("a\r\nb\r\nc", "A\r\nb\r\nC", [Edit(0, 3, "A\r\n"), Edit(6, 7, "C")]),
        ("a\x0cb\u2028c\n", "a\x0cb\u2028d\n", [Edit(0, 6, "a\x0cb\u2028d\n")]),
    ],
)
def test_only_the_lines_that_change_are_edited(before: str, after: str, edits: list[Edit]) -> None:
    assert list(difference(before, after)) == edits


@pytest.mark.parametrize("seed", range(50))
def test_the_edits_lead_to_the_other_text(seed: int) -> None:
    choose = random.Random(seed)
    lines = ["a", "b", "", "cc", "d\x0cd"]
    texts = ["".join(choose.choice(lines) + choose.choice(["\n", "\r\n", "\r"]) for _ in range(20)) for _ in range(2)]
    before, after = (text[: choose.randrange(len(text) + 1)] for text in texts)
    assert apply_edits(before, difference(before, after)) == after


def test_each_place_of_a_long_text_is_edited_by_itself() -> None:
    before = "".join(
        f"class N{number}:\n    def f(self):\n        k = 1\n        return k\n\n\n" for number in range(400)
    )
    edits = list(difference(before, before.replace("k = 1", "k = 2")))
    assert {edit.content for edit in edits} == {"        k = 2\n"}
    assert len(edits) == 400
