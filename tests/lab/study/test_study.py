"""The page of a user study: forms alone, one state for each participant, records that stay."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.strategies.seek.test_seek import Bench, picture
from tests.web.test_trace_page import HOSTILE, Reader
from viper.data.sample import Sample
from viper.errors import UsageError
from viper.search.findings import SimilarPicture
from viper.serve.gate import AccessRules
from viper_lab.study.app import COOKIE, create_study
from viper_lab.study.records import Session, read_sessions
from viper_lab.study.sessions import Sessions, is_participant, new_participant

TOKEN = "a-token"


def sample(number: int, text: str = "who makes the red lamp?", **changes: str) -> Sample:
    given = {"task": "question", "media": "image", **changes}
    return Sample(f"s{number}", text, target="tarnix", load=picture, **given)


class Room:
    """A study of a few questions, with a browser."""

    def __init__(self, folder: Path, count: int = 2) -> None:
        self.bench, self.records = Bench([]), folder / "study" / "records.jsonl"
        samples = [sample(n, f"question {n}?") for n in range(count)]
        sessions = Sessions(self.bench.reasoner, samples, self.records)
        self.app = create_study(sessions, AccessRules("127.0.0.1", TOKEN, in_path=True))
        self.client = self.browser()

    def browser(self) -> TestClient:
        return TestClient(self.app, base_url="http://127.0.0.1")

    def page(self, client: TestClient | None = None) -> Reader:
        answer = (client or self.client).get(f"/{TOKEN}/")
        assert answer.status_code == 200
        return Reader(answer.text)

    def send(self, form: str, **fields: str) -> Reader:
        answer = self.client.post(f"/{TOKEN}/{form}", data=fields, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "./")
        return self.page()

    def kept(self) -> list[Session]:
        return list(read_sessions(self.records))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_a_question_is_answered_by_choosing_actions(room: Room) -> None:
    found = room.page()
    assert "Question 1 of 2" in found.words and "Nothing yet." in found.words
    offered = [its["value"] for _, its in found.elements if its.get("name") == "action"]
    assert "detect" in offered and "select" not in offered
    assert "object 1: a red lamp" in room.send("take", action="detect").words
    found = room.send("judge", worth="informative")
    assert [its["value"] for tag, its in found.elements if tag == "option"] == ["1", "2"]
    room.send("take", action="select", words="1")
    found = room.send("judge", worth="informative", told="")
    assert any(tag == "rect" for tag, _ in found.elements)  # what is looked at
    room.send("take", action="entities")
    room.send("judge", worth="informative", told="velora")
    found = room.send("end", found="yes", answer="tarnix")
    assert "Question 2 of 2" in found.words
    found = room.send("end", found="no", answer="")
    assert "Thank you" in found.words and "2 of 2" in found.words
    first, second = room.kept()
    assert [one.action for one in first.steps] == ["detect", "select", "entities"]
    assert first.found and first.answer == "tarnix" and not second.found and not second.steps
    assert is_participant(first.participant) and first.participant == second.participant


def test_what_cannot_be_done_says_why_and_nothing_is_lost(room: Room) -> None:
    room.page()
    assert "'select' cannot be done now" in room.send("take", action="select").words
    assert "say what the answer is" in room.send("end", found="yes").words
    assert "Question 1 of 2" in room.page().words and not room.records.exists()
    room.records.parent.write_text("in the way")
    assert "cannot be written" in room.send("end", found="no").words
    room.records.parent.unlink()
    assert "Question 2 of 2" in room.send("end", found="no").words


def test_everybody_has_a_place_of_their_own(room: Room) -> None:
    room.page()
    room.send("take", action="caption")
    other = room.browser()
    assert "What next?" in room.page(other).words and "caption found" in room.page().words
    assert room.client.cookies[COOKIE] != other.cookies[COOKIE]
    set_by = room.browser().get(f"/{TOKEN}/").headers["set-cookie"]
    assert "HttpOnly" in set_by and "SameSite=strict" in set_by


def test_who_may_not_take_part(room: Room) -> None:
    assert room.browser().get("/").status_code == 404
    assert room.browser().get("/wrong/").status_code == 404
    address = f"/{TOKEN}/take"
    assert room.browser().post(address, data={"action": "caption"}).status_code == 400
    room.page()
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert room.client.post(address, data={}, headers=elsewhere).status_code == 404
    assert room.client.post(address, data={"words": "x" * 40_000}).status_code == 413
    stranger = room.browser()
    stranger.cookies.set(COOKIE, "p-<script>")
    assert stranger.post(address, data={"action": "caption"}).status_code == 400


def test_what_tools_find_is_text_and_the_page_runs_nothing(room: Room) -> None:
    room.bench.pictures.similar = lambda pixels, limit: [
        SimilarPicture("1", 0.9, HOSTILE, HOSTILE, ())
    ]
    room.page()
    found = room.send("take", action="captions")
    assert "window.hacked" in found.text
    assert not [tag for tag, _ in found.elements if tag in ("script", "img")]
    policy = room.client.get(f"/{TOKEN}/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script" not in policy
    static = room.client.get(f"/{TOKEN}/static/study.css")
    assert static.status_code == 200 and static.headers["content-type"].startswith("text/css")
    assert room.client.get(f"/{TOKEN}/static/../app.py").status_code == 404


def test_a_study_asks_questions_about_one_picture(tmp_path: Path) -> None:
    bench = Bench([])
    with pytest.raises(UsageError, match="s3 is a ground about image; a study asks questions"):
        Sessions(bench.reasoner, [sample(3, task="ground")], tmp_path / "x")


def test_ids_tell_nothing() -> None:
    assert is_participant(new_participant()) and new_participant() != new_participant()
    assert not is_participant("p-1") and not is_participant("p-" + "g" * 12)
