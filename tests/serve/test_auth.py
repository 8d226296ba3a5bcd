"""Who is let in, and that the token goes nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.serve.bench import Served, served
from viper.errors import UsageError
from viper.serve.settings import ServeSettings, is_loopback

TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    with served(token=TOKEN) as server:
        yield server


@pytest.mark.parametrize("path", ["/metrics", "/openapi.json", "/nothing", "/v1/run"])
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Basic {TOKEN}",
        TOKEN,
        "Bearer \xff",
    ],
)
def test_without_the_token_there_is_nothing(guarded: Served, path: str, header: str | None) -> None:
    headers = [] if header is None else [("Authorization", header.encode("latin-1"))]
    answer = guarded.client.post(path, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_two_tokens_are_none(guarded: Served) -> None:
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert guarded.client.get("/metrics", headers=headers).status_code == 401


def test_with_the_token_from_anywhere(guarded: Served) -> None:
    headers = {"Authorization": f"bearer {TOKEN}", "Host": "viper.example"}
    assert guarded.run(headers=headers).status_code == 200
    assert guarded.client.get("/openapi.json", headers=headers).status_code == 200


def test_health_needs_no_token(guarded: Served) -> None:
    assert guarded.client.get("/healthz").status_code == 200
    assert guarded.client.get("/readyz").status_code == 200


def test_the_token_reaches_no_log_and_no_answer() -> None:
    with served(token=TOKEN, log_queries=True) as server:
        answers = [
            server.run(headers={"Authorization": f"Bearer {TOKEN}"}),
            server.run(headers={"Authorization": f"Basic {TOKEN}"}),
            server.client.get(f"/metrics?token={TOKEN}"),
        ]
        server.log.until(path="/metrics")
        logged = "\n".join(server.log.texts)
    assert [answer.status_code for answer in answers] == [200, 401, 401]
    assert TOKEN not in logged + "".join(answer.text for answer in answers)
    assert TOKEN not in repr(server.service.settings)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "evil.example:8000"},
        {"Host": "127.0.0.1@evil.example"},
        {"Host": "[::1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
    ids=str,
)
def test_without_a_token_pages_of_others_are_refused(
    server: Served, headers: dict[str, str]
) -> None:
    answer = server.run(headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


def test_the_servers_own_origin_is_let_in(server: Served) -> None:
    assert server.run(headers={"Origin": server.url}).status_code == 200
    port = httpx.URL(server.url).port
    assert server.run(headers={"Host": f"localhost:{port}"}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.2", "viper.example"])
def test_others_are_served_with_a_token_only(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(UsageError, match="no token; set one in the environment") as caught:
        ServeSettings(host=host)
    assert "\n" not in str(caught.value)
    assert ServeSettings(host=host, token=TOKEN).host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"])
def test_this_machine_needs_none(host: str) -> None:
    assert is_loopback(host) and ServeSettings(host=host).token is None


@pytest.mark.parametrize("token", ["", "short", "x" * 15, "x" * 20 + "\n", "é" * 20, "a b" * 9])
def test_weak_and_unsendable_tokens(token: str) -> None:
    with pytest.raises(UsageError, match="token"):
        ServeSettings(token=token)
