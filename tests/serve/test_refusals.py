"""What the server turns down, and what it says and does not say about it."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.serve.bench import Served, media, png, served
from viper.embedded import MEDIA
from viper.errors import UsageError
from viper.serve.replies import error_body

CLIP = (MEDIA / "clip.mp4").read_bytes()


def refused(answer: httpx.Response, status: int, code: str) -> str:
    """The message of an error answer."""
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"} and set(answer.json()["error"]) == {"code", "message"}
    message = answer.json()["error"]["message"]
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"query": ""}, "query"),
        ({"query": " \t\n"}, "query"),
        ({"query": "x" * 4001}, "at most 4000"),
        ({"query": ["a", "b"]}, "given twice"),
        ({"task": "dance"}, "task"),
        ({"trials": "0"}, "trials"),
        ({"trials": "many"}, "trials"),
        ({"temperature": "nan"}, "temperature"),
        ({"temperature": "2.5"}, "temperature"),
        ({"seed": str(-(2**31) - 1)}, "seed"),
        ({"seed": str(2**31 + 1)}, "seed"),
        ({"task": "choice", "options": "one"}, "at least two options"),
        ({"options": [str(number) for number in range(65)]}, "at most 64"),
        ({"colour": "red"}, "colour"),
        ({"media": "text"}, "expected a file"),
    ],
    ids=str,
)
def test_wrong_fields(server: Served, fields: dict[str, Any], says: str) -> None:
    given = {"query": "the cube", **fields}
    assert says in refused(server.run(**given), 400, "usage")


@pytest.mark.parametrize("field", ["api", "strategy"])
def test_unknown_names_list_the_known(server: Served, field: str) -> None:
    assert "known: " in refused(server.run(**{field: "luck"}), 400, "unknown_name")


def test_an_api_is_no_way_to_run_a_file_of_the_server(server: Served, tmp_path: Path) -> None:
    trap = tmp_path / "trap.py"
    trap.write_text(f"open({str(tmp_path / 'sprung')!r}, 'w')\n")
    refused(server.run(api=str(trap)), 400, "unknown_name")
    refused(server.run(api=f"abstract+{trap}"), 400, "unknown_name")
    assert not (tmp_path / "sprung").exists()


def test_no_media_and_no_query(server: Served) -> None:
    only_query = server.client.post("/v1/run", files={"query": (None, "the cube")})
    assert "no media" in refused(only_query, 400, "usage")
    assert "query" in refused(server.client.post("/v1/run", files=media()), 400, "usage")


def test_a_file_as_a_text_field(server: Served) -> None:
    answer = server.client.post("/v1/run", files=[*media(), ("query", ("q", b"the cube"))])
    assert "only media are sent as files" in refused(answer, 400, "usage")


def test_too_many_files() -> None:
    with served(max_files=2) as server:
        assert "files" in refused(server.run(files=media(*[png()] * 3)), 400, "usage")


@pytest.mark.parametrize(
    "content",
    [
        *[b"", b"hello", png()[:60], png()[:-30], b"GIF89a" + bytes(20), b"\x00" * 5000],
        *[CLIP[:3000], CLIP[: len(CLIP) // 2], CLIP.replace(b"avc1", b"\xff" * 4)],
    ],
    ids=[
        *["empty", "text", "cut early", "cut late", "bad GIF", "zeros"],
        *["cut video", "half a video", "video of no codec"],
    ],
)
def test_malformed_media_are_named_by_number_alone(server: Served, content: bytes) -> None:
    answer = server.run(files=[("media", ("/etc/<b>secret</b>.png", content))])
    message = refused(answer, 422, "media")
    assert message.startswith("media0: ")
    assert "viper-serve-" not in message and "secret" not in message


def test_a_playlist_cannot_make_the_server_read_its_own_files(
    server: Served, tmp_path: Path
) -> None:
    playlist = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{tmp_path}/x.ts\n#EXT-X-ENDLIST\n"
    for name in ("list.m3u8", "list.mp4"):
        answer = server.run(files=[("media", (name, playlist.encode(), "application/x-mpegurl"))])
        refused(answer, 422, "media")


@pytest.fixture(scope="module")
def rooted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with a media root beside which secrets lie."""
    base = tmp_path_factory.mktemp("rooted")
    root = base / "shelf"
    (root / "inner").mkdir(parents=True)
    (base / "secret.png").write_bytes(png())
    (base / "shelf-twin").mkdir()
    (base / "shelf-twin" / "x.png").write_bytes(png())
    (root / "good.png").write_bytes(png())
    (root / "escape.png").symlink_to(base / "secret.png")
    (root / "up").symlink_to(base)
    (root / "loop").symlink_to(root / "loop")
    (root / "within.png").symlink_to(root / "good.png")
    os.mkfifo(root / "pipe")
    with served(media_roots=(root,)) as server:
        yield server, base


@pytest.mark.parametrize(
    "path",
    [
        "../secret.png",
        "inner/../../secret.png",
        "{base}/secret.png",
        "{base}/shelf/good.png",
        "escape.png",
        "up/secret.png",
        "up/shelf/../secret.png",
        "../shelf-twin/x.png",
        "up/shelf-twin/x.png",
        "loop",
        "pipe",
        "inner",
        ".",
        "good.png/x",
        "absent.png",
        "good.png\0",
        "x" * 300,
        "file:///etc/passwd",
        "http://127.0.0.1/x.png",
        "..\\secret.png",
        "%2e%2e/secret.png",
        "/dev/stdin",
    ],
)
def test_paths_out_of_the_root_are_no_files(rooted: tuple[Served, Path], path: str) -> None:
    server, base = rooted
    given = path.format(base=base)
    answer = server.client.post("/v1/run", files={"query": (None, "q"), "path": (None, given)})
    assert "no such file under a media root" in refused(answer, 422, "media")


def test_a_link_within_the_root_is_followed(rooted: tuple[Served, Path]) -> None:
    form = {"query": (None, "the cube"), "path": (None, "within.png")}
    assert rooted[0].client.post("/v1/run", files=form).status_code == 200


def test_a_damaged_file_of_the_root_is_named_as_the_caller_did(rooted: tuple[Served, Path]) -> None:
    server, base = rooted
    (base / "shelf" / "inner" / "bad.png").write_bytes(png()[:60])
    form = {"query": (None, "q"), "path": (None, "inner/bad.png")}
    message = refused(server.client.post("/v1/run", files=form), 422, "media")
    assert message.startswith("inner/bad.png: ") and str(base) not in message


def test_paths_need_a_root_and_exclude_uploads(server: Served, rooted: tuple[Served, Path]) -> None:
    form = {"query": (None, "q"), "path": (None, "good.png")}
    refused(server.client.post("/v1/run", files=form), 400, "usage")
    both = [*media(), ("query", (None, "q")), ("path", (None, "good.png"))]
    assert "both" in refused(rooted[0].client.post("/v1/run", files=both), 400, "usage")


@pytest.mark.parametrize(
    "kind",
    [
        None,
        "application/json; charset=utf-16",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=x; charset=undefined",
        "multipart/form-data; boundary=x; charset=utf-7",
        "multipart/mixed; boundary=x",
        "\xff",
    ],
)
def test_other_bodies(server: Served, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind.encode("latin-1")}
    refused(server.client.post("/v1/run", content=b"x", headers=headers), 415, "not_multipart")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"nonsense",
        b"--x\r\n",
        b"--x\r\nContent-Disposition: form-data\r\n\r\nv\r\n--x--\r\n",
        b'--x\r\nContent-Disposition: form-data; name="query"\r\n\r\n\xff\xfe\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="\xff\xfe"\r\n\r\nv\r\n--x--\r\n',
        b'--x\r\nContent-Disposition: form-data; name="media"; filename="',
    ],
)
def test_broken_forms(server: Served, body: bytes) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    refused(server.client.post("/v1/run", content=body, headers=headers), 400, "usage")


def test_a_boundary_that_is_far_too_long(server: Served) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary={'x' * 20_000}"}
    refused(server.client.post("/v1/run", content=b"x", headers=headers), 400, "usage")


def test_a_body_above_the_limit_by_its_header_and_by_its_length() -> None:
    with served(max_upload_mb=0.5) as server:
        large = media(bytes(600_000))
        refused(server.run(files=large), 413, "too_large")
        request = server.client.build_request("POST", "/v1/run", files=large, data={"query": "q"})
        body = request.read()
        headers = {"Content-Type": request.headers["content-type"]}

        def pieces() -> Any:
            for start in range(0, len(body), 50_000):
                yield body[start : start + 50_000]

        refused(server.client.post("/v1/run", content=pieces(), headers=headers), 413, "too_large")
        for _ in range(2):
            server.log.until(outcome="too_large")
        assert server.metric("viper_requests_total", endpoint="/v1/run", outcome="too_large") == 2
        assert server.run().status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/", 404, "not_found"),
        ("GET", "/redoc", 404, "not_found"),
        ("GET", "/v1/run/", 404, "not_found"),
        ("GET", "/../../etc/passwd", 404, "not_found"),
        ("GET", "/v1/run", 405, "method_not_allowed"),
        ("DELETE", "/healthz", 405, "method_not_allowed"),
    ],
)
def test_other_paths_and_methods(
    server: Served, method: str, path: str, status: int, code: str
) -> None:
    refused(server.client.request(method, path), status, code)


def test_an_internal_error_says_its_id_and_nothing_else() -> None:
    def broken(prompt: str) -> str:
        raise RuntimeError("the secret detail")

    with served(broken) as server:
        answer = server.run("private words")
        message = refused(answer, 500, "internal")
        line = server.log.until(path="/v1/run")
        text = "\n".join(server.log.texts)
    request_id = answer.headers["x-request-id"]
    assert "secret" not in answer.text and request_id in message
    assert (line["request_id"], line["error"], line["outcome"]) == (
        request_id,
        "RuntimeError",
        "internal",
    )
    assert any("broken" in place for place in line["where"])
    assert "secret" not in text and "private words" not in text


def test_a_message_is_one_line_whatever_it_quotes() -> None:
    body = error_body(UsageError("two\nlines\r\nand a third"), "id")
    assert body == {"error": {"code": "usage", "message": "two lines and a third"}}


def test_errors_of_the_server_keep_their_code_but_not_their_words() -> None:
    with served(lambda prompt: None) as server:  # type: ignore[arg-type, return-value]
        message = refused(server.run("private words"), 500, "script_exhausted")
    assert "private words" not in message and "log knows it" in message


def test_a_request_that_is_no_http() -> None:
    with served() as server:
        host, port = server.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
            assert raw.recv(1000).startswith(b"HTTP/1.1 400")
        assert server.run().status_code == 200


def test_more_pixels_than_a_request_may_hold_are_refused() -> None:
    with served(max_megapixels=0.001) as server:
        answer = server.run()
        assert answer.status_code == 422 and "at most 1,000 are read" in answer.text
