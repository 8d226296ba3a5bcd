"""The page ``/docs``: every endpoint and field, and nothing from elsewhere."""

from __future__ import annotations

import re

from tests.serve.bench import Served, served
from tests.web.test_trace_page import Reader


def test_every_endpoint_field_and_answer_is_on_the_page() -> None:
    with served(allow_exec=True) as server:
        answer = server.client.get("/docs")
        document = server.client.get("/openapi.json").json()
    assert answer.headers["content-type"].startswith("text/html")
    page = Reader(answer.text)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in page.words
            assert all(
                reply["description"] in page.words for reply in operation["responses"].values()
            )
            for body in operation.get("requestBody", {"content": {}})["content"].values():
                assert all(f">{name}" in answer.text for name in body["schema"]["properties"])
    assert "query (required)" in page.words and "from 0 to 2" in page.words
    assert "repeatable: binary" in page.words and "ground, question, choice" in page.words


def test_the_page_loads_nothing(server: Served) -> None:
    text = server.client.get("/docs").text
    assert "default-src 'none'" in text and "<script" not in text
    assert re.findall(r"https?://", text) == []
    links = [its["href"] for _, its in Reader(text).elements if its.get("href")]
    assert set(links) == {"openapi.json"} and server.client.get("/openapi.json").status_code == 200


def test_the_page_needs_the_token() -> None:
    with served(token="a" * 32) as server:
        assert server.client.get("/docs").status_code == 401
        headers = {"Authorization": f"Bearer {'a' * 32}"}
        assert server.client.get("/docs", headers=headers).status_code == 200
