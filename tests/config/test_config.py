"""What can be configured, and what is said of a configuration that is mistaken."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from torchstray.config import BadConfiguration, BadValue, Configurations, Overrides, load, read
from torchstray.rules.rule import Severity

GOOD = """\
[project]
name = "x"

[tool.torchstray]
# which rules
select = [
    "unregistered-tensor",
    "discarded-move",
]
extend-select = ["unregistered-module"]
ignore = ["discarded-move"]
exclude = ["legacy/"]
report-unused-suppressions = true

[tool.torchstray.per-file-ignores]
"tests/**" = ["unregistered-module", "syntax-error"]

[tool.torchstray.severity]
unregistered-tensor = "warning"
layer-in-forward = "off"
"""


def _write(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    return folder / "pyproject.toml"


def test_everything_that_can_be_set(tmp_path: Path) -> None:
    file = _write(tmp_path, GOOD)
    configuration = load(file)
    assert configuration is not None
    assert (configuration.root, configuration.file) == (tmp_path, file)
    assert configuration.select == frozenset({"unregistered-tensor", "discarded-move"})
    assert configuration.extend_select == {"unregistered-module"}
    assert configuration.ignore == {"discarded-move"}
    assert configuration.exclude == ("legacy/",)
    assert configuration.per_file_ignores == {"tests/**": {"unregistered-module", "syntax-error"}}
    assert configuration.severity == {"unregistered-tensor": Severity.WARNING, "layer-in-forward": None}
    assert configuration.report_unused_suppressions
    assert configuration.lines == {
        "select": 6,
        "extend-select": 10,
        "ignore": 11,
        "exclude": 12,
        "report-unused-suppressions": 13,
        "per-file-ignores": 15,
        "severity": 18,
    }


def test_which_rules_are_off_and_why(tmp_path: Path) -> None:
    configuration = load(_write(tmp_path, GOOD))
    assert configuration is not None
    off = configuration.off(tmp_path / "model.py")
    assert off["discarded-move"] == "in `ignore`"
    assert off["layer-in-forward"] == '"off" in `severity`'
    assert off["computed-parameter"] == "not in `select`"
    assert "unregistered-tensor" not in off
    assert "unregistered-module" not in off
    in_tests = configuration.off(tmp_path / "tests" / "unit" / "test_model.py")
    assert in_tests["unregistered-module"] == in_tests["syntax-error"] == 'in `per-file-ignores` of "tests/**"'


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            '[tool.torchstray]\nselect = ["unregisterd-tensor"]',
            2,
            "`select`: there is no rule `unregisterd-tensor`; did",
        ),
        ('[tool.torchstray]\nselect = [\n  "discarded-move",\n  "no",\n]', 4, "`select`: there is no rule `no`"),
        ('[tool.torchstray]\nselect = "discarded-move"', 2, "`select`: must be a list of rule names, and is a string"),
        ("[tool.torchstray]\nignore = [1]", 2, "`ignore`: must be a list of rule names, but 1 is a number"),
        ('[tool.torchstray]\nselect = ["syntax-error"]', 2, "`syntax-error` is no rule to select; it is always on"),
        ("[tool.torchstray]\n\nselct = []", 3, "`selct`: there is no such setting; did you mean `select`?"),
        ("[tool.torchstray]\nextend_select = []", 2, "there is no such setting; did you mean `extend-select`?"),
        ("[tool.torchstray]\nexclude = true", 2, "`exclude`: must be a list of glob patterns, and is true or false"),
        ('[tool.torchstray]\nexclude = ["a", ""]', 2, '`exclude`: "" is not a glob pattern'),
        (
            "[tool.torchstray]\nseverity = 3",
            2,
            "`severity`: must be a table of rule names with a severity each, and is",
        ),
        (
            '[tool.torchstray.severity]\ndiscarded-move = "eror"',
            2,
            '`severity.discarded-move`: must be "error", "warning", "hint" or "off", and is "eror"',
        ),
        ('[tool.torchstray]\nseverity.nothing = "off"', 2, "`severity.nothing`: there is no rule `nothing`"),
        ("[tool]\ntorchstray = { severity = { discarded-move = false } }", 2, "`severity.discarded-move`: must be "),
        (
            '[tool.torchstray.per-file-ignores]\n"a/*" = []\n"b/*" = ["discarded_move"]',
            3,
            "`per-file-ignores.b/*`: there is no rule `discarded_move`; did you mean `discarded-move`?",
        ),
        ("[tool.torchstray]\nreport-unused-suppressions = 1", 2, "must be true or false, and is a number"),
        ("[tool]\ntorchstray = 1", 2, "must be a table of settings, and is a number"),
    ],
)
def test_mistakes_are_named_with_file_line_and_key(tmp_path: Path, text: str, line: int, message: str) -> None:
    file = _write(tmp_path, f"{text}\n")
    with pytest.raises(BadConfiguration) as caught:
        load(file)
    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert message in str(caught.value)


def test_broken_toml_names_the_line(tmp_path: Path) -> None:
    file = _write(tmp_path, "[tool.torchstray]\nselect = []\nignore = [}\n")
    with pytest.raises(BadConfiguration, match=re.escape(f"{file}:3: is not valid TOML: ")):
        load(file)
    file = _write(tmp_path, "[tool.torchstray]\nselect = [\n")
    with pytest.raises(BadConfiguration, match=re.escape(f"{file}:") + r"\d: is not valid TOML: "):
        load(file)


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    file.write_bytes(b"[tool.torchstray]\n# \xff\n")
    with pytest.raises(BadConfiguration, match="is not UTF-8"):
        load(file)


def test_settings_need_no_file() -> None:
    assert read({"select": ["discarded-move"]}) == {"select": frozenset({"discarded-move"})}
    with pytest.raises(BadValue, match="there is no such setting") as caught:
        read({"selekt": []})
    assert caught.value.keys == ("selekt",)


def test_the_nearest_table_counts(tmp_path: Path) -> None:
    outer = _write(tmp_path, '[tool.torchstray]\nignore = ["discarded-move"]\n')
    _write(tmp_path / "a", '[project]\nname = "torchstray-user"\n')
    inner = _write(tmp_path / "a" / "b", "[tool.torchstray]\n")
    configurations = Configurations()
    assert configurations.of(tmp_path).file == outer
    assert configurations.of(tmp_path / "a").file == outer
    assert configurations.of(tmp_path / "a" / "b").file == inner
    assert configurations.of(tmp_path / "a" / "b" / "missing").file == inner
    assert configurations.of(tmp_path / "a" / "b").ignore == frozenset()


def test_a_file_of_others_may_be_broken(tmp_path: Path) -> None:
    _write(tmp_path, "[project\n")
    assert Configurations().of(tmp_path).file is None


def test_config_replaces_and_isolated_ignores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path / "a", '[tool.torchstray]\nignore = ["discarded-move"]\n')
    other = tmp_path / "other.toml"
    other.write_text('[tool.torchstray]\nper-file-ignores = { "a/m.py" = ["unregistered-module"] }\n')
    monkeypatch.chdir(tmp_path)
    configuration = Configurations(Path("other.toml")).of(tmp_path / "a")
    assert configuration.ignore == frozenset()
    assert "unregistered-module" in configuration.off(tmp_path / "a" / "m.py")
    assert Configurations(isolated=True).of(tmp_path / "a").ignore == frozenset()
    with pytest.raises(BadConfiguration, match=r"missing\.toml: cannot be read"):
        Configurations(Path("missing.toml"))
    other.write_text("[tool.other]\n")
    with pytest.raises(BadConfiguration, match=r"there is no \[tool\.torchstray\] table"):
        Configurations(other)


def test_the_command_line_wins(tmp_path: Path) -> None:
    _write(
        tmp_path,
        '[tool.torchstray]\nselect = ["unregistered-tensor"]\nignore = ["discarded-move", "unregistered-module"]\n'
        'severity = { layer-in-forward = "off", unregistered-tensor = "warning" }\n',
    )
    overrides = Overrides(
        select=frozenset({"discarded-move", "layer-in-forward"}),
        extend_select=frozenset({"unregistered-tensor"}),
        ignore=frozenset({"unregistered-tensor"}),
    )
    configuration = Configurations(overrides=overrides).of(tmp_path)
    off = configuration.off()
    assert "discarded-move" not in off
    assert "layer-in-forward" not in off
    assert off["unregistered-tensor"] == off["unregistered-module"] == "in `ignore`"
    assert off["computed-parameter"] == "not in `select`"
    assert configuration.severity == {"unregistered-tensor": Severity.WARNING}


def test_a_hint_is_never_made_louder(tmp_path: Path) -> None:
    configuration = load(_write(tmp_path, '[tool.torchstray]\nseverity = { discarded-move = "error" }\n'))
    assert configuration is not None
    assert configuration.loudness("discarded-move", Severity.WARNING) is Severity.ERROR
    assert configuration.loudness("discarded-move", Severity.HINT) is Severity.HINT
    assert configuration.loudness("unregistered-tensor", Severity.WARNING) is Severity.WARNING
