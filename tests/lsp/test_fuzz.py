"""A short run of the random edit sessions; `python -m tests.lsp.fuzz` makes long ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.fuzz.run import run

SESSIONS = 45


@pytest.mark.asyncio(loop_scope="session")
async def test_random_edit_sessions_end_with_the_findings_of_a_fresh_check(tmp_path: Path) -> None:
    tally = await run(1, SESSIONS, tmp_path)
    assert tally.failures == [], "to have one again: python -m tests.lsp.fuzz --sessions 1 --seed SEED"
    assert tally.sessions == SESSIONS
    assert tally.findings > SESSIONS
    assert tally.broken > SESSIONS
