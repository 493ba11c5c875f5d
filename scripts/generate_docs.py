"""Writes docs/rules: the page of each rule, as `torchstray rule` shows it, and an index.

`--check` writes nothing and ends with status 1 where the pages are not what would be written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from torchstray.report import rule_page
from torchstray.rules import all_rules
from torchstray.rules.rule import Rule

FOLDER = Path(__file__).parent.parent / "docs" / "rules"
NOTICE = "<!-- Made by scripts/generate_docs.py; do not edit. -->\n\n"


def index(rules: Sequence[Rule]) -> str:
    """Return the page that lists all rules, in their order of precedence."""
    rows = [f"| [`{rule.name}`]({rule.name}.md) | {rule.severity.label} | {rule.summary} |" for rule in rules]
    table = "\n".join(["| rule | severity | summary |", "|---|---|---|", *rows])
    return f"# Rules\n\nWhere two rules could speak of one value, the one that stands first here is heard.\n\n{table}\n"


def main() -> int:
    """Write the pages, or compare them; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail on a difference")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pages are (default: docs/rules)")
    options = parser.parse_args()
    folder: Path = options.folder
    rules = all_rules()
    pages = {"index.md": index(rules)} | {f"{rule.name}.md": rule_page.render(rule) for rule in rules}
    wanted = {name: (NOTICE + page).encode() for name, page in pages.items()}
    present = {path.name: path.read_bytes() for path in folder.glob("*.md")}
    different = sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
    if options.check:
        for name in different:
            print(f"{folder / name} is not what scripts/generate_docs.py makes; run it.", file=sys.stderr)
        return 1 if different else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in different:
        if name in wanted:
            (folder / name).write_bytes(wanted[name])
        else:
            (folder / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
