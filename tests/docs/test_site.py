"""The pages build as a site without network, and nothing in it leads nowhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

import viper

ROOT = Path(viper.__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_link_leads_to_a_page_and_its_heading(site: Path) -> None:
    pages = {path: path.read_text("utf-8") for path in site.rglob("*.html")}
    ids = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    lost = []
    for page, text in pages.items():
        if page.name == "404.html":  # its links are absolute: nobody knows where it is shown
            continue
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            if urlsplit(link).scheme:
                continue
            path, anchor = urldefrag(link)
            target = (page.parent / unquote(path)).resolve() if path else page
            target = target / "index.html" if target.is_dir() else target
            missing = not target.exists() or (
                target in ids and anchor and anchor not in ids[target]
            )
            if missing and anchor != "__codelineno":
                lost.append(f"{page.relative_to(site)}: {link}")
    assert lost == []


def test_a_reader_needs_no_other_host(site: Path) -> None:
    """Scripts, styles, fonts and pictures come with the site."""
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        loaded = re.findall(r'<(?:script|img)[^>]+src="([^"]+)"', text)
        loaded += re.findall(r'<link rel="stylesheet" href="([^"]+)"', text)
        assert [link for link in loaded if urlsplit(link).netloc] == [], page


def test_the_reference_shows_what_the_package_offers(site: Path) -> None:
    text = (site / "reference" / "index.html").read_text("utf-8")
    assert {'id="viper.Reasoner.run"', 'id="viper.sandbox.Sandbox"'} <= set(
        re.findall(r'id="viper[^"]+"', text)
    )
