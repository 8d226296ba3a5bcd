"""Every reader of a file ends a damaged file with a result or one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.readers import READERS, damaged
from viper.embedded import DOMAINS
from viper.errors import ViperError
from viper.models.domain import Look
from viper.profiles.exported import ExportedProgram

ROOT = Path(__file__).parents[1]

# Modules that open files, by what they read: a reader above, or files of viper and its user alone.
_OF_READERS = {
    "ace.bank": "bank", "ace.generate": "description, queries", "data.hub": "PNG",
    "data.nlvr": "PNG", "data.plain_pickle": "pickle", "data.source": "CSV, JSON lines",
    "evaluate.answers_file": "table", "evaluate.predictions": "predictions",
    "evaluate.runs.store": "manifest, samples", "evaluate.runs.index": "samples",
    "jobs.job": "job", "jobs.cases": "PNG", "jobs.outcomes": "job labels",
    "models.domain": "look", "models.llm.capabilities": "corrections",
    "models.vision.detector_onnx": "ONNX",
    "models.media": "PNG", "models.media_files": "PNG, MP4, PDF",
    "profiles.files": "profile", "profiles.document": "profile", "record": "profile, graph",
    "search.documents": "texts, Markdown, dump", "storage.files": "manifest",
    "storage.json_lines": "feedback, labels, workflows", "storage.sqlite": "samples, pool",
    "storage.versioned": "pool", "commands.exported": "record, script", "commands.exec": "script",
    "commands.fit": "job",
}  # fmt: skip
_OF_THE_USER = [
    "api.routine_files", "commands.demo", "commands.dry_run", "commands.learn_writer",
    "commands.options", "commands.routine", "commands.terminal", "evaluate.evaluation",
    "evaluate.trackers", "models.checkpoints", "models.decoding", "models.hub",
    "models.llm.adapters", "models.llm.wrapped", "models.loading",
    "jobs.review_page", "jobs.rules",
    "models.vision.embedder_sentence", "profiles.models", "prompting.template",
    "sandbox.lockdown", "sandbox.pool", "sandbox.zygote", "search.image_index", "search.named",
    "search.picture_index", "search.text_index", "search.web_text", "serve.client", "serve.forms",
    "strategies.extract", "strategies.seek.decisions", "threads", "tools.call_log", "tools.edits",
    "tuning.agent.training", "tuning.agent.tuned_model", "commands.apply", "commands.watch",
    "watch.events", "watch.live", "watch.recording", "web.behind_token",
    "web.demo.manager", "web.demo.page", "web.demo.rendering", "web.pages",
]  # fmt: skip
_OPENS = re.compile(r"read_bytes\(|read_text\(|\bopen\(|sqlite|load_file|safe_open")


@pytest.fixture(scope="module", params=READERS)
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def valid(reader: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    folder = tmp_path_factory.mktemp("valid")
    name, make, _ = READERS[reader]
    return folder / name, make(folder)


def test_a_valid_file_is_read(reader: str, valid: tuple[Path, bytes]) -> None:
    path, content = valid
    path.write_bytes(content)
    READERS[reader][2](path)


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_is_a_result_or_one_line(
    reader: str, valid: tuple[Path, bytes], seed: int
) -> None:
    path, content = valid
    path.write_bytes(damaged(content, seed))
    try:
        READERS[reader][2](path)
    except ViperError as error:
        assert len(str(error).splitlines()) <= 2
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        assert reader == "record"  # its command reads the JSON itself


def test_a_header_that_is_torn_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "look.npz"
    path.write_bytes(damaged((DOMAINS / "world.npz").read_bytes(), 7131))  # found by the long run
    with pytest.raises(ViperError):
        Look.read(path)


def test_a_script_that_is_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    _, make, _ = READERS["script"]
    with pytest.raises(ViperError):
        ExportedProgram.read(make(tmp_path).decode() + "\nx = " + "not " * 9_000 + "1\n")


def test_the_list_of_readers_is_complete() -> None:
    opening = {
        ".".join(path.relative_to(ROOT / "viper").with_suffix("").parts)
        for path in (ROOT / "viper").rglob("*.py")
        if _OPENS.search(path.read_text())
    }
    assert opening <= {*_OF_READERS, *_OF_THE_USER}
    named = {name for names in _OF_READERS.values() for name in names.split(", ")}
    assert named <= {*READERS}
