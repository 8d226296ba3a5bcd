"""Lookups and downloads of published checkpoints by the real client."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.hub.server import PIECE, TOKEN, Hub, use_endpoint
from viper.errors import ModelError
from viper.models.hub import check_hub, local_copy, published_as, stored
from viper.models.loading import LoadOptions

WEIGHTS = hashlib.sha512(b"weights").digest() * (1 << 14)  # 1 MiB
FILES = {
    "config.json": b'{"model_type": "bert"}',
    "tokenizer.json": b"{}",
    "model.safetensors": WEIGHTS,
}

DOWNLOAD = f"""
from huggingface_hub import constants
constants.DOWNLOAD_CHUNK_SIZE = {PIECE}
from viper.models.hub import local_copy
from viper.models.loading import LoadOptions
print(local_copy("org/model", LoadOptions(), lambda done, total: print(done, flush=True)))
"""
"""A process that prints how far it is before it writes a piece, when all others are written."""


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client try again at once."""
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)


def cache_of(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def error_of(source: str, **options: object) -> str:
    """Return the error of a download, which must be one line."""
    with pytest.raises(ModelError) as caught:
        local_copy(source, LoadOptions(**options))  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message and TOKEN not in message
    return message


def test_whole_cache_asks_for_nothing(hub: Hub) -> None:
    repository = hub.add("org/model", FILES)
    folder = local_copy("org/model", LoadOptions())
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert published_as(folder) == ("org/model", repository.commit)
    hub.requests.clear()
    for options in (LoadOptions(), LoadOptions(local_only=True)):
        assert local_copy("org/model", options) == folder
    assert local_copy("org/model", LoadOptions(revision=repository.commit)) == folder
    assert hub.requests == []


def test_folder_is_returned_as_it_is(hub: Hub, tmp_path: Path) -> None:
    assert local_copy(tmp_path, LoadOptions()) == tmp_path
    assert published_as(tmp_path) is None and hub.requests == []


def test_weights_come_last_and_copies_of_them_never(hub: Hub) -> None:
    unwanted = [
        "README.md",
        "consolidated.safetensors",
        "flax_model.msgpack",
        "model.fp16.safetensors",
        "onnx/model.onnx",
        "original/model.safetensors",
        "own.py",
        "pytorch_model.bin",
        "tf_model.h5",
        "training_args.bin",
        "../../up.json",
    ]
    hub.add("org/model", FILES | {"merges.txt": b"m"} | dict.fromkeys(unwanted, b"unwanted"))
    folder = local_copy("org/model", LoadOptions())
    files = {path.name for path in folder.rglob("*") if path.is_file()}
    assert files == {*FILES, "merges.txt"}
    read = [path for method, path in hub.requests if method == "GET" and "/api/" not in path]
    assert read[-1].endswith("/model.safetensors")


def test_code_is_downloaded_from_trusted_models_alone(hub: Hub) -> None:
    for name in ("org/model", "org/other"):
        hub.add(name, FILES | {"own.py": b"code"})
        folder = local_copy(name, LoadOptions(trust=["org/model"]))
        assert (folder / "own.py").exists() == (name == "org/model")


def test_pickled_weights_if_there_are_no_others(hub: Hub) -> None:
    files = {"config.json": b"{}", "vocab.txt": b"a", "pytorch_model.bin": b"weights"}
    hub.add("org/old", files)
    assert {path.name for path in local_copy("org/old", LoadOptions()).iterdir()} == {*files}
    assert stored("org/old").state == "whole"


@pytest.mark.parametrize("first", ["org/model", "hf-hub:org/model"])
def test_prefix_chooses_the_weights_of_open_clip(hub: Hub, first: str) -> None:
    own = {"open_clip_config.json": b"{}", "open_clip_model.safetensors": b"own"}
    hub.add("org/model", FILES | own | {"open_clip_pytorch_model.bin": b"pickled"})
    weights = {"org/model": "model.safetensors", "hf-hub:org/model": "open_clip_model.safetensors"}
    folder = local_copy(first, LoadOptions())
    (second,) = weights.keys() - {first}
    assert (folder / weights[first]).exists() and not (folder / weights[second]).exists()
    assert stored(first).state == "whole" and stored(second).missing == (weights[second],)
    assert local_copy(second, LoadOptions()) == folder
    assert stored(first).state == stored(second).state == "whole"
    assert not (folder / "open_clip_pytorch_model.bin").exists()


def test_pipelines_bring_the_folders_that_they_list(hub: Hub) -> None:
    index = {
        "_class_name": "Pipeline",
        "unet": ["diffusers", "UNet"],
        "scheduler": ["diffusers", "Scheduler"],
        "safety_checker": [None, None],
        "../up": ["diffusers", "UNet"],
    }
    files = {
        "model_index.json": json.dumps(index).encode(),
        "unet/config.json": b"{}",
        "unet/diffusion_pytorch_model.safetensors": b"weights",
        "unet/diffusion_pytorch_model.fp16.safetensors": b"half",
        "scheduler/scheduler_config.json": b"{}",
        "extra/config.json": b"{}",
        "v1-5.safetensors": b"everything",
    }
    hub.add("org/pipeline", files)
    folder = local_copy("org/pipeline", LoadOptions())
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == {*list(files)[:3], "scheduler/scheduler_config.json"}
    assert stored("org/pipeline").state == "whole"
    (folder / "unet" / "diffusion_pytorch_model.safetensors").unlink()
    assert stored("org/pipeline").missing == ("unet/model.safetensors",)


def test_encoders_bring_the_layers_that_they_list(hub: Hub) -> None:
    modules = [{"path": ""}, {"path": "1_Pooling"}]
    pooling = {"modules.json": json.dumps(modules).encode(), "1_Pooling/config.json": b"{}"}
    hub.add("org/encoder", FILES | pooling)
    assert (local_copy("org/encoder", LoadOptions()) / "1_Pooling" / "config.json").exists()


def test_shards_are_missing_by_name(hub: Hub) -> None:
    shards = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
    index = {"weight_map": {"a": shards[0], "b": shards[1]}}
    files = {name: FILES[name] for name in ("config.json", "tokenizer.json")}
    files |= {name: name.encode() for name in shards}
    files["model.safetensors.index.json"] = json.dumps(index).encode()
    hub.add("org/model", files)
    folder = local_copy("org/model", LoadOptions())
    (folder / shards[1]).unlink()
    state = stored("org/model")
    assert (state.state, state.missing) == ("partial", (shards[1],))
    assert shards[1] in error_of("org/model", local_only=True)
    assert local_copy("org/model", LoadOptions()) == folder
    assert stored("org/model").state == "whole"


def test_what_is_stored_is_whole_partial_or_absent(hub: Hub, tmp_path: Path) -> None:
    repository = hub.add("org/model", FILES)
    assert stored("org/model").state == "absent"
    snapshot = cache_of(tmp_path) / "models--org--model" / "snapshots" / repository.commit
    snapshot.mkdir(parents=True)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text(repository.commit)
    (snapshot / "config.json").write_bytes(FILES["config.json"])
    state = stored("org/model")
    assert state.state == "partial" and state.bytes_on_disk == len(FILES["config.json"])
    assert state.missing == ("preprocessor_config.json or tokenizer.json", "model.safetensors")
    assert "is only partly on this disk" in error_of("org/model", local_only=True)
    assert hub.requests == []
    local_copy("org/model", LoadOptions())
    state = stored("org/model")
    assert (state.state, state.bytes_on_disk) == ("whole", sum(map(len, FILES.values())))


@pytest.mark.parametrize(
    "content",
    [b"[]", b"{broken", b"[" * 100_000, b'{"weight_map": 3}', b'{"weight_map": {"a": "../b\nc"}}'],
)
@pytest.mark.parametrize("name", ["model_index.json", "modules.json", "model.bin.index.json"])
def test_index_that_means_nothing_is_passed_over(hub: Hub, name: str, content: bytes) -> None:
    hub.add("org/model", {**FILES, name: content})
    folder = local_copy("org/model", LoadOptions())
    assert {path.name for path in folder.iterdir()} >= {"config.json", name}
    assert "\n" not in "".join(stored("org/model").missing)


def test_commit_is_downloaded_as_any_revision(hub: Hub) -> None:
    commit = hub.add("org/model", FILES).commit
    assert local_copy("org/model", LoadOptions(revision=commit)).name == commit
    assert stored("org/model", commit).state == "whole"
    assert stored("org/model").state == "absent"


def test_folder_that_cannot_be_written_is_no_broken_connection(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    hub.add("org/model", FILES)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", refused)
    message = error_of("org/model")
    assert f"{cache_of(tmp_path)} cannot be written; set HF_HOME" in message


@pytest.mark.parametrize("revision", ["../../snapshots", "a/../..", "", "-x"])
def test_revisions_stay_inside_their_folder(hub: Hub, revision: str) -> None:
    assert "is no revision" in error_of("org/model", revision=revision)
    assert hub.requests == []


@pytest.mark.parametrize("source", ["/no/such/folder", "./folder", "a/b/c", "../models", "a b"])
def test_paths_that_do_not_exist_are_no_hub_ids(
    hub: Hub, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "no such folder; give a folder or a hub id" in error_of(source)
    assert hub.requests == []


def test_download_killed_five_times_resumes(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/model", FILES)
    hub.stop_after = 10 * PIECE
    environment = {**os.environ, **hub.environment(cache_of(tmp_path))}
    small = sum(len(content) for name, content in FILES.items() if name != "model.safetensors")
    for _ in range(5):
        target = max(stored("org/model").bytes_on_disk, small) + 10 * PIECE
        process = subprocess.Popen(
            [sys.executable, "-c", DOWNLOAD], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert any(line.strip() == str(target) for line in process.stdout)
        process.kill()
        process.wait()
        assert stored("org/model").state == "partial"
    hub.stop_after = None
    last = subprocess.run(
        [sys.executable, "-c", DOWNLOAD], env=environment, capture_output=True, text=True
    )
    assert last.returncode == 0, last.stderr
    folder = Path(last.stdout.splitlines()[-1])
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    starts = [start for _, start in hub.ranges]
    assert len(starts) == 6 and starts == sorted(set(starts))
    assert hub.sent["model.safetensors"] <= len(WEIGHTS) + 5 * PIECE
    assert [hub.sent[name] for name in ("config.json", "tokenizer.json")] == [
        len(FILES["config.json"]),
        len(FILES["tokenizer.json"]),
    ]
    assert not list(cache_of(tmp_path).rglob("*.incomplete"))
    assert stored("org/model").state == "whole"


def test_broken_connection_goes_on_where_it_broke(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", PIECE)
    hub.add("org/model", FILES)
    hub.break_after, hub.breaks = 5 * PIECE, 3
    seen: list[int] = []
    local_copy("org/model", LoadOptions(), lambda done, total: seen.append(done))
    assert [start for _, start in hub.ranges] == [0, 5 * PIECE, 10 * PIECE, 15 * PIECE]
    assert hub.sent["model.safetensors"] == len(WEIGHTS)
    assert seen == sorted(seen) and seen[-1] == sum(map(len, FILES.values()))


def test_connection_that_stays_broken_is_one_line(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/model", FILES)
    hub.break_after, hub.breaks = 0, 100
    message = error_of("org/model")
    assert "broke (RemoteProtocolError)" in message and "the same command continues" in message
    hub.break_after = None
    assert (local_copy("org/model", LoadOptions()) / "model.safetensors").exists()


def test_damaged_part_is_thrown_away(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/model", FILES)
    sha256 = hashlib.sha256(WEIGHTS).hexdigest()
    blobs = cache_of(tmp_path) / "models--org--model" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{sha256}.incomplete").write_bytes(b"damaged")
    assert "model.safetensors arrived damaged; run the command again" in error_of("org/model")
    assert stored("org/model").state == "partial"
    assert (local_copy("org/model", LoadOptions()) / "model.safetensors").exists()


def test_token_goes_to_the_hub_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/model", FILES, gated=True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    local_copy("org/model", LoadOptions())
    assert hub.authorized and set(hub.authorized) == {int(hub.url.rpartition(":")[2])}


def test_gated_model_names_its_licence_and_the_login(hub: Hub) -> None:
    hub.add("org/model", FILES, gated=True)
    message = error_of("org/model")
    assert f"accept its licence at {hub.url}/org/model" in message
    assert "hf auth login" in message and "HF_TOKEN" in message


def test_unknown_and_private_models_ask_for_a_login(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("org/private", FILES, private=True)
    for name in ("org/private", "org/unknown"):
        message = error_of(name)
        assert f"{name}: {hub.url} has no such model, or it is private" in message
        assert "hf auth login" in message and "HF_TOKEN" in message
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert local_copy("org/private", LoadOptions()).is_dir()


def test_wrong_token_and_wrong_revision(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/model", FILES)
    assert "has no revision 'v2'" in error_of("org/model", revision="v2")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    message = error_of("org/model")
    assert "the hub refuses access (401)" in message and "hf_wrong" not in message


def test_hub_that_fails_is_one_line(hub: Hub) -> None:
    hub.add("org/model", FILES)
    hub.status = 503
    assert "it answered 503" in error_of("org/model")


def test_full_disk_is_seen_before_the_download(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.add("org/model", FILES)
    usage = shutil.disk_usage("/")._replace(free=200_000)
    monkeypatch.setattr("viper.models.hub.shutil.disk_usage", lambda _: usage)
    message = error_of("org/model")
    assert "needs 1 MB more, and 0 MB are free" in message and "HF_HOME" in message
    assert not hub.ranges


def test_full_disk_midway_continues_later(hub: Hub, tmp_path: Path) -> None:
    hub.add("org/model", FILES)
    environment = {**os.environ, **hub.environment(cache_of(tmp_path))}
    limit = 300_000

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    ended = subprocess.run(
        [sys.executable, "-c", DOWNLOAD],
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=limited,
    )
    assert "ModelError: org/model: the disk of" in ended.stderr.splitlines()[-1]
    assert "is full" in ended.stderr.splitlines()[-1]
    local_copy("org/model", LoadOptions())
    assert hub.ranges[-1] == ("model.safetensors", limit)


def test_no_hub_lists_every_missing_model_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    use_endpoint(monkeypatch, url, tmp_path)
    with pytest.raises(ModelError) as caught:
        check_hub(["org/one", "org/two"])
    assert f"not on this disk: org/one, org/two; and {url} did not answer" in str(caught.value)
    assert "HF_ENDPOINT" in str(caught.value) and "\n" not in str(caught.value)
    assert f"{url} did not answer" in error_of("org/one")
    check_hub([])


def test_silent_hub_is_given_up_within_the_time_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("viper.models.hub._ANSWER_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, never answers
        use_endpoint(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        with pytest.raises(ModelError, match=r"did not answer in 0\.1 s"):
            check_hub(["org/model"])


@pytest.mark.parametrize(
    ("variables", "seconds"),
    [({}, "2"), ({"ETAG": 0.2}, r"0\.2"), ({"ETAG": 0.2, "DOWNLOAD": 0.3}, r"0\.3")],
)
def test_hub_is_waited_for_as_long_as_the_library_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, float], seconds: str
) -> None:
    for kind in ("ETAG", "DOWNLOAD"):
        monkeypatch.delenv(f"HF_HUB_{kind}_TIMEOUT", raising=False)
    for kind, value in variables.items():
        monkeypatch.setenv(f"HF_HUB_{kind}_TIMEOUT", str(value))
        monkeypatch.setattr(f"huggingface_hub.constants.HF_HUB_{kind}_TIMEOUT", value)
    if not variables:  # the default must not be waited for here
        monkeypatch.setattr("viper.models.hub.threading.Thread.join", lambda *_: None)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        use_endpoint(monkeypatch, f"http://127.0.0.1:{silent.getsockname()[1]}", tmp_path)
        with pytest.raises(ModelError, match=f"did not answer in {seconds} s"):
            check_hub(["org/model"])


@pytest.mark.parametrize("reason", ["local_only", "HF_HUB_OFFLINE"])
def test_forbidden_hub_is_not_asked(hub: Hub, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    hub.add("org/model", FILES)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", reason == "HF_HUB_OFFLINE")
    message = error_of("org/model", local_only=reason == "local_only")
    assert "is not on this disk" in message and f"{reason} forbids the hub" in message
    assert hub.requests == []


def test_a_whole_file_with_other_bytes_is_thrown_away(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import file_download

    def http_get(url: str, file: IO[bytes], **_: object) -> None:
        file.write(bytes(len(WEIGHTS)))

    hub.add("org/model", FILES)
    monkeypatch.setattr(file_download, "http_get", http_get)
    assert "model.safetensors arrived damaged" in error_of("org/model")
    assert stored("org/model").state == "partial"
