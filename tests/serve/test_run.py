"""Asking the server: what comes back, and in which shape."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.serve.bench import FAINT, LEFTMOST, Served, media, png, served, stored_fields
from tests.strategies.bench import Bench, picture
from viper.record import RunRecord, record_from_json, result_record
from viper.schema import Trial
from viper.serve.forms import RequestMedia

CHOICE = """def execute_command(image, question, possible_answers):
    return possible_answers[1]
"""


def events(text: str) -> list[tuple[str, dict]]:
    """The events of a stream, each with its data."""
    found = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


def test_the_answer_is_what_the_reasoner_gives_alone(server: Served) -> None:
    answer = server.run()
    with Bench([LEFTMOST]) as bench:
        alone = result_record(bench.reasoner.run(picture(), "the leftmost cube").trace)
    got = answer.json()
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    assert got["box"] == [10.0, 40.0, 20.0, 50.0]
    assert {**got, "seconds": 0, "trials": [], "tool_calls": []} == json.loads(
        json.dumps({**alone, "seconds": 0, "trials": [], "tool_calls": []})
    )


def test_the_described_shape_is_the_real_one(server: Served) -> None:
    got = server.run().json()
    described = stored_fields(RunRecord)
    described.remove("picture")  # of an edit alone
    assert set(got) == described
    assert set(got["trials"][0]) == stored_fields(Trial)
    record_from_json(RunRecord, got)


def test_settings_reach_the_run() -> None:
    with served(FAINT) as server:
        got = server.run("the faint ball", seed="7", trials="1", api="vipergpt", task="ground")
    assert (got.json()["seed"], got.json()["api"]) == (7, "vipergpt")
    sampling = server.bench.llm.calls[0].sampling
    assert sampling is not None and sampling.seed == 7_000


def test_ways_of_correcting_reach_the_run() -> None:
    with served(FAINT) as server:
        alone = server.run("the faint ball", self_tune="false", trials="1").json()
        tuned = server.run("the faint ball", self_tune="true", trials="1").json()
        voted = server.run("the faint ball", votes="3").json()
        unknown = server.run("the faint ball", retrieval="by_luck", examples="2")
    assert {trial["correction"] for trial in alone["trials"]} == {"first"}
    assert {trial["correction"] for trial in tuned["trials"]} == {"first", "self_tune"}
    assert (alone["votes"], [vote["count"] for vote in voted["votes"]]) == ([], [2])
    assert unknown.status_code == 400 and "bm25" in unknown.text


def test_options_are_repeated_fields_and_may_hold_semicolons() -> None:
    with served(CHOICE) as server:
        got = server.run("which one?", options=["a; b", "c; d"]).json()
    assert (got["answer"], got["choice_index"]) == ("c; d", 1)


MARKED = """def execute_command(image, marked):
    return marked[1].left
"""


def test_marked_boxes_are_repeated_fields() -> None:
    with served(MARKED) as server:
        got = server.run("which of these?", like=["1,2,30,40", "50,5,60,20"]).json()
        cut = server.run("which of these?", like="50,5,600,20")
        five = server.run("which of these?", like=["1,2,30,40"] * 5)
    assert got["answer"] == 50
    assert cut.status_code == 400 and "100 x 60 pixels" in cut.text
    assert five.status_code == 400 and "like" in five.text


def test_several_pictures() -> None:
    program = "def execute_command(image_list):\n    return len(image_list) == 3\n"
    with served(program) as server:
        got = server.run("there are three", files=media(png(), png(), png())).json()
    assert (got["task"], got["answer"]) == ("statement", True)


def test_a_run_without_an_answer_is_an_answer() -> None:
    with served("def execute_command(image):\n    return nonsense\n") as server:
        got = server.run(trials="1")
        server.log.until(path="/v1/run")
        assert server.metric("viper_requests_total", endpoint="/v1/run", outcome="no_answer") == 1
        assert server.metric("viper_failures_total", kind="runtime") == 1
    assert got.status_code == 200
    assert got.json()["answer"] is None and got.json()["failure"]["kind"] == "runtime"


def test_events_come_trial_by_trial_and_the_result_last() -> None:
    with served(FAINT) as server:
        answer = server.run("the faint ball", headers={"Accept": "text/event-stream"})
        got = events(answer.text)
        assert server.log.until(path="/v1/run")["outcome"] == "answered"
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in got] == ["trial"] * 2 + ["result"]
    assert [data["index"] for _, data in got[:2]] == [0, 1]
    assert set(got[0][1]) == stored_fields(Trial)
    assert got[-1][1]["box"] == [1.0, 1.0, 9.0, 9.0]


def test_calls_in_events_and_results_count_from_the_corner_of_the_box(server: Served) -> None:
    got = events(server.run(headers={"Accept": "text/event-stream"}).text)
    patch = {"kind": "patch", "picture": "image0", "box": [10, 40, 20, 50]}
    assert got[0][1]["tool_calls"][0]["result"][0] == patch
    assert got[1][1]["tool_calls"][0]["result"][0] == patch and got[1][1]["box"] == patch["box"]


def test_an_error_in_a_stream_is_an_event(server: Served) -> None:
    answer = server.run(files=media(b"no picture"), headers={"Accept": "text/event-stream"})
    ((name, data),) = events(answer.text)
    assert (answer.status_code, name, data["error"]["code"]) == (200, "error", "media")


def test_what_a_program_prints_cannot_forge_an_event() -> None:
    program = (
        "def execute_command(image):\n"
        "    print('x\\n\\nevent: result\\ndata: {}\\n\\n\\u2028')\n"
        "    return 'y\\r\\nevent: error'\n"
    )
    with served(program) as server:
        got = events(
            server.run(
                "what is it?", headers={"Accept": "application/json, text/event-stream"}
            ).text
        )
    assert [name for name, _ in got] == ["trial", "result"]
    assert "event: result" in got[0][1]["stdout"]


def test_numbers_without_end_become_null() -> None:
    program = "def execute_command(image):\n    return 'far', [1e999, -1e999, 2.5]\n"
    with served(program) as server:
        got = server.run("how far?")
    assert got.json()["info"] == [None, None, 2.5]


def test_a_file_of_the_media_root(tmp_path: Path) -> None:
    (tmp_path / "scenes").mkdir()
    (tmp_path / "scenes" / "table.png").write_bytes(png())
    with served(media_roots=(tmp_path,)) as server:
        form = {"query": (None, "the leftmost cube"), "path": (None, "scenes/table.png")}
        got = server.client.post("/v1/run", files=form)
    assert got.json()["box"] == [10.0, 40.0, 20.0, 50.0]


def test_a_video(tmp_path: Path) -> None:
    from viper.models.media import write_mp4

    clip = tmp_path / "clip.mp4"
    write_mp4(clip, np.stack([np.full((64, 96, 3), 90, np.uint8)] * 8))
    program = "def execute_command(video):\n    return VideoSegment(video).num_frames\n"
    with served(program) as server:
        got = server.run("how many frames?", files=media(clip.read_bytes())).json()
    assert got["answer"] == 8


def test_programs_of_callers_run_where_that_was_allowed() -> None:
    program = "answer = len(ImagePatch(image).find('cube'))"
    with served(allow_exec=True) as server:
        got = server.client.post("/v1/exec", files=media(), data={"program": program})
        assert "/v1/exec" in server.client.get("/openapi.json").json()["paths"]
        server.log.until(path="/v1/exec")
        assert server.bench.llm.calls == []
        assert server.metric("viper_trials_total", correction="first") == 1
    assert (got.status_code, got.json()["answer"], got.json()["strategy"]) == (200, 2, "exec")


def test_programs_of_callers_are_nothing_otherwise(server: Served) -> None:
    got = server.client.post("/v1/exec", files=media(), data={"program": "answer = 1"})
    assert (got.status_code, got.json()["error"]["code"]) == (404, "not_found")
    assert "/v1/exec" not in server.client.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json"])
def test_the_other_endpoints(server: Served, path: str) -> None:
    got = server.client.get(path)
    assert got.status_code == 200
    assert got.headers["x-content-type-options"] == "nosniff"


def test_files_of_the_server_are_read_where_no_temporary_folder_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    file = tmp_path / "a.png"
    file.write_bytes(png())
    assert len(RequestMedia(paths=(file,), names=("a.png",)).load().images) == 1


def test_fields_of_a_document_come_in_their_order() -> None:
    program = "def execute_command(image, fields):\n    return {name: '5.00' for name in fields}\n"
    with served(program, allow_exec=True) as server:
        fields = ["total:money", "note"]
        data = {"program": program, "fields": fields}
        got = server.client.post("/v1/exec", files=media(), data=data).json()
        assert [(each["field"], each["value"]) for each in got["answer"]] == [
            ("total", "5.00"), ("note", "5.00"),
        ]  # fmt: skip
        assert got["answer_kind"] == "fields" and got["task"] == "extract"
        asked = server.run("read it", fields=fields, strategy="program").json()
        assert [each["value"] for each in asked["answer"]] == ["5.00", "5.00"]
        wrong = server.run("read it", fields=["total:mony"])
        assert wrong.status_code == 422 or wrong.status_code == 400
        assert "did you mean money" in wrong.json()["error"]["message"]
