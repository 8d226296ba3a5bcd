"""The index and the links between pages lead somewhere, and to every page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import viper

ROOT = Path(viper.__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def links(page: Path) -> set[str]:
    """What a page links, code left out."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return set(_LINK.findall(text))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings}


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / link).resolve() for link in _LINK.findall(index.read_text("utf-8"))}
    assert {page for page in PAGES if page not in linked} == {index}


@pytest.mark.parametrize(
    "name", ["README.md", "CHANGELOG.md", *(str(page.relative_to(ROOT)) for page in PAGES)]
)
def test_links_lead_somewhere(name: str) -> None:
    """A link to a removed domain of examples/ is no mistake: nothing else needs its folder."""
    page = ROOT / name
    for link in links(page):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists() or target == ROOT / "examples" / "nlvr", link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_files_of_the_code_exist(page: Path) -> None:
    names = re.findall(
        r"`((?:viper|viper_lab|tests|benchmarks)/[\w/]+\.\w+)", page.read_text("utf-8")
    )
    assert {name for name in names if not (ROOT / name).exists()} == set()
