"""What can be configured, and what a pyproject.toml says under [tool.torchstray].

`SETTINGS` is the one schema: everything that is set, wherever it is set, is read by it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from torchstray.rules.rule import Severity

NOTICES = {
    "syntax-error": "a part of the file that does not parse; the rest of the file is checked all the same",
    "unreadable-file": "a file that cannot be read or decoded",
    "unused-suppression": "a suppression comment that silences nothing",
}
"""What is reported besides the rules' findings: it cannot be selected, but ignored or made louder or quieter."""

OFF = "off"


class BadValue(ValueError):
    """A setting that cannot be understood. `keys` is the path to it, `item` the mistaken item if it is a list."""

    def __init__(self, message: str, keys: Sequence[str], item: str | None = None) -> None:
        super().__init__(message)
        self.keys = tuple(keys)
        self.item = item


class BadConfiguration(Exception):
    """A configuration file that cannot be used; the message names the file, the `line` (from 1, if it is known) and the
    `reason`, which has the key."""

    def __init__(self, file: Path, line: int | None, reason: str) -> None:
        super().__init__(f"{file}:{line}: {reason}" if line is not None else f"{file}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


def absolute(path: Path) -> Path:
    """Return `path` from the root on, without `..` and with its symbolic links as they are."""
    return Path(os.path.abspath(path))  # noqa: PTH100  # Path.resolve() would follow links


@functools.cache
def rule_names() -> tuple[str, ...]:
    """The names of all rules, in their order of precedence."""
    from torchstray.rules import all_rules

    return tuple(rule.name for rule in all_rules())


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` with the known word nearest to `word`, or nothing where none is near."""
    import difflib

    near = difflib.get_close_matches(word.lower().replace("_", "-"), list(known), n=1)
    return f"; did you mean `{near[0]}`?" if near else ""


def unknown_rule(name: str, known: Iterable[str]) -> str:
    """Return the sentence for a rule name that does not exist, or is not among those that can be given here."""
    if name == "unused-suppression":
        return f"`{name}` is no rule to select; `report-unused-suppressions` turns it on"
    if name in NOTICES:
        return f"`{name}` is no rule to select; it is always on"
    return f"there is no rule `{name}`{did_you_mean(name, known)}"


def _said(value: object) -> str:
    """Name the type of a TOML or JSON value in plain words."""
    words = {
        bool: "true or false",
        str: "a string",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "a table",
        type(None): "null",
    }
    return words.get(type(value), "a date or time")


def _strings(value: object, keys: Sequence[str], what: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadValue(f"must be a list of {what}, and is {_said(value)}", keys)
    for item in value:
        if not isinstance(item, str):
            raise BadValue(f"must be a list of {what}, but {item!r} is {_said(item)}", keys)
    return tuple(value)


def _names(value: object, keys: Sequence[str], known: Sequence[str]) -> frozenset[str]:
    names = _strings(value, keys, "rule names")
    for name in names:
        if name not in known:
            raise BadValue(unknown_rule(name, known), keys, name)
    return frozenset(names)


def _rules(value: object, keys: Sequence[str]) -> frozenset[str]:
    return _names(value, keys, rule_names())


def _codes(value: object, keys: Sequence[str]) -> frozenset[str]:
    return _names(value, keys, (*rule_names(), *NOTICES))


def _glob(text: str, keys: Sequence[str]) -> str:
    try:
        patterns = _spec((text,)).patterns
    except ValueError:
        patterns = ()
    if len(patterns) != 1 or patterns[0].include is None:
        raise BadValue(f'"{text}" is not a glob pattern', keys, text)
    return text


def _globs(value: object, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(_glob(text, keys) for text in _strings(value, keys, "glob patterns"))


def _table(value: object, keys: Sequence[str], what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise BadValue(f"must be a table of {what}, and is {_said(value)}", keys)
    return value


def _codes_by_glob(value: object, keys: Sequence[str]) -> dict[str, frozenset[str]]:
    table = _table(value, keys, "glob patterns with a list of rule names each")
    return {_glob(glob, (*keys, glob)): _codes(names, (*keys, glob)) for glob, names in table.items()}


def _severities(value: object, keys: Sequence[str]) -> dict[str, Severity | None]:
    severities: dict[str, Severity | None] = {severity.label: severity for severity in reversed(Severity)}
    severities[OFF] = None
    found = {}
    for name, label in _table(value, keys, "rule names with a severity each").items():
        known = (*rule_names(), *NOTICES)
        if name not in known:
            raise BadValue(unknown_rule(name, known), (*keys, name))
        if not isinstance(label, str) or label not in severities:
            choice = '"error", "warning", "hint" or "off"'
            said = f'"{label}"' if isinstance(label, str) else _said(label)
            raise BadValue(f"must be {choice}, and is {said}", (*keys, name))
        found[name] = severities[label]
    return found


def _text(value: object, keys: Sequence[str]) -> str:
    if not isinstance(value, str):
        raise BadValue(f"must be a string, and is {_said(value)}", keys)
    return value


def _switch(value: object, keys: Sequence[str]) -> bool:
    if not isinstance(value, bool):
        raise BadValue(f"must be true or false, and is {_said(value)}", keys)
    return value


Schema = dict[str, Any]
"""A JSON schema."""


def _rules_schema() -> Schema:
    return {"type": "array", "items": {"enum": [*rule_names()]}, "uniqueItems": True}


def _codes_schema() -> Schema:
    return {"type": "array", "items": {"enum": [*rule_names(), *NOTICES]}, "uniqueItems": True}


def _globs_schema() -> Schema:
    return {"type": "array", "items": {"type": "string"}, "uniqueItems": True}


def _codes_by_glob_schema() -> Schema:
    return {"type": "object", "additionalProperties": _codes_schema()}


def _severities_schema() -> Schema:
    loud: Schema = {"enum": [*(severity.label for severity in reversed(Severity)), OFF]}
    names = (*rule_names(), *NOTICES)
    return {"type": "object", "properties": dict.fromkeys(names, loud), "additionalProperties": False}


def _switch_schema() -> Schema:
    return {"type": "boolean"}


def _text_schema() -> Schema:
    return {"type": "string"}


@dataclass(frozen=True)
class Setting:
    """One thing that can be set. `read` turns what a file says into the value, or raises BadValue; `schema` makes the
    JSON schema of what may be said."""

    key: str
    summary: str
    read: Callable[[object, Sequence[str]], Any]
    schema: Callable[[], Schema]

    @property
    def field(self) -> str:
        """The name of the value's field in Configuration."""
        return self.key.replace("-", "_")

    @property
    def editor_key(self) -> str:
        """The name of the setting in an editor, `extendSelect` for `extend-select`."""
        first, *more = self.key.split("-")
        return first + "".join(map(str.title, more))


SETTINGS = (
    Setting("select", "The rules to check; all of them where this is not set.", _rules, _rules_schema),
    Setting("extend-select", "Rules to check in addition to those of `select`.", _rules, _rules_schema),
    Setting("ignore", "Rules not to check.", _codes, _codes_schema),
    Setting("exclude", "Files and folders to pass over, as in a .gitignore file.", _globs, _globs_schema),
    Setting(
        "per-file-ignores",
        "Rules not to check in the files that match a glob pattern.",
        _codes_by_glob,
        _codes_by_glob_schema,
    ),
    Setting(
        "severity",
        'How loud a rule is: "error", "warning", "hint" or "off". What a rule itself calls a hint stays one.',
        _severities,
        _severities_schema,
    ),
    Setting(
        "report-unused-suppressions",
        "Whether to report suppression comments that silence nothing.",
        _switch,
        _switch_schema,
    ),
    Setting(
        "python",
        "The interpreter, or the folder of the environment, whose installed packages the code imports.",
        _text,
        _text_schema,
    ),
)


@dataclass(frozen=True)
class Configuration:
    """What is set for the files of a folder. Globs count from `root`; `lines` says on which line (from 1) of `file` a
    key is set, and holds no key that is not."""

    root: Path
    file: Path | None = None
    lines: Mapping[str, int] = field(default_factory=dict)
    select: frozenset[str] | None = None
    extend_select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    exclude: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, frozenset[str]] = field(default_factory=dict)
    severity: Mapping[str, Severity | None] = field(default_factory=dict)
    report_unused_suppressions: bool = False
    python: str | None = None

    @property
    def interpreter(self) -> Path | None:
        """Where `python` is; None where it is not set."""
        return self.root / Path(self.python).expanduser() if self.python else None

    def off(self, path: Path | None = None) -> dict[str, str]:
        """Return the rules and notices that are off in the file at `path`, each with the reason."""
        reasons = {}
        if self.select is not None:
            selected = self.select | self.extend_select
            reasons = dict.fromkeys((name for name in rule_names() if name not in selected), "not in `select`")
        for name in self.ignore:
            reasons[name] = "in `ignore`"
        for name, severity in self.severity.items():
            if severity is None:
                reasons[name] = '"off" in `severity`'
        if path is not None:
            for glob, names in self.per_file_ignores.items():
                if self.matching(path, (glob,)):
                    reasons |= dict.fromkeys(names, f'in `per-file-ignores` of "{glob}"')
        return reasons

    def matching(self, path: Path, globs: Sequence[str], is_folder: bool = False) -> str | None:
        """Return the glob by which `path` is meant, None where it is not; the last one that matches decides."""
        if not globs:
            return None
        try:
            relative = absolute(path).relative_to(self.root)
        except ValueError:
            return None
        result = _spec(tuple(globs)).check_file(f"{relative.as_posix()}/" if is_folder else relative.as_posix())
        return globs[result.index] if result.include and result.index is not None else None

    def loudness(self, rule: str, severity: Severity) -> Severity:
        """Return the severity to report a finding of `rule` with. A hint marks code that works, and stays one."""
        wanted = self.severity.get(rule)
        return severity if wanted is None or severity is Severity.HINT else wanted


@functools.cache
def _spec(globs: tuple[str, ...]) -> Any:
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(globs)


@dataclass(frozen=True)
class Overrides:
    """What the command line or an editor says; it wins over a file. None and empty fields say nothing."""

    select: frozenset[str] | None = None
    extend_select: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    exclude: tuple[str, ...] | None = None
    per_file_ignores: Mapping[str, frozenset[str]] | None = None
    severity: Mapping[str, Severity | None] = field(default_factory=dict)
    report_unused_suppressions: bool | None = None
    python: str | None = None

    def over(self, configuration: Configuration) -> Configuration:
        """Return `configuration` with these on top. A rule asked for by name runs, whatever a file turns off."""
        asked = (self.select or frozenset()) | self.extend_select
        severity = {n: s for n, s in configuration.severity.items() if s is not None or n not in asked}
        return dataclasses.replace(
            configuration,
            select=_said_or(self.select, configuration.select),
            extend_select=self.extend_select | (configuration.extend_select if self.select is None else frozenset()),
            ignore=configuration.ignore - asked | self.ignore,
            exclude=_said_or(self.exclude, configuration.exclude),
            per_file_ignores=_said_or(self.per_file_ignores, configuration.per_file_ignores),
            severity=severity | dict(self.severity),
            report_unused_suppressions=_said_or(
                self.report_unused_suppressions, configuration.report_unused_suppressions
            ),
            python=_said_or(self.python, configuration.python),
        )


T = TypeVar("T")


def _said_or(said: T | None, otherwise: T) -> T:
    return otherwise if said is None else said


Stamp = tuple[int, int] | None
"""Modification time and size of a file; None where there is none."""


class Configurations:
    """The configuration of each folder: that of the nearest pyproject.toml with a [tool.torchstray] table, read once.

    A `file` replaces them all, and its globs count from the working folder; `isolated` leaves the defaults. Where there
    is no table, globs count from `root`, by default the working folder.
    """

    def __init__(
        self,
        file: Path | None = None,
        isolated: bool = False,
        overrides: Overrides | None = None,
        root: Path | None = None,
    ) -> None:
        """Raises BadConfiguration where `file` cannot be used."""
        self._overrides = overrides or Overrides()
        self._folders: dict[Path, Configuration] = {}
        self._stamps: dict[Path, Stamp] = {}
        self._default = self._overrides.over(Configuration(root or Path.cwd()))
        self._everywhere = self._default if isolated else None
        if file is not None:
            configuration = load(file)
            if configuration is None:
                raise BadConfiguration(file, None, "there is no [tool.torchstray] table")
            self._everywhere = self._overrides.over(dataclasses.replace(configuration, root=Path.cwd()))

    def of(self, folder: Path) -> Configuration:
        """Return what holds in `folder`. Raises BadConfiguration."""
        return self._everywhere or self._nearest(absolute(folder))

    @property
    def outdated(self) -> bool:
        """Whether a pyproject.toml that was looked for has been written, changed or removed since."""
        return any(_stamp(file) != stamp for file, stamp in self._stamps.items())

    def _nearest(self, folder: Path) -> Configuration:
        if folder not in self._folders:
            file = folder / "pyproject.toml"
            self._stamps[file] = _stamp(file)
            found = load(file) if self._stamps[file] is not None else None
            if found is not None:
                self._folders[folder] = self._overrides.over(found)
            else:
                self._folders[folder] = self._default if folder == folder.parent else self._nearest(folder.parent)
        return self._folders[folder]


def _stamp(file: Path) -> Stamp:
    try:
        status = file.stat()
    except OSError:  # also where the folder may not be entered
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None


def load(file: Path) -> Configuration | None:
    """Read the [tool.torchstray] table of a TOML file; None where it has none. Raises BadConfiguration."""
    try:
        data = file.read_bytes()
        if b"torchstray" not in data:  # a file that says nothing to us may say it as it likes
            return None
        text = data.decode()
    except OSError as error:
        raise BadConfiguration(file, None, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadConfiguration(file, None, "is not UTF-8, as TOML has to be") from None
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfiguration(file, *_broken(text, str(error))) from None
    tool = whole.get("tool")
    if not isinstance(tool, dict) or "torchstray" not in tool:
        return None
    try:
        values = read(tool["torchstray"])
    except BadValue as error:
        line = _line(text, ("tool", "torchstray", *error.keys), error.item, tomllib.loads)
        key = ".".join(error.keys)
        raise BadConfiguration(file, line, f"{f'`{key}`: ' if key else ''}{error}") from None
    lines = {
        setting.key: _line(text, ("tool", "torchstray", setting.key), None, tomllib.loads)
        for setting in SETTINGS
        if setting.field in values
    }
    return Configuration(absolute(file).parent, file, lines, **values)


def read(table: object) -> dict[str, Any]:
    """Turn a table of settings into the fields of a Configuration that it sets. Raises BadValue."""
    settings = {setting.key: setting for setting in SETTINGS}
    values = {}
    for key, value in _table(table, (), "settings").items():
        if key not in settings:
            raise BadValue(f"there is no such setting{did_you_mean(key, settings)}", (key,))
        setting = settings[key]
        values[setting.field] = setting.read(value, (key,))
    return values


def _broken(text: str, reason: str) -> tuple[int | None, str]:
    """The line (from 1, if it is known) of a mistake in TOML, and what it is."""
    place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", reason)
    if place is None:
        return None, f"is not valid TOML: {reason}"
    return int(place.group(1) or text.count("\n") + 1), f"is not valid TOML: {reason[: place.start()]}"


def _line(text: str, keys: Sequence[str], item: str | None, parse: Callable[[str], dict[str, Any]]) -> int:
    """Return the line (from 1) of a valid TOML text on which the value at `keys` is set, or the `item` in its list.

    The text is cut at its statements, which are the shortest runs of lines that parse by themselves.
    """
    table: tuple[str, ...] = ()
    chunk: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        chunk.append(line)
        try:
            parsed = parse("\n".join(chunk))
        except ValueError:
            continue
        first, statement, chunk = number - len(chunk) + 1, chunk, []
        if line.lstrip().startswith("[") and first == number:
            table = _path(parsed)
        else:
            parsed = _nested(table, parsed)
        if _has(parsed, keys):
            return first + _row(statement, item if item is not None else keys[-1])
    return 1


def _path(header: Mapping[str, Any]) -> tuple[str, ...]:
    """The keys of a table's header alone."""
    path = []
    value: Any = header
    while isinstance(value, dict) and value:
        (key,) = value
        path.append(key)
        value = value[key]
    return tuple(path)


def _nested(table: Sequence[str], value: dict[str, Any]) -> dict[str, Any]:
    for key in reversed(table):
        value = {key: value}
    return value


def _has(value: Any, keys: Sequence[str]) -> bool:
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return False
        value = value[key]
    return True


def _row(statement: Sequence[str], word: str) -> int:
    """The line (from 0) of a statement on which `word` stands; the first one where it is spelled in another way."""
    return next((row for row, line in enumerate(statement) if word in line), 0)
