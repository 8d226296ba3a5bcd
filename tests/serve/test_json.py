"""Requests in JSON: the same fields, limits and errors as those of forms."""

from __future__ import annotations

import base64
import json
from typing import Any

import httpx
import pytest

from tests.serve.bench import Served, png, served
from tests.serve.test_refusals import refused

PICTURE = base64.b64encode(png()).decode()


def post(server: Served, body: Any, path: str = "/v1/run") -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    return server.client.post(path, content=content, headers=headers)


def test_the_answer_is_that_of_the_form(server: Served) -> None:
    fields = {"query": "the leftmost cube", "trials": 1, "temperature": 0.5, "seed": None}
    answer = post(server, {**fields, "media": [PICTURE]})
    alike = post(server, {**fields, "media": PICTURE})
    form = server.run(trials="1", temperature="0.5")
    assert answer.status_code == alike.status_code == form.status_code == 200
    assert answer.json()["box"] == alike.json()["box"] == form.json()["box"]
    assert answer.json()["box"] == [10.0, 40.0, 20.0, 50.0]


def test_lists_and_programs() -> None:
    program = (
        "def execute_command(image, question, possible_answers):\n    return possible_answers[1]"
    )
    with served(program, allow_exec=True) as server:
        fields = {"query": "which?", "options": ["left", "right; top"], "media": [PICTURE]}
        assert post(server, fields).json()["answer"] == "right; top"
        run = post(server, {"program": "answer = 1 + 1", "media": [PICTURE]}, "/v1/exec")
        assert run.json()["answer"] == 2


@pytest.mark.parametrize("text", ["?", "aGk", "data:image/png;base64,aGk=", "ä", 7, None, {"a": 1}])
def test_bad_base64_is_one_line(server: Served, text: Any) -> None:
    answer = post(server, {"query": "the cube", "media": [PICTURE, text]})
    message = refused(answer, 422, "media")
    assert message.startswith("media1: not base64")


def test_bytes_that_are_no_picture(server: Served) -> None:
    text = base64.b64encode(b"hello").decode()
    answer = post(server, {"query": "the cube", "media": [text]})
    assert refused(answer, 422, "media").startswith("media0: ")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "a JSON object"),
        ({"query": "the cube"}, "no media"),
        ({"media": [PICTURE]}, "query"),
        ({"media": [PICTURE], "query": ["a", "b"]}, "given twice"),
        ({"media": [PICTURE], "query": {"a": 1}}, "query"),
        ({"media": [PICTURE], "query": "\ud800"}, "query"),
        ({"media": [PICTURE], "query": "a", "\ud800": 1}, "unicode"),
        ({"media": [PICTURE], "query": "a", "colour": "red"}, "colour"),
        ({"media": [PICTURE], "query": "a", "temperature": float("nan")}, "temperature"),
        ({"media": [PICTURE], "query": "a", "options": ["a"] * 129}, "at most"),
        ({"media": [PICTURE] * 9, "query": "a"}, "at most 8 media"),
    ],
)
def test_wrong_bodies(server: Served, body: Any, says: str) -> None:
    assert says in refused(post(server, body), 400, "usage")


def test_a_body_above_the_limit() -> None:
    with served(max_upload_mb=0.01) as server:
        body = json.dumps({"query": "a", "media": ["A" * 20_000]}).encode()
        refused(post(server, body), 413, "too_large")
        chunks = iter([body[:100], body[100:]])
        headers = {"Content-Type": "application/json"}
        refused(server.client.post("/v1/run", content=chunks, headers=headers), 413, "too_large")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "application/json; charset=utf-16"]
)
def test_other_bodies_are_refused(server: Served, kind: str) -> None:
    answer = server.client.post("/v1/run", content=b"{}", headers={"Content-Type": kind})
    refused(answer, 415, "not_multipart")
