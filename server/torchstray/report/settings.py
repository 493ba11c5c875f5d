"""What holds for one path, and where it is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from torchstray.config import NOTICES, OFF, SETTINGS, Configuration, rule_names
from torchstray.rules.rule import Severity


def render(path: Path, skipped: str | None, idle: str | None, configuration: Configuration) -> Iterator[str]:
    """Yield the lines for `path`, which a run over its folder skips for the reason given, if any.

    `idle` is why there is nothing to check in it even when it is named.
    """
    yield f"path:          {path}"
    if idle is not None:
        yield f"checked:       no: {idle}"
    else:
        yield f"checked:       {'yes' if skipped is None else f'only when named: {skipped}'}"
    yield f"configuration: {configuration.file or 'none, so the defaults hold'}"
    yield ""
    yield "settings"
    for setting in SETTINGS:
        line = configuration.lines.get(setting.key)
        where = "default" if line is None else f"{configuration.file}:{line}"
        value = getattr(configuration, setting.field)
        shown = "that of the active environment" if setting.key == "python" and value is None else _value(value)
        yield f"  {setting.key} = {shown}  ({where})"
    yield ""
    yield "rules"
    off = configuration.off(path)
    for name in (*rule_names(), *NOTICES):
        yield f"  {name}: {_state(name, off.get(name), configuration)}"


def _state(name: str, reason: str | None, configuration: Configuration) -> str:
    if reason is not None:
        return f"off, {reason}"
    if name == "unused-suppression" and not configuration.report_unused_suppressions:
        return "off, `report-unused-suppressions` is not set"
    severity = configuration.severity.get(name)
    return "on" if severity is None else f"on, as {severity.label}"


def _value(value: object) -> str:
    """A value as it is written in TOML."""
    if value is None:
        return "all rules"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Severity):
        return f'"{value.label}"'
    if isinstance(value, frozenset):
        return _value(tuple(sorted(value)))
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        items = (f'"{key}" = {_value(OFF if item is None else item)}' for key, item in value.items())
        return f"{{ {', '.join(items)} }}" if value else "{}"
    return f'"{value}"'
