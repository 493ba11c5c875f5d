"""What imported names mean: a light reading of the files that they come from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torchstray.semantics import torch_api
from torchstray.semantics.classes import ClassModel
from torchstray.semantics.names import blocks, dotted, imported
from torchstray.semantics.project import Module, Project, Source
from torchstray.semantics.values import ClassValue, FunctionValue, Qualified, Value
from torchstray.syntax.document import Statement

_NOT_READ = frozenset({"torch", "builtins", "numpy", "scipy", "pandas", "matplotlib", "PIL", "cv2", "sklearn", "tqdm"})
"""Torch has its own tables; the others are large, and have nothing in them that holds torch's tensors."""

_BLANK = re.compile(r"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n?|\n))*")
_WORD = re.compile(r"@|[^\W\d]\w*")
_DEFINITION = re.compile(r"^(?:async[ \t]+def|class|def)[ \t]+([^\W\d]\w*)", re.MULTILINE)
_ASSIGNED = re.compile(r"[^=\r\n]*?(?<![=!<>])(?=\s*(?::[^=\r\n]*)?=(?!=))")
_NAMES = re.compile(r"[^\W\d]\w*")
_COMPOUND = frozenset({"if", "try", "for", "while", "with", "match"})
_MOST_STARS = 150


@dataclass(frozen=True)
class Constant:
    """A name that an assignment at the top level of another file binds."""

    home: OtherFile
    name: str
    statement: Statement
    node: cst.Assign | cst.AnnAssign


class Imports:
    """What imports mean in the file at `path`, None where it is not known where that lies."""

    def __init__(self, project: Project, path: str | None, module: Module | None = None) -> None:
        self.project = project
        self.path = path
        self._module = module if module is not None or path is None else project.module_at(path)

    def resolve(self, full: str) -> Value | Constant | None:
        """What a full name means, or one that is relative to this file; None where it cannot be found. A module, and
        what belongs to torch, is a Qualified name."""
        name = self.absolute(full)
        if name is None:
            return None
        head = name.partition(".")[0]
        if head == "torch":
            return Qualified(torch_api.canonical(name))
        return self._walk(name) if self._is_read(name, full) else None

    def exports(self, star: str, name: str) -> bool:
        """Whether `from star import *` binds `name`; of torch's modules, that is not asked here."""
        absolute = self.absolute(star)
        if absolute is None or name.startswith("_") or not self._is_read(absolute, star):
            return False
        module = self.project.module(absolute, self.project.search_path(self.path))
        file = other_file(self.project, module) if module is not None else None
        return file is not None and file.may_export(name) and file.binding(name) is not None

    def _is_read(self, absolute: str, written: str) -> bool:
        head = absolute.partition(".")[0]
        return head not in _NOT_READ and (head not in sys.stdlib_module_names or written.startswith("."))

    def absolute(self, full: str) -> str | None:
        """A relative name from the root on; None where it leads out of the root, or it is not known where that is."""
        rest = full.lstrip(".")
        dots = len(full) - len(rest)
        if not dots:
            return full
        if self._module is None:
            return None
        package = self._module.package.split(".") if self._module.package else []
        if dots - 1 > len(package):
            return None
        return ".".join([*package[: len(package) - dots + 1], *([rest] if rest else [])]) or None

    def _walk(self, name: str) -> Value | Constant | None:
        parts = name.split(".")
        search = self.project.search_path(self.path)
        module: Module | None = None
        for place, part in enumerate(parts):
            if module is not None and place == len(parts) - 1 and (file := other_file(self.project, module)):
                found = file.binding(part)
                if found is not None:
                    return found
            below = self.project.module(".".join(parts[: place + 1]), search)
            if below is None:
                if module is None or place == len(parts) - 1:
                    return None
                file = other_file(self.project, module)
                found = file.binding(part) if file is not None else None
                if isinstance(found, Qualified) and found.name != ".".join(parts[: place + 1]):
                    return self.resolve(".".join([found.name, *parts[place + 1 :]]))
                return None
            module = below
        return Qualified(name)


def other_file(project: Project, module: Module) -> OtherFile | None:
    """The file of a module; None where it has none, or none that can be read."""
    path = module.file
    if path is None:
        return None

    def read() -> OtherFile | None:
        source = project.source(path)
        return OtherFile(project, path, source) if source is not None else None

    found = project.remember(path, "file", read)
    if found is not None:
        project.source(path)  # the most recently used
    return found


class OtherFile:
    """A file other than the checked one, of which only those statements are parsed that bind what is asked for."""

    def __init__(self, project: Project, path: str, source: Source) -> None:
        self.project = project
        self.path = path
        self.source = source
        self.module = project.module_at(path)
        self.imports = Imports(project, path, self.module)
        self.is_stub = path.endswith(".pyi")
        self.concerns_torch = "torch" in source.document.text
        self._parsed: set[Statement] = set()
        self._bound: dict[str, list[Statement]] = {}
        self._importing: list[Statement] = []
        self._compound: list[Statement] = []
        self._inner: dict[cst.ClassDef, ClassModel] = {}
        for statement in source.document.statements:
            self._index(statement)

    def _index(self, statement: Statement) -> None:
        text = statement.text
        start = _BLANK.match(text)
        at = start.end() if start is not None else 0
        word = _WORD.match(text, at)
        first = word[0] if word is not None else ""
        if first in {"import", "from"}:
            self._importing.append(statement)
        elif first in {"@", "class", "def", "async"}:
            definition = _DEFINITION.search(text, at)
            if definition is not None:
                self._bound.setdefault(definition[1], []).append(statement)
        elif first in _COMPOUND:
            self._compound.append(statement)
        elif first and (assigned := _ASSIGNED.match(text, at)) is not None:
            for name in _NAMES.findall(assigned[0]):
                self._bound.setdefault(name, []).append(statement)

    # What a name is bound to

    def binding(self, name: str) -> Value | Constant | None:
        """What `name` means at the top level of this file; None where nothing can be found that binds it."""
        return self.project.remember(self.path, name, lambda: self._find(name))

    def _find(self, name: str) -> Value | Constant | None:
        for statement in reversed(self._bound.get(name, ())):
            found = self._bound_by(statement, name)
            if found is not None:
                return found
        mentioned = re.compile(rf"\b{re.escape(name)}\b")
        for statement in reversed(self._importing + self._compound):
            if mentioned.search(statement.text) is not None:
                found = self._bound_by(statement, name)
                if found is not None:
                    return found
        if not name.startswith("_"):
            found = self._from_stars(name)
            if found is not None:
                return found
        if self.module.folders:
            below = f"{self.module.name}.{name}" if self.module.name else name
            if self.project.module(below, self.project.search_path(self.path)) is not None:
                return Qualified(below)
        return self._from_stub(name)

    def _from_stub(self, name: str) -> Value | Constant | None:
        """What a stub beside this file says of a name that is made at run time."""
        stub = f"{self.path}i"
        if self.is_stub or not self.project.is_file(stub):
            return None
        file = other_file(self.project, Module(self.module.name, stub, self.module.folders))
        return file.binding(name) if file is not None else None

    def _from_stars(self, name: str) -> Value | Constant | None:
        for module in self._stars():
            absolute = self.imports.absolute(module)
            if absolute is None:
                continue
            if absolute.partition(".")[0] == "torch":
                if name in torch_api.exports(absolute):
                    return Qualified(torch_api.canonical(f"{absolute}.{name}"))
                continue
            file = self._star_file(absolute)
            if file is not None and file.may_export(name):
                found = file.binding(name)
                if found is not None:
                    return found
        return None

    def _stars(self) -> list[str]:
        found = self.project.remember(self.path, ("stars",), lambda: list(self._find_stars())[:_MOST_STARS])
        return found or []

    def _find_stars(self) -> Iterator[str]:
        for statement in reversed(self._importing + self._compound):
            if "*" not in statement.text:
                continue
            for node in self._binders(statement):
                if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
                    yield from (target for _, target in imported(node))

    def _star_file(self, absolute: str) -> OtherFile | None:
        module = self.project.module(absolute, self.project.search_path(self.path))
        return other_file(self.project, module) if module is not None else None

    def may_export(self, name: str) -> bool:
        """Whether a star import of this file may bind `name`."""
        listed = self._bound.get("__all__")
        text = self.source.document.text
        if listed and len(listed) == 1 and "+" not in listed[0].text and "*" not in listed[0].text:
            return name in listed[0].text
        return name in text or "import *" in text

    def _bound_by(self, statement: Statement, name: str) -> Value | Constant | None:
        for node in self._binders(statement):
            if isinstance(node, cst.ClassDef) and node.name.value == name:
                return ClassValue(self.class_in(node, statement))
            if isinstance(node, cst.FunctionDef) and node.name.value == name:
                return FunctionValue(node, statement, home=self)
            if isinstance(node, cst.Import | cst.ImportFrom):
                for bound, target in imported(node):
                    if bound == name and (found := self.imports.resolve(target)) is not None:
                        return found
            if isinstance(node, cst.Assign | cst.AnnAssign) and node.value is not None and name in _targets(node):
                return self._assigned(node, name, statement)
        return None

    def _assigned(self, node: cst.Assign | cst.AnnAssign, name: str, statement: Statement) -> Value | Constant | None:
        path = dotted(node.value)
        if path is not None and path not in {name, "None", "True", "False"}:
            found = self.named(path)
            if found is not None:
                return found
        return Constant(self, name, statement, node)

    def named(self, path: str) -> Value | Constant | None:
        """What a name such as `a.b.c` means at the top level of this file."""
        head, _, rest = path.partition(".")
        found = self.binding(head)
        if not rest or found is None:
            return found
        return self.imports.resolve(f"{found.name}.{rest}") if isinstance(found, Qualified) else None

    def _tree(self, statement: Statement) -> cst.Module:
        if statement not in self._parsed:
            self._parsed.add(statement)
            self.source.parsed += len(statement.text)
        return statement.tree

    def _binders(self, statement: Statement) -> Iterator[cst.CSTNode]:
        """The definitions, imports and assignments that a top-level statement runs in this file's scope."""
        for line in self._tree(statement).body:
            yield from _binding_nodes(line)

    # Classes

    def class_in(self, node: cst.ClassDef, statement: Statement) -> ClassModel:
        """The class that a `class` statement defines, at whatever depth."""
        known = self._inner.get(node)
        if known is None:
            known = self._inner[node] = ClassModel(node, statement, home=self)
            known.bases = tuple(self._base(argument.value, known) for argument in node.bases if not argument.star)
        return known

    def _base(self, node: cst.BaseExpression, cls: ClassModel) -> ClassModel | str | None:
        while isinstance(node, cst.Subscript):
            node = node.value
        path = dotted(node)
        if path is None:
            return None
        if path == "object":
            return path
        found = self.named(path)
        if isinstance(found, ClassValue):
            return found.cls if found.cls is not cls else None
        if isinstance(found, Qualified):
            return found.name
        return self.spelled(path)

    def spelled(self, path: str) -> str | None:
        """The full name by which this file imports what it writes as `path`; None where it imports nothing of that
        name."""
        head, _, rest = path.partition(".")
        for statement in self._importing + self._compound:
            if head not in statement.text:
                continue
            for node in self._binders(statement):
                if isinstance(node, cst.Import | cst.ImportFrom):
                    for bound, target in imported(node):
                        if bound == head:
                            full = self.imports.absolute(target) or target
                            return torch_api.canonical(f"{full}.{rest}" if rest else full)
        return None


def _binding_nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(node, cst.SimpleStatementLine):
        yield from node.body
    elif isinstance(node, cst.ClassDef | cst.FunctionDef):
        yield node
    else:
        for block in blocks(node):
            for child in block.body:
                yield from _binding_nodes(child)


def _targets(node: cst.Assign | cst.AnnAssign) -> set[str]:
    several = node.targets if isinstance(node, cst.Assign) else ()
    targets: list[cst.BaseExpression] = [target.target for target in several]
    if isinstance(node, cst.AnnAssign):
        targets.append(node.target)
    names: set[str] = set()
    while targets:
        target = targets.pop()
        if isinstance(target, cst.Name):
            names.add(target.value)
        elif isinstance(target, cst.Tuple | cst.List):
            targets += [element.value for element in target.elements]
    return names
