"""An index of texts: found again, kept up to date, killed and resumed."""

import json
import math
import multiprocessing
import os
import signal
from collections import Counter

import pytest

from viper.errors import CancelledError, DataError, StoreError, UsageError
from viper.search import text_index
from viper.search.findings import TextSearch
from viper.search.text_index import TextIndex


def lines(count, word="lamp", **more):
    rows = [
        {"title": f"Velora {i}", "text": f"The {word} number{i} of Tarnix."} for i in range(count)
    ]
    return "\n".join(json.dumps(row | more) for row in rows) + "\n"


@pytest.fixture
def texts(tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.jsonl").write_text(lines(30, direct="a panel", related=["Who?", "When?"]))
    (folder / "b.md").write_text("# Tarnix\nFounded in 1893 in Dolm.\n")
    return folder


@pytest.fixture
def index(tmp_path):
    return TextIndex(tmp_path / "index")


def titles(found):
    return [one.title for one in found.passages]


def test_passages_are_found_by_their_words(index, texts):
    assert isinstance(index, TextSearch) and not index.is_there
    done = index.update([texts])
    assert (done.read, done.kept, done.passages) == (2, 0, 31) and index.is_there
    found = index.search("When was TARNIX founded?", 3)
    assert titles(found)[0] == "Tarnix" and len(found.passages) == 3
    assert found.passages[0].text == "Founded in 1893 in Dolm."
    assert found.passages[0].source == "b.md"
    scores = [one.score for one in found.passages]
    assert scores == sorted(scores, reverse=True)


def test_a_direct_answer_is_of_a_title_that_is_asked_for(index, texts):
    index.update([texts])
    found = index.search("what is velora 7", 5)
    assert found.direct == "a panel" and found.related == ("Who?", "When?")
    assert index.search("what is number7", 5).direct == ""


def test_what_is_asked_is_words_and_no_language(index, texts):
    index.update([texts])
    for query in ('title:"x" AND (', "*", "body:[a TO z]", "lamp OR NOT", "/.*/", "\x00"):
        try:
            index.search(query, 2)
        except UsageError as error:
            assert "empty" in str(error)
    assert index.search("?!", 2).is_empty


def test_words_are_those_of_any_case_accent_and_number(index, tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({"title": "Café", "text": "Many lamps burning."}))
    index.update([tmp_path / "c.jsonl"])
    assert titles(index.search("CAFE", 1)) == titles(index.search("a lamp burns", 1)) == ["Café"]


def test_only_what_changed_is_read_again(index, texts, monkeypatch):
    index.update([texts])
    (texts / "b.md").write_text("# Tarnix\nFounded in 1920.\n")
    (texts / "c.md").write_text("# Dolm\nA town.\n")
    read, before = [], text_index.documents
    monkeypatch.setattr(
        text_index, "documents", lambda path: read.append(path.name) or before(path)
    )
    done = index.update([texts])
    assert read == ["b.md", "c.md"] and (done.read, done.kept, done.passages) == (2, 1, 32)
    assert index.search("founded", 1).passages[0].text == "Founded in 1920."
    (texts / "c.md").unlink()
    assert index.update([texts]).gone == 1 and index.search("town", 3).is_empty


def test_other_files_stay_unless_they_are_pruned(index, texts):
    index.update([texts])
    assert index.update([texts / "b.md"]).passages == 31
    done = index.update([texts / "b.md"], prune=True)
    assert (done.gone, done.passages) == (1, 1)


def test_an_update_that_was_stopped_goes_on_where_it_was(index, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(text_index, "_COMMIT_EVERY", 7)

    def stop(passages, read, total):
        assert 0 < read <= total
        if passages == 14:
            raise CancelledError("enough")

    with pytest.raises(CancelledError):
        index.update([texts / "a.jsonl"], stop)
    again = TextIndex(tmp_path / "index")
    assert again.update([texts / "a.jsonl"]).passages == 30
    found = Counter(titles(again.search("lamp", 100)))
    assert found == Counter(f"Velora {i}" for i in range(30))


def _killed(folder, path):
    text_index._COMMIT_EVERY = 20

    def kill(passages, read, total):
        if passages >= 60:
            os.kill(os.getpid(), signal.SIGKILL)

    TextIndex(folder).update([path], kill)


def test_killed_it_holds_whole_documents_and_goes_on(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(lines(100))
    process = multiprocessing.get_context("spawn").Process(
        target=_killed, args=(tmp_path / "index", path)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    index = TextIndex(tmp_path / "index")
    assert index.update([path]).passages == 100
    found = [one for i in range(100) for one in titles(index.search(f"number{i}", 2))[:1]]
    assert Counter(found) == Counter(f"Velora {i}" for i in range(100))


def test_a_file_that_is_none_ends_it_with_what_came_before(index, texts):
    (texts / "c.jsonl").write_text('{"text": "good"}\nbad\n')
    with pytest.raises(DataError, match=r"c.jsonl:2: no JSON"):
        index.update([texts])
    assert titles(TextIndex(index.folder).search("founded", 1)) == ["Tarnix"]
    (texts / "c.jsonl").write_text('{"text": "good"}\n{"text": "better"}\n')
    assert index.update([texts]).passages == 33


def test_one_writes_at_a_time(index, texts):
    index.update([texts])
    writer = index._index().writer()
    (texts / "c.md").write_text("# New\nx\n")
    with pytest.raises(StoreError, match="another process is writing this index"):
        TextIndex(index.folder).update([texts])
    del writer


def test_a_broken_index_is_said_in_one_line(index, texts):
    index.update([texts])
    for path in index.folder.glob("*"):
        if path.name == "meta.json":
            path.write_text("{")
    with pytest.raises(StoreError, match="the index is broken .*; delete it to index anew"):
        TextIndex(index.folder).search("lamp", 1)


def test_searches_that_make_no_sense(index, texts):
    with pytest.raises(UsageError, match="run: viper setup index text FILES"):
        index.search("lamp", 3)
    index.update([texts])
    for query, limit, says in (
        ("  ", 3, "empty"),
        ("lamp", 0, "a limit of 0"),
        ("lamp", 101, "101"),
    ):
        with pytest.raises(UsageError, match=says):
            index.search(query, limit)


def test_scores_are_bm25(index, tmp_path):
    rows = ["red lamp", "red red chair of wood", "lamp lamp", "table"]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps({"text": one}) for one in rows))
    index.update([tmp_path / "a.jsonl"])
    found = {one.text: one.score for one in index.search("red lamp", 9).passages}
    words = [row.split() for row in rows]
    mean = sum(map(len, words)) / len(words)

    def score(row):
        total = 0.0
        for word in ("red", "lamp"):
            holding, count = sum(word in one for one in words), row.count(word)
            idf = math.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
            total += idf * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(row) / mean))
        return total

    expected = {" ".join(row): score(row) for row in words if score(row)}
    assert found == pytest.approx(expected, rel=1e-5)
