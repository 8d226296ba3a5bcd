"""The viewer takes what would have been right, from its own pages and nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.web.test_trace_page import HOSTILE, Reader
from tests.web.test_viewer import TOKEN, Site
from viper.evaluate.runs.feedback import FEEDBACK, Feedback, read_feedback

KEY = "id=q3&seed=0"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def kept(site: Site) -> list[Feedback]:
    return read_feedback(site.viewer.shelves[0].store.folder)


def say(site: Site, key: str = KEY, **fields: str) -> tuple[int, str]:
    answer = site.client.post(f"/{TOKEN}/feedback?{key}", data=fields, follow_redirects=False)
    return answer.status_code, answer.headers.get("location", answer.text)


def test_a_comment_alone_is_kept_and_shown(site: Site) -> None:
    assert "A comment in words" in Reader(site.get(f"trace?{KEY}").text).words
    assert say(site, comment=" it took the shadow ", answer="") == (303, f"trace?{KEY}#feedback")
    (one,) = kept(site)
    assert (one.sample_id, one.answer, one.comment) == ("q3", None, "it took the shadow")
    say(site, answer="red")
    page = Reader(site.get(f"trace?{KEY}").text).words
    assert "it took the shadow" in page and "right is red" in page
    assert "it took the shadow" not in Reader(site.get("trace?id=q4&seed=0").text).words


def test_what_is_refused_says_why_and_keeps_what_was_typed(site: Site) -> None:
    code, page = say(site, answer="", comment="  ")
    assert code == 400 and "feedback needs the right answer, a comment, or both" in page
    code, page = say(site, comment="x" * 4_001, answer="violet")
    assert code == 400 and "at most 4,000" in page and 'value="violet"' in page
    assert not kept(site)


def test_who_may_not_say_anything(site: Site) -> None:
    assert say(site, "id=nobody&seed=0", comment="x")[0] == 404
    assert say(site, f"{KEY}&run=5", comment="x")[0] == 404
    client = site.client
    for path in ("/feedback", f"/{TOKEN}x/feedback", f"/{TOKEN}/a/feedback"):
        assert client.post(f"{path}?{KEY}", data={"comment": "x"}).status_code == 404, path
    assert client.post(f"/{TOKEN}/trace?{KEY}", data={"comment": "x"}).status_code == 405
    address = f"/{TOKEN}/feedback?{KEY}"
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert client.post(address, data={"comment": "x"}, headers=elsewhere).status_code == 404
    assert client.get(address).status_code == 405
    assert not kept(site)


def test_strange_bodies(site: Site) -> None:
    address = f"/{TOKEN}/feedback?{KEY}"
    for body, code in ((b"comment=" + b"x" * 200_000, 413), (b"\xff\xfe", 400), (b"&" * 99, 400),
                       (b"a=1&" * 99, 400), (b"", 400)):  # fmt: skip
        assert site.client.post(address, content=body).status_code == code, body[:9]
    assert not kept(site)


def test_remarks_are_text_and_their_page_lets_no_script_run(site: Site) -> None:
    say(site, comment=HOSTILE, answer=HOSTILE)
    page = site.get(f"trace?{KEY}").text
    assert HOSTILE in Reader(page).text and "<script>window" not in page
    assert "form-action 'self'" in page.replace("&#39;", "'")
    (site.viewer.shelves[0].store.folder / FEEDBACK).write_text("nonsense\n" * 2)
    assert site.get(f"trace?{KEY}").status_code == 200
