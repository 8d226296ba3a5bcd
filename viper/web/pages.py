"""Templates, scripts and styles of all pages. Templates escape all values."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from viper.escape import python_lines
from viper.evaluate.reports.error_diagram import PARTS
from viper.evaluate.reports.tables import answer_words, target_words
from viper.web.values import DisplayValue

_HERE = Path(__file__).parent
_KINDS = {".css": "text/css", ".js": "text/javascript"}

# Size limits of a crop between the lines, in pixels of the page.
CROP_HEIGHT, WIDEST_CROP = 64, 160


def rendered(template: str, **values: Any) -> str:
    """Render a template with these values."""
    return _templates().get_template(template).render(**values)


@cache
def asset(name: str) -> str:
    """Return the text of a script, or of a style with the colors of programs."""
    text = (_HERE / "static" / name).read_text("utf-8")
    colors = resources.files("viper.evaluate.reports") / "templates" / "python.css"
    return text + colors.read_text("utf-8") if name.endswith(".css") else text


def static_file(name: str) -> tuple[str, str] | None:
    """Return a script or a style with its media type, or None for an unknown name."""
    names = {path.name for path in (_HERE / "static").iterdir()}
    return (asset(name), _KINDS[Path(name).suffix]) if name in names else None


def crop_size(crop: DisplayValue) -> tuple[int, int]:
    """Return width and height of a crop on the page."""
    assert crop.box is not None
    width, height = (max(1.0, crop.box[i + 2] - crop.box[i]) for i in (0, 1))
    scale = min(CROP_HEIGHT / height, WIDEST_CROP / width)
    return max(8, round(width * scale)), max(8, round(height * scale))


def in_seconds(value: float) -> str:
    """Return a duration in a suitable unit."""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def line_changes(before: str, after: str) -> list[tuple[str, str]]:
    """Return the lines of both programs in one list, each as ``same``, ``gone`` or ``new``."""
    kinds = {"  ": "same", "- ": "gone", "+ ": "new"}
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [(kinds[line[:2]], line[2:]) for line in lines if line[:2] in kinds]


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["crop_size"] = crop_size
    environment.filters["python_lines"] = python_lines
    environment.filters["seconds"] = in_seconds
    environment.filters["answer"] = answer_words
    environment.filters["target"] = target_words
    environment.filters["part_class"] = lambda part: f"part-{PARTS.index(part)}"
    return environment
