"""Imports go down the layers or sideways within one, and never through a root door."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import viper

PACKAGE = Path(viper.__file__).parent

LAYERS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "errors schema record agreement plugins",
        "storage",
        "sandbox",
        "api",
        "models",
        "tools search prompting testing",
        "reasoner strategies draw",
        "ace tuning",
        "data",
        "evaluate learning",
        "profiles",
        "web serve cli commands __main__ __init__",
    )
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}

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
    package = ("viper", *path.relative_to(PACKAGE).parts[:-1])
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


def test_imports_go_down() -> None:
    found = [breach for path in modules() for breach in breaches(path)]
    assert not found, "\n".join(found)


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
    monkeypatch.setattr("tests.test_layers.PACKAGE", tmp_path)
    module = tmp_path / "api" / "bad.py"
    module.parent.mkdir()
    module.write_text(
        "import api\nfrom viper.tools import hub\nfrom ..data import gqa\nimport viper.errors\n"
        "def f():\n    from viper import profiles\n    from viper_lab.world import scene\n"
    )
    found = [text.split(" imports ")[1].split(",")[0].split()[0] for text in breaches(module)]
    assert found == [
        "api",
        "viper.tools.hub",
        "viper.data.gqa",
        "viper.profiles",
        "viper_lab.world.scene:",
    ]
