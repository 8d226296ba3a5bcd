"""Imports go down the layers, without exception, never in a circle, never through a root door."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import viper

PACKAGE = Path(viper.__file__).parent
ROOT = PACKAGE.parent

LAYERS = (
    "errors", "escape", "threads", "agreement", "schema", "record", "plugins", "steps",
    "storage",
    "sandbox",
    "api",
    "models", "prompting", "embedded",
    "search",
    "tools",
    "strategies", "draw", "run_result", "reasoner",
    "data", "evaluate", "ace",
    "serve", "web",
    "profiles",
    "env", "bridges",
    "testing",
    "tuning",
    "jobs", "watch",
    "commands", "cli", "__main__", "__init__",
)  # fmt: skip
"""Parts of the product, lowest first: a part imports lower ones and itself, without exception."""

RANK = {name: rank for rank, name in enumerate(LAYERS)}

DOORS = frozenset({"api", "sandbox", "ace", "tuning", "cli"})

HEAVY = frozenset(
    {"torch", "torchvision", "transformers", "diffusers", "open_clip", "timm", "av", "cv2", "augly"}
    | {"vllm"}
)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    """The name of the layer's part that a file belongs to: ``viper/api/spec.py`` → ``api``."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path, tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of every import, wherever in the file it stands."""
    package = path.relative_to(PACKAGE.parent).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def breaches(path: Path) -> Iterator[str]:
    own = part_of(path)
    for line, name in imported(path, ast.parse(path.read_text(encoding="utf-8"))):
        where = f"{path.relative_to(PACKAGE.parent)}:{line}"
        top, *rest = name.split(".")
        if top == "viper_lab":
            yield f"{where} imports {name}: the product never imports the laboratory"
        elif top in DOORS:
            yield f"{where} imports {name} through a root door; import viper.{name}"
        elif top == "viper":
            part = rest[0] if rest and rest[0] in RANK else "__init__"
            if RANK[part] > RANK[own]:
                yield f"{where} imports {name}, which is a higher layer than {own}"


def test_every_module_has_a_layer() -> None:
    homeless = {part_of(path) for path in modules()} - set(RANK)
    assert not homeless, f"assign a layer to: {sorted(homeless)}"


def test_the_page_on_architecture_lists_the_layers() -> None:
    page = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## Layers")[1].split("\n## ")[0]
    lines = re.findall(r"^\d+\. .+$", section, re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", "\n".join(lines))) == LAYERS


def test_the_page_on_architecture_names_every_room() -> None:
    page = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## Rooms")[1].split("\n## ")[0]
    heads = [line.split(":")[0] for line in re.findall(r"^- .+$", section, re.MULTILINE)]
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set(re.findall(r"`(\w+)`", "\n".join(heads))) == rooms


def test_imports_go_down() -> None:
    found = [breach for path in modules() for breach in breaches(path)]
    assert not found, "\n".join(found)


def test_only_jobs_and_commands_use_the_room_of_learning() -> None:
    users = {
        part_of(path)
        for path in modules()
        for _, name in imported(path, ast.parse(path.read_text(encoding="utf-8")))
        if f"{name}.".startswith("viper.tuning.")
    }
    assert users <= {"tuning", "jobs", "commands"}


def imported_modules(names: dict[str, Path], module: str) -> set[str]:
    """The modules among ``names`` that a module imports, wherever in it and for whatever."""
    path = names[module]
    found = {name for _, name in imported(path, ast.parse(path.read_text(encoding="utf-8")))}
    return {name if name in names else name.rpartition(".")[0] for name in found} & set(names)


@pytest.mark.parametrize("package", ["viper", "viper_lab"])
def test_no_files_import_each_other_in_a_circle(package: str) -> None:
    names = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    graph = {module: imported_modules(names, module) - {module} for module in names}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


@pytest.mark.parametrize("part", ["errors", "schema", "api", "prompting", "sandbox", "cli"])
def test_light_parts_name_no_heavy_package(part: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE.parent)}:{line} imports {name}"
        for path in modules()
        if part_of(path) == part
        for line, name in imported(path, ast.parse(path.read_text(encoding="utf-8")))
        if name.split(".")[0] in HEAVY
    ]
    assert not found, "\n".join(found)


def test_the_check_itself_sees_a_breach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_layers.PACKAGE", tmp_path / "viper")
    module = tmp_path / "viper" / "api" / "bad.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "import api\nfrom viper.tools import toolbox\nfrom ..data import gqa\nimport viper.errors\n"
        "def f():\n    from viper import profiles\n    from viper_lab.world import scene\n"
    )
    found = [text.split(" imports ")[1].split(",")[0].split()[0] for text in breaches(module)]
    assert found == [
        "api",
        "viper.tools.toolbox",
        "viper.data.gqa",
        "viper.profiles",
        "viper_lab.world.scene:",
    ]


# Lines of code that the product may have, in at most so many files. Whoever adds a feature takes
# something of its size out, or raises the ceiling with a reason in the commit.
CEILING_LINES, CEILING_FILES = 55_614, 449


def code_lines(path: Path) -> int:
    """Count a file's lines without blank ones, comments and docstrings."""
    text = path.read_text(encoding="utf-8")
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    documentation = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    layout = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT}
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    code = {
        line
        for token in tokens
        if token.type not in layout and token.type != tokenize.ENDMARKER
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - documentation)


def test_the_house_stays_below_its_ceiling() -> None:
    lines = sum(code_lines(path) for path in modules())
    assert lines <= CEILING_LINES, f"{lines} lines of code"
    assert len(modules()) <= CEILING_FILES


def test_code_lines_leave_out_blank_lines_comments_and_docstrings(tmp_path: Path) -> None:
    path = tmp_path / "small.py"
    lines = ['"""Two', 'lines."""', "", "# why", "X = 1", "", "def f():", '    """One."""']
    path.write_text("\n".join([*lines, "    return (", "        X", "    )"]))
    assert code_lines(path) == 5
