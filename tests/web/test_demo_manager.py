"""Asking without a page: what is told, stored, stopped, refused, and noted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.commands.test_bad_input import refused
from tests.strategies.test_warnings import gray
from tests.web.demo_bench import WAIT_S, Desked, desked
from viper.errors import MediaError, UsageError
from viper.evaluate.runs.feedback import read_feedback
from viper.evaluate.runs.store import RunStore, samples_of_run
from viper.models.domain import Domain
from viper.models.media import media_from
from viper.web.demo.manager import (
    AnswerEvent,
    AskEvent,
    DemoQuestion,
    ErrorEvent,
    SessionManager,
    Status,
    StopEvent,
    TrialEvent,
    check_folder,
)
from viper.web.demo.rendering import answer_html, status_html, trials_html
from viper.web.demo.session import DemoMedia, DemoSession
from viper.web.sample_pages import truth_of
from viper.web.viewer.gallery import RunGallery

__all__ = ["gray"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Desked]:
    with desked(tmp_path / "run") as made:
        yield made


@pytest.fixture
def chosen(tmp_path: Path) -> DemoMedia:
    file = tmp_path / "grey.png"
    Image.fromarray(np.full((60, 100, 3), 128, np.uint8)).save(file)
    return DemoSession().upload(file, tmp_path)


def kinds(told: list[AskEvent]) -> list[str]:
    return [type(one).__name__ for one in told]


def test_every_trial_is_told_as_it_ends(bench: Desked, chosen: DemoMedia) -> None:
    told = list(bench.manager.ask("me", DemoQuestion(chosen, "the faint ball")))
    trials = [one for one in told if isinstance(one, TrialEvent)]
    assert kinds(told) == ["Status", *["TrialEvent"] * len(trials), "AnswerEvent"]
    assert told[0] == Status("writing a program")
    assert len(trials) > 1 and [one.trial.index for one in trials] == [*range(len(trials))]
    assert trials[0].failure is not None and trials[0].failure.kind == "below_threshold"
    assert trials[-1].failure is None and "lowered from 0.4 to 0.1" in trials[-1].came
    seconds = [one.seconds for one in trials]
    assert seconds == sorted(seconds)
    html = trials_html(trials)
    assert html.count("<details") == len(trials) and html.count("<details open") == 1


def test_what_was_asked_is_a_run(bench: Desked, chosen: DemoMedia) -> None:
    first = list(bench.manager.ask("me", DemoQuestion(chosen, "how many cubes?")))[-1]
    second = list(bench.manager.ask("me", DemoQuestion(chosen, "broken, how many?")))[-1]
    assert isinstance(first, AnswerEvent) and isinstance(second, AnswerEvent)
    assert (first.row.task, first.row.score) == ("question", 1.0)
    assert (second.row.prediction, second.row.failure) == (None, "runtime")
    with RunStore.read(bench.folder) as store:
        assert [row.sample_id for row in store.rows()] == ["asked-1", "asked-2"]
        samples = samples_of_run(store, None, ["asked-1", "asked-2", "asked-3"])
        assert list(samples) == ["asked-1", "asked-2"]
        media = media_from(samples["asked-1"].load())
        assert np.array_equal(media.images[0], chosen.media.images[0])
    assert len(list((bench.folder / "media").iterdir())) == 1
    trace, shown = bench.manager.run().trace("asked-2")
    assert len(trace.trials) == 1 and shown.images[0].shape == (60, 100, 3)


def test_viper_view_shows_what_is_asked_while_it_looks(bench: Desked, chosen: DemoMedia) -> None:
    list(bench.manager.ask("me", DemoQuestion(chosen, "how many cubes?")))
    with RunStore.read(bench.folder) as store:
        gallery = RunGallery(store, None)
        assert gallery.wait(WAIT_S) and gallery.problem == ""
        list(bench.manager.ask("me", DemoQuestion(chosen, "broken?")))
        for sample_id in ("asked-1", "asked-2"):
            assert gallery.small(sample_id, 0) is not None
        assert gallery.media("asked-3") is None
        for file in (bench.folder / "media").iterdir():
            file.unlink()
        assert gallery.media("asked-1") is None


def test_it_goes_on_where_an_earlier_demo_ended(tmp_path: Path, chosen: DemoMedia) -> None:
    for expected in ("asked-1", "asked-2"):
        with desked(tmp_path / "run") as bench:
            check_folder(bench.folder)
            last = list(bench.manager.ask("me", DemoQuestion(chosen, "how many cubes?")))[-1]
            assert isinstance(last, AnswerEvent) and last.row.sample_id == expected


def test_a_choice_has_options(bench: Desked, chosen: DemoMedia) -> None:
    question = DemoQuestion(chosen, "how many?", ("2", "3"))
    last = list(bench.manager.ask("me", question))[-1]
    assert isinstance(last, AnswerEvent) and last.row.task == "choice"
    assert "<strong>2</strong>" in answer_html(last)
    bench.manager.run().note(last.row.sample_id, "3", "")
    assert [one.answer for one in read_feedback(bench.folder)] == [1]


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        ("  ", (), "the query is empty"),
        ("x" * 4_001, (), "at most 4000 are read"),
        ("which?", ("one",), "at least two options"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_not_stored(
    bench: Desked, chosen: DemoMedia, text: str, options: tuple[str, ...], says: str
) -> None:
    told = list(bench.manager.ask("me", DemoQuestion(chosen, text, options)))[-1]
    assert isinstance(told, ErrorEvent) and says in told.message
    assert bench.manager.run().store.count() == 0 and not (bench.folder / "media").exists()


def test_stopping_stores_nothing(bench: Desked, chosen: DemoMedia) -> None:
    asking = bench.manager.ask("me", DemoQuestion(chosen, "slow: how many?"))
    thread = threading.Thread(target=lambda: told.extend(asking))
    told: list[AskEvent] = []
    thread.start()
    assert bench.llm.asked.wait(WAIT_S)
    assert not bench.manager.stop("somebody else")
    assert bench.manager.stop("me")
    bench.llm.released.set()
    thread.join(WAIT_S)
    assert isinstance(told[-1], StopEvent) and "TrialEvent" not in kinds(told)
    assert bench.manager.run().store.count() == 0
    assert not bench.manager.stop("me")


def test_visitors_ask_side_by_side_each_one_question(bench: Desked, chosen: DemoMedia) -> None:
    slow = bench.manager.ask("first", DemoQuestion(chosen, "slow: how many?"))
    told: list[AskEvent] = []
    thread = threading.Thread(target=lambda: told.extend(slow))
    thread.start()
    assert bench.llm.asked.wait(WAIT_S)
    again = list(bench.manager.ask("first", DemoQuestion(chosen, "how many?")))
    assert kinds(again) == ["ErrorEvent"] and "stop it first" in status_html(again[0])
    other = list(bench.manager.ask("second", DemoQuestion(chosen, "how many?")))
    assert isinstance(other[-1], AnswerEvent) and thread.is_alive()
    bench.llm.released.set()
    thread.join(WAIT_S)
    assert isinstance(told[-1], AnswerEvent)
    assert told[-1].row.sample_id != other[-1].row.sample_id


def test_a_question_waits_for_the_models(tmp_path: Path, chosen: DemoMedia) -> None:
    with desked(tmp_path / "run", opened=False) as bench:
        asking = bench.manager.ask("me", DemoQuestion(chosen, "how many?"))
        assert next(asking) == Status("loading models")
        with pytest.raises(UsageError, match="still being loaded"):
            bench.manager.run()
        bench.manager.opener.start()
        assert kinds(list(asking))[-1] == "AnswerEvent"


def test_a_question_is_stopped_while_models_load(tmp_path: Path, chosen: DemoMedia) -> None:
    with desked(tmp_path / "run", opened=False) as bench:
        asking = bench.manager.ask("me", DemoQuestion(chosen, "how many?"))
        next(asking)
        bench.manager.stop_all()
        assert kinds(list(asking)) == ["StopEvent"]


def test_models_that_cannot_be_loaded_are_told(
    tmp_path: Path, chosen: DemoMedia, monkeypatch: pytest.MonkeyPatch
) -> None:
    from viper.tools.models import ModelSet

    def broken(models: ModelSet) -> None:
        raise LookupError("no weights")

    monkeypatch.setattr(ModelSet, "load_all", broken)
    with desked(tmp_path / "run", opened=False) as bench:
        ended = threading.Event()
        bench.manager.opener.on_failure = ended.set
        bench.manager.opener.start()
        assert ended.wait(WAIT_S)
        last = list(bench.manager.ask("me", DemoQuestion(chosen, "how many?")))[-1]
        assert last == ErrorEvent("a model cannot be loaded: LookupError: no weights")


def test_feedback_is_that_of_the_command(bench: Desked, chosen: DemoMedia) -> None:
    list(bench.manager.ask("me", DemoQuestion(chosen, "how many cubes?")))
    run = bench.manager.run()
    run.note("asked-1", " 3 ", "it missed one")
    (said,) = read_feedback(bench.folder)
    assert (said.sample_id, said.seed, said.answer, said.comment) == (
        "asked-1", 0, "3", "it missed one",
    )  # fmt: skip
    with pytest.raises(UsageError, match="needs the right answer, a comment, or both"):
        run.note("asked-1", " ", "")
    with pytest.raises(UsageError, match="no question 'asked-7'"):
        run.note("asked-7", "3", "")


def test_a_folder_of_something_else_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.evaluate.run_samples import a_manifest

    RunStore.create(tmp_path / "other", a_manifest()).close()
    with pytest.raises(UsageError, match="holds the run of a data set"):
        check_folder(tmp_path / "other")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    said = refused(capsys, "demo", "--out", str(tmp_path / "mine"))
    assert "holds other files (thesis.txt)" in said


def test_a_row_names_no_file_outside_its_run(bench: Desked, chosen: DemoMedia) -> None:
    from dataclasses import replace

    from viper.evaluate.runs.store import kept_sample

    list(bench.manager.ask("me", DemoQuestion(chosen, "how many cubes?")))
    row = replace(bench.manager.run().row("asked-1"), files=("../../secret.png", "/etc/hostname"))
    assert kept_sample(bench.folder, row).load() == [
        bench.folder / "media" / "secret.png",
        bench.folder / "media" / "hostname",
    ]
    assert truth_of(row).box is None


def test_uploads_that_cannot_be_read(tmp_path: Path) -> None:
    session = DemoSession()
    for name, content in (
        ("hostile.png", b"\x89PNG\r\n\x1a\n" + b"\0" * 50),
        ("list.m3u8", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/hostname\n"),
        ("empty.mp4", b""),
        ("words.txt", b"no picture"),
    ):
        file = tmp_path / name
        file.write_bytes(content)
        with pytest.raises(MediaError) as caught:
            session.upload(file, tmp_path)
        said = str(caught.value)
        assert name in said and str(tmp_path) not in said and "\n" not in said
    assert session.chosen is None and session.folder is not None
    assert list(session.folder.iterdir()) == []
    session.end()
    assert not session.folder.exists()


def test_the_page_says_beforehand_what_the_models_know(
    bench: Desked, gray: Domain, tmp_path: Path
) -> None:
    from viper.web.demo.page import DemoPage

    reasoner = bench.manager.reasoner
    assert "know only" not in DemoPage(bench.managers, tmp_path, str).intro
    about = replace(gray, roles={"looker": Domain("signs <b>")}, instead="Try another.")
    reasoner.components = replace(reasoner.components, domain=about)
    intro = DemoPage(bench.managers, tmp_path, str).intro
    assert "know only <strong>dark noise</strong>" in intro and "Try another." in intro
    assert "its looker knows signs &lt;b&gt;" in intro


def test_an_answer_outside_the_domain_is_withheld_unless_forced(
    bench: Desked, chosen: DemoMedia, gray: Domain
) -> None:
    reasoner = bench.manager.reasoner
    reasoner.components = replace(reasoner.components, domain=gray)
    question = DemoQuestion(chosen, "how many <b>dogs</b> are there?")
    told = list(bench.manager.ask("me", question))
    withheld = told[-1]
    assert isinstance(withheld, AnswerEvent)
    assert (withheld.row.prediction, withheld.row.failure) == (None, "outside_domain")
    html = answer_html(withheld)
    assert html.count("dark noise") == html.count("viper-failure") == 1 and "<b>dogs" not in html
    assert "outside domain" not in html and html.count("viper-warning") == 1  # of "dogs"
    trials = trials_html([one for one in told if isinstance(one, TrialEvent)], withheld.row)
    assert "answer withheld" in trials and "viper-good" not in trials
    forced = list(SessionManager(reasoner, bench.manager.opener, force=True).ask("you", question))[
        -1
    ]
    assert isinstance(forced, AnswerEvent) and forced.row.prediction is not None
    assert len(forced.warnings) == 2
    trace, _ = bench.manager.run().trace(withheld.row.sample_id)
    assert trace.answer is None and trace.guess is not None
