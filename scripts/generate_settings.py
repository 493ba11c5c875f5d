"""Writes into package.json, the manifest of the editor's extension, what is known elsewhere: torchstray's version and
its settings, with those of the client's own.

`--check` writes nothing and ends with status 1 where package.json is not what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from torchstray import __version__
from torchstray.config import NOTICES, SETTINGS
from torchstray.rules import all_rules

MANIFEST = Path(__file__).parent.parent / "package.json"
CLIENT: dict[str, dict[str, Any]] = {
    "interpreter": {
        "type": "string",
        "default": "",
        "scope": "machine-overridable",
        "markdownDescription": "The Python that runs torchstray: a path, or a name on `PATH`. Where this is not set, "
        "that of the environment chosen in the Python extension, else `python3` or `python` on `PATH`.",
    },
    "importStrategy": {
        "type": "string",
        "default": "useBundled",
        "scope": "machine-overridable",
        "enum": ["useBundled", "fromEnvironment"],
        "enumDescriptions": [
            "The torchstray that comes with the extension; no package of the environment is used.",
            "The torchstray that is installed in the environment of that Python.",
        ],
        "markdownDescription": "Which torchstray is run.",
    },
    "trace.server": {
        "type": "string",
        "default": "messages",
        "scope": "window",
        "enum": ["messages", "verbose"],
        "markdownDescription": "What the log holds of the talk between editor and server, where the log level of the "
        "output channel `torchstray` is *Trace*.",
    },
}
"""What an editor alone can be told."""


def settings() -> dict[str, dict[str, Any]]:
    """Return the schema of each setting, by its full name."""
    summaries = {rule.name: rule.summary for rule in all_rules()} | NOTICES
    found = dict(CLIENT)
    for setting in SETTINGS:
        schema = explained(setting.schema(), summaries)
        kind = schema.pop("type")
        found[setting.editor_key] = {
            # null is not set: pyproject.toml, or the default, holds.
            "type": [kind, "null"],
            "default": None,
            "scope": "resource",
            "markdownDescription": setting.summary,
            **schema,
        }
    return {f"torchstray.{key}": schema for key, schema in found.items()}


def explained(schema: Any, summaries: dict[str, str]) -> Any:
    """Return a JSON schema with the summary of each rule and notice that it names."""
    if not isinstance(schema, dict):
        return schema
    schema = {key: explained(value, summaries) for key, value in schema.items()}
    names = schema.get("enum", [])
    if names and all(name in summaries for name in names):
        schema["markdownEnumDescriptions"] = [summaries[name] for name in names]
    for name, value in schema.get("properties", {}).items():
        if name in summaries:
            schema["properties"][name] = value | {"markdownDescription": summaries[name]}
    return schema


def main() -> int:
    """Write package.json, or compare it; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail on a difference")
    options = parser.parse_args()
    present = MANIFEST.read_bytes()
    manifest = json.loads(present)
    manifest["version"] = __version__
    manifest["contributes"]["configuration"] = {"title": "torchstray", "properties": settings()}
    wanted = (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()
    if options.check:
        if wanted != present:
            print(f"{MANIFEST} is not what scripts/generate_settings.py makes; run it.", file=sys.stderr)
        return int(wanted != present)
    if wanted != present:
        MANIFEST.write_bytes(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
