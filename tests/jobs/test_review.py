"""A review: which cases come first, what is stored, and when the program is replaced."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from tests.jobs import job_backends as shelf
from viper.cli import main
from viper.errors import UsageError
from viper.jobs.cases import Label
from viper.jobs.job import Job, read_job
from viper.jobs.review import Review, review_of
from viper.jobs.review_page import create_review
from viper.profiles import load_profile
from viper.serve.gate import AccessRules


def silent(total: int, done: int) -> Any:
    """Show no progress."""
    return nullcontext(lambda running: None)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job and pictures that it has not seen, some with faint lamps."""
    folder = tmp_path_factory.mktemp("review")
    shelf.table(folder / "labels.csv", shelf.pictures(folder / "pictures", 24))
    (folder / "shelf.toml").write_text(shelf.PROFILE)
    fit = ["fit", str(folder / "labels.csv"), "--query", shelf.QUERY, "--requests", "2"]
    with pytest.raises(SystemExit):
        main([*fit, "--profile", str(folder / "shelf.toml"), "--out", str(folder / "job")])
    return folder


@pytest.fixture
def review(fitted: Path, tmp_path: Path) -> Iterator[tuple[Review, dict[str, str]]]:
    shutil.copytree(fitted / "job", tmp_path / "job")
    answers = shelf.pictures(tmp_path / "new", 20, seed=4, faint=True)
    profile = load_profile(str(fitted / "shelf.toml"))
    with Job(tmp_path / "job") as job:
        yield review_of(job, read_job(job.folder), profile, tmp_path / "new", silent), answers


def test_cases_on_which_programs_disagree_come_first(review: tuple[Review, Any]) -> None:
    found, answers = review
    agreeing = [case.agreeing for case in found.cases]
    assert agreeing == sorted(agreeing)
    assert agreeing[0] < agreeing[-1]
    faint = {name for name, answer in answers.items() if answer == "yes"}
    wrong = [case for case in found.cases if case.answer != answers[case.label.name]]
    assert wrong
    assert {case.label.name for case in wrong} <= faint
    # what is wrong is asked about sooner than chance would
    places = [found.cases.index(case) for case in wrong]
    assert sum(places) / len(places) < (len(found.cases) - 1) / 2


def test_a_label_is_stored_at_once_and_can_be_withdrawn(review: tuple[Review, Any]) -> None:
    found, _ = review
    case = found.next()
    assert case is not None
    found.give(case.label.case, "Yes")
    with_label = found.next()
    assert with_label is not case
    assert found.known()[case.label.case].words == "yes"
    found.undo()
    assert case.label.case not in found.known()
    assert found.next() is case
    found.give(case.label.case, "")
    assert found.next() is not case
    assert case.label.case not in found.known()
    with pytest.raises(UsageError, match="not in the folder"):
        found.give("another", "yes")


def test_the_estimate_moves_with_the_labels(review: tuple[Review, Any]) -> None:
    found, answers = review
    before = found.estimate()
    wrong = [case for case in found.cases if case.answer != answers[case.label.name]]
    for case in wrong:
        found.give(case.label.case, answers[case.label.name])
    assert found.estimate().value < before.value


def test_a_refit_replaces_the_program_only_by_a_better_one(review: tuple[Review, Any]) -> None:
    found, answers = review
    before = found.record.kept[0]
    found.refit(silent)
    assert found.fitting is not None
    found.fitting.join()
    assert found.said.startswith("the same program, fitted to 24 labels")
    for case in found.cases:  # from now on, faint lamps count
        found.give(case.label.case, answers[case.label.name])
    found.refit(silent)
    found.fitting.join()
    assert "on 44 labels" in found.said
    replaced = found.said.startswith("replaced")
    assert (found.record.kept[0] == before) is not replaced
    assert read_job(found.job.folder).kept[0] == found.record.kept[0]


def test_the_page_stands_behind_the_gate_and_escapes_answers(review: tuple[Review, Any]) -> None:
    found, _ = review
    access = AccessRules.to_pages("127.0.0.1")
    client = TestClient(create_review(found, access, silent), base_url="http://127.0.0.1")
    assert client.get("/").status_code == 404
    case = found.next()
    assert case is not None
    hostile = {"case": case.label.case, "answer": "<script>alert(1)</script>"}
    sent = client.post(f"{access.prefix}/label", data=hostile)
    assert sent.status_code == 200
    assert "<script>alert" not in sent.text
    wrong = client.post(f"{access.prefix}/label", data={"case": "x", "answer": "yes"})
    assert wrong.status_code == 400
    assert "this case is not in the folder" in wrong.text
    foreign = {"origin": "http://evil.example", "host": "evil.example"}
    assert client.post(f"{access.prefix}/undo", headers=foreign).status_code >= 400
    assert case.label.case in found.known()


def test_killed_reviews_and_refits_lose_no_label_and_end_in_the_same_job(
    fitted: Path, tmp_path: Path
) -> None:
    answers = shelf.pictures(tmp_path / "new", 20, seed=4, faint=True)
    shutil.copytree(fitted / "job", tmp_path / "killed")
    shutil.copytree(fitted / "job", tmp_path / "whole")
    given, draw = dict[str, str](), Random(3)
    for kill in range(7):
        command = [sys.executable, "-m", "viper", "review", str(tmp_path / "killed")]
        process = subprocess.Popen(
            [*command, str(tmp_path / "new"), "--trust", "--no-open"], stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert process.stdout is not None
        with httpx.Client(base_url=process.stdout.readline().strip(), timeout=60) as client:
            for _ in range(2):
                page = client.get("").text
                case = str(re.search('name="case" value="([0-9a-f]+)"', page)[1])  # type: ignore[index]
                name = str(re.search("([0-9]+.png): ", page)[1])  # type: ignore[index]
                sent = client.post("label", data={"case": case, "answer": answers[name]})
                assert sent.status_code == 303
                given[case] = answers[name]
            if kill % 2:
                client.post("refit", data={"": ""})
                time.sleep(draw.random())
        process.kill()
        process.wait(30)
    with Job(tmp_path / "killed") as job, Job(tmp_path / "whole") as whole:
        labels = job.labels()
        assert given.items() <= {label.case: label.words for label in labels}.items()
        assert len(labels) == 24 + len(given)
        whole.add(labels)
    for name in ("killed", "whole"):
        with pytest.raises(SystemExit):
            main(["fit", "--profile", str(fitted / "shelf.toml"), "--requests", "2", "--out",
                  str(tmp_path / name)])  # fmt: skip
    assert read_job(tmp_path / "killed") == read_job(tmp_path / "whole")


def test_what_cannot_be_shown_can_be_skipped(review: tuple[Review, Any]) -> None:
    found, _ = review
    case = found.next()
    assert case is not None
    Path(case.label.media[0]).write_bytes(b"no picture")
    access = AccessRules.to_pages("127.0.0.1")
    client = TestClient(create_review(found, access, silent), base_url="http://127.0.0.1")
    page = client.get(f"{access.prefix}/")
    assert page.status_code == 200
    assert "skip it" in page.text


def test_a_folder_without_pictures_is_one_line(fitted: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.mp4").write_bytes(b"")
    profile = load_profile(str(fitted / "shelf.toml"))
    shutil.copytree(fitted / "job", tmp_path / "job")
    with Job(tmp_path / "job") as job, pytest.raises(UsageError, match="holds no image"):
        review_of(job, read_job(job.folder), profile, tmp_path / "empty", silent)


def test_a_labelled_picture_of_the_folder_counts_once(fitted: Path, tmp_path: Path) -> None:
    shutil.copytree(fitted / "job", tmp_path / "job")
    profile = load_profile(str(fitted / "shelf.toml"))
    with Job(tmp_path / "job") as job:
        found = review_of(job, read_job(job.folder), profile, fitted / "pictures", silent)
        estimate = found.estimate()
    assert estimate.n == 24


def test_boxes_are_stored_once(tmp_path: Path) -> None:
    label = Label(("/a.png",), "the jar", "ground", (1.0, 2.0, 3.0, 4.0))
    with Job(tmp_path / "job") as job:
        assert [job.add([label]), job.add([label])] == [1, 0]
