"""A real browser: Debian's chromium, or the one that VIPER_BROWSER names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

INSTALL = "install it (apt-get install chromium), or name one in VIPER_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 60_000
"""What a page may take to show something where the machine is busy."""
SCREENSHOTS = Path(__file__).parents[2] / "test-screenshots"


def found_browser() -> str | None:
    """The browser's executable, None where there is none."""
    named = os.environ.get("VIPER_BROWSER")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """The browser, started once; gone with these tests, for its event loop occupies the thread."""
    executable = found_browser()
    if executable is None:
        if os.environ.get("VIPER_BROWSER_TESTS"):
            pytest.fail(f"no chromium found; {INSTALL}")
        pytest.skip(f"no chromium found; {INSTALL}")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Callable[..., Any]]:
    """Opens an address; at the end nothing may have been complained of on any console.

    ``options`` are those of a browser context: ``viewport``, ``color_scheme``, …  A test takes
    it after the fixture of its server, so that pages are closed before what they ask is gone.
    """
    contexts, complaints = [], []

    def opened(address: str | Path, **options: Any) -> Any:
        context = chromium.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: complaints.append(said.text) if said.type in ("error", "warning") else 0,
        )
        page.goto(address.as_uri() if isinstance(address, Path) else address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture(scope="session")
def shoot() -> Callable[[Any, str], None]:
    """Keeps a picture of a page for whoever wants to look."""

    def taken(page: Any, name: str) -> None:
        SCREENSHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)

    return taken


@pytest.fixture(scope="session")
def violations() -> Callable[[Any], list[str]]:
    """What axe finds on a page; that includes every rule of WCAG 2.2 AA that it knows."""
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()

    def found(page: Any) -> list[str]:
        # It is not loaded into frames, and complains on the console where it may not speak to one.
        broken_rules = axe.run(page, options={"iframes": False}).response["violations"]
        return [f"{rule['id']}: {n['html'][:200]}" for rule in broken_rules for n in rule["nodes"]]

    return found


@pytest.fixture
def check_page(
    tab: Callable[..., Any], violations: Callable[[Any], list[str]]
) -> Callable[[str | Path], None]:
    """Check a page on a desktop and a phone, light and dark; ``tab`` checks the console."""

    def checked(address: str | Path) -> None:
        for width, scheme in ((1440, "light"), (1440, "dark"), (390, "light"), (390, "dark")):
            page = tab(address, viewport={"width": width, "height": 900}, color_scheme=scheme)
            assert violations(page) == [], (address, width, scheme)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, address

    return checked
