"""What a run's manifest holds, hides, and calls another configuration."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_samples import a_manifest

from viper.api.routine_files import StoredRoutines
from viper.data.sample import DatasetSpec, Sample
from viper.evaluate.runs.manifest import (
    Manifest,
    RunEnvironment,
    SetDescription,
    differences,
    revision,
    samples_hash,
)
from viper.profiles.files import read_profile
from viper.schema import to_json
from viper.strategies.settings import RunSettings

DOCUMENT = {
    "name": "mine",
    "path": "/somewhere/mine.toml",
    "preload": False,
    "bank": "bank.jsonl",
    "llm": {"backend": "openai", "model": "m", "cache": False, "options": {"max_retries": 2}},
    "roles": {"detector": {"backend": "owlv2", "model": "/a/owl", "options": {}}},
    "run": {"trials": 5, "temperature": 0.7, "api": "vipergpt", "max_tokens": 512},
}


def sample(**changes: Any) -> Sample:
    one = Sample("1", "what?", "question", "image", "red", load=lambda: None)
    return replace(one, **changes)


def test_a_manifest_comes_back_from_its_file() -> None:
    manifest = a_manifest(arguments=("eval", "world"), bank_hash=None)
    written = json.loads(json.dumps(manifest.to_json()))
    assert Manifest.from_json({**written, "unknown": 1}) == manifest
    assert Manifest.from_json(written).fingerprint == manifest.fingerprint


@pytest.mark.parametrize(
    "changes",
    [
        {"created": "2030-01-01"},
        {"arguments": ("eval", "--resume")},
        {"execution": {"workers": 32, "engine": "ray"}},
        {"environment": RunEnvironment({"viper": "0.1.0", "torch": "9"}, "def+changes", "BSD")},
        {"profile": "renamed"},
    ],
)
def test_what_changes_no_answer_leaves_the_fingerprint(changes: dict[str, Any]) -> None:
    assert a_manifest(**changes).fingerprint == a_manifest().fingerprint
    assert differences(a_manifest(), a_manifest(**changes)) == []


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"settings": {"trials": 3, "temperature": 0.4}}, "temperature: 0.0 in the run, 0.4 now"),
        ({"settings": {"trials": 3}}, "temperature: 0.0 in the run, nothing now"),
        ({"seeds": (0, 1, 2)}, "seeds: [0] in the run, [0,1,2] now"),
        ({"strategy": "plan"}, "strategy: program in the run, plan now"),
        ({"prompt_hash": "p2"}, "prompt hash: p1 in the run, p2 now"),
        ({"bank_hash": "b"}, "bank hash: null in the run, b now"),
        ({"models": {"llm": "w-5"}}, "model of llm: writer-1234 in the run, w-5 now"),
        ({"models": {"llm": "writer-1234", "vqa": "v"}}, "model of vqa: nothing in the run, v now"),
        ({"set": replace(a_manifest().set, split="val")}, "set split: test in the run, val now"),
        (
            {"routines": (StoredRoutines("mine.py", "", (), ("depth",), "ab12"),)},
            "routines of mine.py: nothing in the run, ab12 now",
        ),
        (
            {"environment": RunEnvironment({"viper": "0.2.0"}, None, "Linux")},
            "viper: 0.1.0 in the run, 0.2.0 now",
        ),
    ],
)
def test_what_changes_answers_is_another_configuration(changes: dict[str, Any], line: str) -> None:
    assert differences(a_manifest(), a_manifest(**changes)) == [line]
    assert a_manifest(**changes).fingerprint != a_manifest().fingerprint


def test_a_profile_counts_by_what_changes_answers() -> None:
    before = a_manifest(document=DOCUMENT, models={"llm": "m", "detector": "owl-1"})
    moved: dict[str, Any] = json.loads(json.dumps(DOCUMENT))
    moved |= {"path": "/elsewhere.toml", "preload": True, "bank": "/b/bank.jsonl"}
    moved["roles"]["detector"]["model"] = "/b/owl"
    moved["llm"]["cache"] = True
    moved["run"]["trials"] = 9  # settings say what is asked for
    assert differences(before, replace(before, document=moved)) == []
    moved["llm"]["options"]["max_retries"] = 5
    moved["run"]["max_tokens"] = 64
    assert differences(before, replace(before, document=moved)) == [
        "profile.llm.options.max_retries: 2 in the run, 5 now",
        "profile.run.max_tokens: 512 in the run, 64 now",
    ]


def test_secrets_and_homes_stay_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    manifest = a_manifest(
        arguments=(
            "eval", "--root", "/home/ada/data", "--api-key", "s3cret-a", "--token=s3cret-b",
            "--track", "mlflow:http://ada:s3cret-c@host", "sk-abcdefghijklmnopqrs3cret",
            "--max-tokens", "512",
        ),
        document={
            "llm": {"options": {"api_key": "s3cret-d", "api_key_env": "KEY", "max_tokens": 512,
                                "headers": {"Authorization": "Bearer s3cret-e"},
                                "url": "http://x:s3cret-f@host/v1"}},
            "path": "/home/ada/mine.toml",
        },
    )  # fmt: skip
    text = json.dumps(manifest.to_json())
    assert "s3cret" not in text and "/home/ada" not in text
    shown = manifest.to_json()
    assert shown["arguments"][2] == "~/data" and shown["arguments"][-1] == "512"
    options = shown["document"]["llm"]["options"]
    assert options["api_key_env"] == "KEY" and options["max_tokens"] == 512
    assert options["url"] == "http://[hidden]@host/v1"
    assert Manifest.from_json(shown).fingerprint == manifest.fingerprint


def test_samples_are_told_apart_by_what_is_asked_and_what_is_right() -> None:
    first = samples_hash([sample()])
    assert first == samples_hash([sample(files=("elsewhere.png",), groups={"a": "b"})])
    for changes in ({"sample_id": "2"}, {"text": "who?"}, {"target": "blue"}, {"options": ("a",)}):
        assert samples_hash([sample(**changes)]) != first
    two = [sample(), sample(sample_id="2")]
    assert samples_hash(two) != samples_hash(two[::-1])
    described = SetDescription.of("gqa", DatasetSpec(Path("/data"), "testdev", 3, 2), two)
    assert described == SetDescription("gqa", "testdev", 3, 2, 2, samples_hash(two))


def test_the_environment_names_versions_without_importing() -> None:
    here = RunEnvironment.here()
    assert {"viper", "python", "torch", "transformers", "open_clip", "numpy"} <= set(here.versions)


def test_the_revision_is_that_of_the_packages_own_checkout(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    assert revision(package) is None
    (package / "code.py").write_text("x = 1")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    clean = revision(package)
    assert clean is not None and len(clean) == 40
    (tmp_path / "notes.txt").write_text("beside the package")
    assert revision(package) == clean
    (package / "code.py").write_text("x = 2")
    assert revision(package) == f"{clean}+changes"
    (package / "inner").mkdir()
    assert revision(package / "inner") is None


def test_the_document_of_an_earlier_version_is_the_same_profile() -> None:
    now: dict[str, Any] = to_json(read_profile("embedded"))
    settings = RunSettings().flat()
    models, run = now["models"], {**now["run"], **settings}
    earlier = {key: value for key, value in now.items() if key != "models"}
    earlier |= {"critic": None, **models, "run": {k: v for k, v in run.items() if k != "own"}}
    given = {"settings": settings, "models": {"llm": "writer"}}
    old, new = (a_manifest(document=one, **given) for one in (earlier, now))
    assert "planner" in earlier and differences(old, new) == []
    assert old.fingerprint == new.fingerprint
    other = {**now, "models": {**models, "planner": {**models["planner"], "style": "chat"}}}
    (line,) = differences(old, a_manifest(document=other, **given))
    assert line.startswith("profile.planner.style: compact in the run")
