"""The web provider against a real HTTP server on this machine."""

from __future__ import annotations

import io
import json
import threading
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image

from tests.search.site import Site
from viper.errors import MediaError, ModelError, StoreError, UsageError
from viper.models.llm.retry import Backoff
from viper.search.web_service import at_path, host_of
from viper.tuning.data_collection import collect_pictures
from viper.tuning.picture_web import PictureService, WebSearch
from viper.tuning.training_data import ConceptQuery, PictureSearch


def png(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((4, 4, 3), value, np.uint8)).save(file, format="PNG")
    return file.getvalue()


class PictureSite(Site):
    def results(self, *links: object) -> None:
        items = [{"link": link, "image": {"contextLink": "http://page"}} for link in links]
        self.serve("/search", json.dumps({"items": items}).encode())


@pytest.fixture
def site():
    served = PictureSite()
    yield served
    served.close()


@pytest.fixture
def make(site, tmp_path):
    opened = []

    def search(**more) -> WebSearch:
        address = more.pop("address", site.url + "/search?q={text}&n={limit}")
        service = PictureService(address, backoff=Backoff(max_retries=2), **more)
        opened.append(WebSearch(service, tmp_path / "web", sleep=lambda _: None))
        return opened[-1]

    yield search
    for each in opened:
        each.close()


def test_what_a_service_finds_is_fetched_read_and_kept(site, make, tmp_path):
    site.results(*[site.serve(f"/{i}.png", png(i)) for i in range(3)])
    search = make(page="image.contextLink")
    assert isinstance(search, PictureSearch)
    found = search.search("sea & sand", 2)
    assert [int(each.pixels()[0, 0, 0]) for each in found] == [0, 1]
    assert parse_qs(urlsplit(site.seen[0][0]).query) == {"q": ["sea & sand"], "n": ["4"]}
    assert found[0].origin["address"] == site.url + "/0.png"
    assert found[0].origin["page"] == "http://page"
    kept = tmp_path / "web" / found[0].origin["sha256"]
    assert kept.read_bytes() == png(0)
    assert sorted(each.name for each in kept.parent.iterdir()) == sorted(
        each.origin["sha256"] for each in found
    )
    kept.write_bytes(png(9))
    with pytest.raises(MediaError, match="not what was fetched"):
        found[0].pixels()


def test_what_is_no_picture_is_left_out_and_named(site, make, tmp_path):
    site.results(
        site.serve("/page.png", b"<html>no picture</html>"),
        site.url + "/gone.png",
        site.serve("/cut.png", png(5)[:45]),
        7,
        "file:///etc/passwd",
        "ftp://127.0.0.1/x.png",
        "http://elsewhere.example/x.png",
        "http://127.0.0.1@elsewhere.example/x.png",
        site.serve("/big.png", b"x" * 5_000),
        site.serve("/good.png", png(6)),
    )
    search = make(max_picture_bytes=4_000)
    (found,) = search.search("x", 6)
    assert found.origin["address"].endswith("/good.png")
    why = dict(search.refused)
    assert len(why) == 8
    assert why[site.url + "/page.png"] == "is no picture that can be read"
    assert "status 404" in why[site.url + "/gone.png"]
    assert "not http(s)" in why["file:///etc/passwd"]
    assert "add it to hosts" in why["http://elsewhere.example/x.png"]
    assert "more than 4,000 bytes" in why[site.url + "/big.png"]
    assert len(list((tmp_path / "web").iterdir())) == 1


def test_pictures_come_from_named_hosts_only(site, make):
    there = site.serve("/a.png", png(1)).replace("127.0.0.1", "localhost")
    site.results(there)
    assert make().search("x", 1) == []
    assert len(make(hosts=("localhost",)).search("x", 1)) == 1


def test_redirections_are_followed_to_named_hosts_only(site, make):
    good = site.serve("/good.png", png(1))
    near = site.serve("/near", b"", 302, Location="/good.png")
    far = site.serve("/far", b"", 302, Location=good.replace("127.0.0.1", "localhost"))
    local = site.serve("/local", b"", 301, Location="file:///etc/passwd")
    loop = site.serve("/loop", b"", 307, Location="/loop")
    site.results(near, far, local, loop)
    search = make()
    assert [each.origin["address"] for each in search.search("x", 2)] == [near]
    why = dict(search.refused)
    assert set(why) == {far, local, loop} and "on and on" in why[loop]


def test_the_key_goes_to_the_service_alone(site, make, monkeypatch):
    monkeypatch.setenv("SEARCH_KEY", "s3cret-key")
    site.results(site.serve("/a.png", png(1)), site.url + "/gone.png")
    search = make(key_env="SEARCH_KEY")
    (found,) = search.search("x", 1)
    (asked, picture) = site.seen
    assert asked[1]["authorization"] == "Bearer s3cret-key"
    assert "authorization" not in picture[1]
    assert "s3cret" not in repr((search.refused, found, search._service, search.name))


def test_the_key_is_not_sent_on_to_another_host(site, make, monkeypatch):
    monkeypatch.setenv("SEARCH_KEY", "s3cret-key")
    site.serve("/other", b'{"items": []}')
    there = site.url.replace("127.0.0.1", "localhost") + "/other"
    site.serve("/search", b"", 302, Location=there)
    assert make(key_env="SEARCH_KEY", hosts=("localhost",)).search("x", 1) == []
    assert "authorization" in site.seen[0][1] and "authorization" not in site.seen[1][1]


def test_the_key_as_a_parameter_stands_in_no_message(site, make, monkeypatch):
    monkeypatch.setenv("SEARCH_KEY", "s3cret key")
    site.serve("/search", b"s3cret key", 403)
    search = make(key_env="SEARCH_KEY", key_header="", key_parameter="token")
    with pytest.raises(ModelError, match="status 403") as caught:
        search.search("x", 1)
    assert "s3cret" not in str(caught.value)
    assert parse_qs(urlsplit(site.seen[0][0]).query)["token"] == ["s3cret key"]
    monkeypatch.delenv("SEARCH_KEY")
    with pytest.raises(UsageError, match="SEARCH_KEY holds no key"):
        search.search("x", 1)


def test_what_fails_in_passing_is_repeated_and_not_for_ever(site, make):
    site.results(site.serve("/a.png", png(1)))
    working = site.routes["/search"]
    site.serve("/search", b"busy", 503)
    failing, times = site.routes["/search"], []

    def twice(handler: BaseHTTPRequestHandler) -> None:
        times.append(1)
        (failing if len(times) < 3 else working)(handler)

    site.routes["/search"] = twice
    assert len(make().search("x", 1)) == 1 and len(times) == 3
    site.routes["/search"] = failing
    with pytest.raises(ModelError, match="given up after 3 tries"):
        make().search("x", 1)


def test_a_server_that_stops_in_between_is_given_up(site, make):
    def stops(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"half")

    site.routes["/search"] = stops
    with pytest.raises(ModelError, match="no complete answer"):
        make().search("x", 1)


def test_a_server_that_trickles_is_given_up(site, make):
    over = threading.Event()

    def trickles(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        try:
            while not over.wait(0.02):
                handler.wfile.write(b" ")
        except OSError:
            pass

    site.routes["/search"] = trickles
    try:
        with pytest.raises(ModelError, match=r"no complete answer in 0\.2 s"):
            make(timeout_s=0.2).search("x", 1)
    finally:
        over.set()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>", "something else than JSON"),
        (b"[" * 100_000, "something else than JSON"),
        (b"\xff", "something else than JSON"),
        (b"{}", "no list at 'items'"),
        (b'{"items": {"a": 1}}', "no list at 'items'"),
        (b" " * 5_000_000, "more than 4,194,304 bytes"),
    ],
)
def test_replies_of_another_shape(site, make, body, says):
    site.serve("/search", body)
    with pytest.raises(ModelError, match=says):
        make().search("x", 1)


def test_a_packed_reply_is_refused(site, make):
    import gzip

    site.serve("/search", gzip.compress(b'{"items": []}'), Content_Encoding="gzip")
    with pytest.raises(ModelError, match="packed"):
        make().search("x", 1)


def test_a_folder_that_cannot_be_written(site, make, tmp_path):
    (tmp_path / "web").write_text("a file")
    site.results(site.serve("/a.png", png(1)))
    with pytest.raises(StoreError, match="cannot be written"):
        make().search("x", 1)


def test_positives_and_negatives_from_the_web(site, make):
    site.results(*[site.serve(f"/{i}.png", png(i)) for i in range(3)])
    got = collect_pictures(ConceptQuery("mug", ("cup",)), make(), limit=2, negatives=2)
    assert len(got.positives) == 2 and got.evidence["source"] == "web:127.0.0.1"
    assert [int(each.pixels()[0, 0, 0]) for each in got.negatives] == [2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"address": "http://h.example/?q="},
        {"address": "file:///x?q={text}"},
        {"address": "http://{text}.example/"},
        {"address": "http://me:pw@h.example/?q={text}"},
        {"address": "http://h.example:x/?q={text}"},
        {"hosts": ("https://h",)},
        {"hosts": ("H.example",)},
        {"hosts": ("*",)},
        {"hosts": ("",)},
        {"hosts": (".",)},
        {"most": 0},
        {"timeout_s": 0},
        {"picture": ""},
        {"key_env": "K", "key_header": ""},
    ],
)
def test_services_that_are_none(wrong):
    with pytest.raises(UsageError):
        PictureService(**{"address": "https://h.example/?q={text}", **wrong})


def test_hosts_are_compared_whole():
    service = PictureService("https://h.example/?q={text}", hosts=(".img.example", "a.b"))
    for good in (
        "http://H.example/x",
        "https://x.img.example:99/",
        "http://img.example",
        "http://a.b",
    ):
        assert service.allows(good), good
    for bad in (
        "http://evilimg.example",
        "http://h.example.evil/",
        "http://x.a.b",
        "http://h.example\\@evil/",
        "//h.example/x",
        "gopher://h.example/",
        "http://",
        "http://h.example/\n",
        None,
        5,
    ):
        assert not service.allows(bad), bad
    assert host_of("http://[::1]:80/") == "::1"


def test_paths_into_a_reply():
    value = {"a": [{"b": 1}], "c": "x"}
    assert at_path(value, "a.0.b") == 1 and at_path(value, "") is value
    for nothing in ("a.1.b", "a.-1", "c.0", "a.b", "a.99999999999999999999", "a.²"):
        assert at_path(value, nothing) is None
