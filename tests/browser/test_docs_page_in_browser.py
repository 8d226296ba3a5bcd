"""The page ``/docs`` of the service as a person reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.serve.bench import served

Tab = Callable[..., Any]


def test_it_reads_offline_on_wide_and_narrow_screens(
    tab: Tab, violations: Callable[[Any], list[str]], shoot: Callable[[Any, str], None]
) -> None:
    with served() as server:
        for scheme, width in (("light", 1200), ("dark", 400)):
            found = tab(
                "about:blank", color_scheme=scheme, viewport={"width": width, "height": 800}
            )
            asked: list[str] = []
            found.on("request", lambda request, asked=asked: asked.append(request.url))
            found.goto(f"{server.url}/docs")
            found.get_by_role("heading", name="POST /v1/run").wait_for()
            assert violations(found) == []
            assert found.evaluate("document.documentElement.scrollWidth") <= width
            assert [one for one in asked if not one.startswith(server.url)] == []
        shoot(found, "docs-phone-dark")
        shoot(tab(f"{server.url}/docs"), "docs")
