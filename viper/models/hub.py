"""Published checkpoints: the one place that finds them in the hub's cache and downloads them.

Every backend loads from the folder that :func:`local_copy` returns, so no library asks the hub
itself. It looks at the snapshot on the disk (:func:`_state`); if files are missing and the hub may
be asked, it lists the repository, chooses the files and fetches them (:func:`_download`), the small
ones first: a snapshot with all its weights is whole. Large files continue where an earlier download
broke off (:func:`_fetch_blob`), and every failure becomes one line with the next step.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from viper.errors import ModelError
from viper.models.libraries import LazyModule

# The settings of the hub's library, and its errors.
constants: Any = LazyModule("huggingface_hub.constants")
errors: Any = LazyModule("huggingface_hub.errors")

# Prefix of a hub id whose weights are in the format of open_clip.
OPEN_CLIP = "hf-hub:"

# Configuration file of a checkpoint with several networks, each in its own folder.
PIPELINE_INDEX = "model_index.json"

# Called with the bytes of a checkpoint that are on this disk, and the bytes it will have.
Progress = Callable[[int, int], None]

# Lists the layers of a sentence encoder, each in its own folder.
_MODULES_INDEX = "modules.json"
# One of them makes a folder a checkpoint; the second is that of an adapter.
_CONFIGS = ("config.json", "adapter_config.json")
# Files without which texts or pictures cannot be read for the model.
_READER = re.compile(r"tokenizer.*|vocab\..*|.*\.model|.*processor_config\.json")
# Endings of what is downloaded beside the weights: settings and vocabularies, no code, no copies of
# the weights for other libraries.
_SMALL = {".json", ".txt", ".model", ".jinja", ".tiktoken", ".spm", ".bpe", ".vocab"}
# Names of weight files, without shard and ending. Variants such as ``model.fp16`` are copies.
_WEIGHTS = r"(model|pytorch_model|diffusion_pytorch_model|adapter_model)"
_WEIGHTS_OF_OPEN_CLIP = r"(open_clip_model|open_clip_pytorch_model)"

# Names become paths in the cache, so neither may leave its folder.
_HUB_ID = re.compile(r"(?!.*(--|\.\.))\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
_REVISION = re.compile(r"(?!.*\.\.)\w[\w./-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, kw_only=True)
class Access:
    """Options for downloads.

    Attributes:
        local_only: never access the model hub.
        revision: commit or branch of a hub repository.
        trust: models whose own Python code may run, by the names that the profile gives them.
    """

    local_only: bool = False
    revision: str | None = None
    trust: Sequence[str] = ()

    def trusts(self, source: str | Path) -> bool:
        """Return whether the code of a model, given by its name or folder, may run."""
        published = published_as(source)
        names = {str(source), str(source).removeprefix(OPEN_CLIP), *(published or ())[:1]}
        return not names.isdisjoint(self.trust)


@dataclass(frozen=True)
class Stored:
    """How much of a checkpoint is on this disk.

    Attributes:
        bytes_on_disk: size of its files, those included that a broken download left.
        missing: files without which it cannot be loaded.
    """

    state: Literal["whole", "partial", "absent"]
    bytes_on_disk: int
    missing: tuple[str, ...]

    @property
    def shortfall(self) -> str:
        """Return what is not on this disk, in a few words."""
        more = len(self.missing) - 3
        files = ", ".join(self.missing[:3]) + (f" and {more} more" if more > 0 else "")
        how_much = "not" if self.state == "absent" else "only partly"
        return f"{how_much} on this disk (missing: {files})"


def local_copy(source: str | Path, options: Access, on_progress: Progress | None = None) -> Path:
    """Return the folder of a checkpoint, and download first what is missing of it.

    A folder is returned as it is. A checkpoint that the hub's cache holds whole asks for nothing
    from the network. A download that broke off is continued where it stopped.

    Args:
        source: a folder or a hub id, with or without the prefix ``hf-hub:``.
        on_progress: replaces the progress bars.

    Raises:
        ModelError: no such folder or repository, a licence that was not accepted, no access, no
            connection, a full disk, or something missing that must not be downloaded.
    """
    if Path(source).is_dir():
        return Path(source)
    repository = _Repository.of(source, options.revision)
    state = _state(repository)
    if state.state != "whole":
        if options.local_only or constants.HF_HUB_OFFLINE:
            reason = "local_only" if options.local_only else "HF_HUB_OFFLINE"
            raise ModelError(
                f"{repository.name} is {state.shortfall}, and {reason} forbids the hub; download "
                f"it once without {reason}"
            )
        check_hub([repository.name])
        try:
            _download(repository, options.trusts(source), on_progress)
        except (errors.HTTPError, OSError, ValueError) as error:
            raise ModelError(f"{repository.name}{_advice(error, repository)}") from error
    snapshot = repository.snapshot()
    assert snapshot is not None
    return snapshot


def stored(source: str | Path, revision: str | None = None) -> Stored:
    """Return how much of a checkpoint is on this disk. Nothing but the disk is asked.

    Raises:
        ModelError: neither a folder nor a hub id.
    """
    if Path(source).is_dir():
        return Stored("whole", _bytes_in(Path(source)), ())
    return _state(_Repository.of(source, revision))


# Seconds in which the hub must answer, unless a variable of its library says otherwise: without a
# network nobody should wait for its own 10.
_ANSWER_S = 2.0
_TIMEOUTS = ("HF_HUB_ETAG_TIMEOUT", "HF_HUB_DOWNLOAD_TIMEOUT")


def check_hub(missing: Sequence[str]) -> None:
    """Check that the hub answers, if there is anything to download.

    It must do so within 2 s, or the larger of ``HF_HUB_ETAG_TIMEOUT`` and
    ``HF_HUB_DOWNLOAD_TIMEOUT`` where one is set.

    Args:
        missing: the checkpoints to download; the error lists them all.

    Raises:
        ModelError: the hub does not answer in time.
    """
    from huggingface_hub import get_session

    if not missing:
        return
    answers: list[Any] = []
    chosen = [getattr(constants, name) for name in _TIMEOUTS if name in os.environ]
    timeout_s = max(chosen, default=_ANSWER_S)

    def ask() -> None:
        with suppress(errors.HTTPError, OSError, ValueError):  # no answer
            answers.append(get_session().head(constants.ENDPOINT, timeout=timeout_s))

    # The library's time limit does not cover the lookup of the name, so the thread's does.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not answers:
        raise ModelError(
            f"not on this disk: {', '.join(missing)}; and {constants.ENDPOINT} did not answer in "
            f"{timeout_s:g} s; connect this machine, wait longer (HF_HUB_ETAG_TIMEOUT), set "
            f"HF_ENDPOINT to a mirror, or copy the hub's cache ({constants.HF_HUB_CACHE}) from a "
            "machine that has them"
        )


def published_as(folder: str | Path) -> tuple[str, str] | None:
    """Return the hub id and commit of a folder in the hub's cache, or None for another folder."""
    path, cache = Path(folder), Path(constants.HF_HUB_CACHE)
    if path.parent.name == "snapshots" and path.parents[2:3] == (cache,):
        return path.parts[-3].removeprefix("models--").replace("--", "/"), path.name
    return None


@dataclass(frozen=True)
class _Repository:
    name: str
    revision: str
    open_clip: bool

    @classmethod
    def of(cls, source: str | Path, revision: str | None) -> _Repository:
        name = str(source).removeprefix(OPEN_CLIP)
        if not _HUB_ID.fullmatch(name):
            raise ModelError(f"{source}: no such folder; give a folder or a hub id (org/name)")
        if revision is not None and not _REVISION.fullmatch(revision):
            raise ModelError(f"{name}: {revision!r} is no revision; give a branch, tag or commit")
        return cls(name, revision or "main", str(source).startswith(OPEN_CLIP))

    @property
    def folder(self) -> Path:
        """Return its folder in the hub's cache."""
        return Path(constants.HF_HUB_CACHE) / f"models--{self.name.replace('/', '--')}"

    def snapshot(self) -> Path | None:
        """Return the folder of the revision's files, or None if nothing of it was downloaded."""
        commit = self.revision
        if not _COMMIT.fullmatch(commit):
            try:
                commit = (self.folder / "refs" / self.revision).read_text().strip()
            except OSError:
                return None
        return self.folder / "snapshots" / commit if _COMMIT.fullmatch(commit) else None

    def begun(self) -> int:
        """Return the bytes of files that an earlier download did not finish."""
        begun = self.folder.glob("blobs/*.incomplete")
        return sum(path.stat().st_size for path in begun if _SHA256.fullmatch(path.stem))

    def weights(self, names: Sequence[str]) -> list[str]:
        """Return the weight files among the files of a folder: the safest format, no copies."""
        stem = _WEIGHTS_OF_OPEN_CLIP if self.open_clip else _WEIGHTS
        for ending, shard in product(("safetensors", "bin"), ("", r"-\d+-of-\d+")):
            form = re.compile(rf"{stem}{shard}\.{ending}")
            weights = [name for name in names if form.fullmatch(name)]
            if weights:
                return weights
        return []


def _state(repository: _Repository) -> Stored:
    snapshot = repository.snapshot()
    size = (_bytes_in(snapshot) if snapshot else 0) + repository.begun()
    if not size or snapshot is None:
        return Stored("absent", size, ("all files",))
    missing = tuple(_missing(snapshot, repository))
    return Stored("partial" if missing else "whole", size, missing)


def _bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _missing(snapshot: Path, repository: _Repository) -> Iterator[str]:
    """Yield the files that a snapshot lacks to be loaded."""
    if (snapshot / PIPELINE_INDEX).is_file():
        for part in _parts(snapshot):
            if not (snapshot / part).is_dir():
                yield f"{part}/"
            elif (snapshot / part / "config.json").is_file():
                for name in _missing_weights(snapshot / part, repository):
                    yield f"{part}/{name}"
        return
    configs = ("open_clip_config.json",) if repository.open_clip else _CONFIGS
    if not any((snapshot / name).is_file() for name in configs):
        yield configs[0]
    elif not repository.open_clip and not any(map(_READER.fullmatch, _names(snapshot))):
        yield "preprocessor_config.json or tokenizer.json"
    yield from _missing_weights(snapshot, repository)


def _missing_weights(folder: Path, repository: _Repository) -> Iterator[str]:
    weights = repository.weights(_names(folder))
    indexes = sorted(folder.glob("*model.*.index.json"), reverse=True)  # safetensors first
    listed = _json(indexes[0], dict).get("weight_map") if indexes else None
    if isinstance(listed, dict) and all("-of-" in name for name in weights):
        shards = repository.weights([str(name) for name in listed.values()])
        yield from sorted(set(shards) - set(weights))
    elif not weights:
        yield "open_clip_model.safetensors" if repository.open_clip else "model.safetensors"


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file()]


def _parts(snapshot: Path) -> list[str]:
    """Return the subfolders that a checkpoint names: a pipeline's networks, an encoder's layers."""
    index = _json(snapshot / PIPELINE_INDEX, dict)
    parts = [name for name, value in index.items() if isinstance(value, list) and all(value)]
    for module in _json(snapshot / _MODULES_INDEX, list):
        parts.append(str(module.get("path")) if isinstance(module, dict) else "")
    return [part for part in parts if re.fullmatch(r"\w[\w-]*", part)]


def _json(path: Path, kind: type) -> Any:
    """Return a file's JSON; an empty ``kind`` if it is not there, broken, or of another kind."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return kind()
    return value if isinstance(value, kind) else kind()


def _download(repository: _Repository, trusted: bool, on_progress: Progress | None) -> None:
    """Download what is missing, the small files first."""
    from huggingface_hub import HfApi, hf_hub_download

    revision = None if repository.revision == "main" else repository.revision
    timeout_s = constants.HF_HUB_DOWNLOAD_TIMEOUT
    info = HfApi(endpoint=constants.ENDPOINT).model_info(
        repository.name, revision=revision, files_metadata=True, timeout=timeout_s
    )
    commit = str(info.sha)
    if not _COMMIT.fullmatch(commit):
        raise ValueError("the hub names no commit")
    files = {each.rfilename: each for each in info.siblings or ()}
    snapshot = repository.folder / "snapshots" / commit
    reference = repository.folder / "refs" / repository.revision
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(commit)

    def fetch(name: str, bar: Any) -> None:
        lfs = files[name].lfs
        if lfs is not None and not (snapshot / name).exists():
            _fetch_blob(repository, commit, name, lfs.sha256, lfs.size, bar)
        hf_hub_download(repository.name, name, revision=commit, tqdm_class=bar)

    for name in (PIPELINE_INDEX, _MODULES_INDEX):
        if name in files:
            fetch(name, None)
    endings = _SMALL | ({".py"} if trusted else set())
    small: list[str] = []
    weights: list[str] = []
    for folder in (".", *_parts(snapshot)):
        here = [path for path in map(PurePosixPath, files) if str(path.parent) == folder]
        small += [str(path) for path in here if path.suffix in endings]
        if folder != "." or PIPELINE_INDEX not in files:
            chosen = repository.weights([path.name for path in here])
            weights += [str(PurePosixPath(folder, name)) for name in chosen]
    sizes = {name: int(files[name].size or 0) for name in (*small, *weights)}
    left = sum(size for name, size in sizes.items() if not (snapshot / name).exists())
    total, free = sum(sizes.values()), shutil.disk_usage(repository.folder).free
    if left - repository.begun() > free:
        raise ModelError(
            f"{repository.name} needs {size_text(left - repository.begun())} more, and "
            f"{size_text(free)} are free in {repository.folder.parent}; make room, or set HF_HOME "
            "to a folder on a larger disk"
        )
    bar = _counting(on_progress, total, total - left)
    for name in sizes:
        fetch(name, bar)


def _fetch_blob(
    repository: _Repository, commit: str, name: str, sha256: str, size: int, bar: Any
) -> None:
    """Download a large file into the cache, from where an earlier download of it stopped.

    The library's own download begins again at the first byte after every broken run.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import WeakFileLock, build_hf_headers

    if not _SHA256.fullmatch(sha256):
        raise ModelError(f"{repository.name}: {name} has no SHA-256 on the hub")
    blob = repository.folder / "blobs" / sha256
    partial = blob.with_name(f"{sha256}.incomplete")
    lock = repository.folder.parent / ".locks" / repository.folder.name / f"{sha256}.lock"
    for folder in (blob.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            return
        begun = partial.stat().st_size if partial.exists() else 0
        if begun > size:
            partial.unlink()
            begun = 0
        url = hf_hub_url(repository.name, name, revision=commit, endpoint=constants.ENDPOINT)
        more: Any = {"headers": build_hf_headers(), "expected_size": size, "tqdm_class": bar}
        with partial.open("ab") as file:
            http_get(url, file, resume_size=begun, **more)
        with partial.open("rb") as content:
            whole = hashlib.file_digest(content, "sha256").hexdigest() == sha256
        if not whole:
            partial.unlink()
            raise ModelError(f"{repository.name}: {name} arrived damaged; run the command again")
        partial.replace(blob)


def _counting(on_progress: Progress | None, total: int, done: int) -> Any:
    """Return a class of silent progress bars that report to ``on_progress``; None without it."""
    if on_progress is None:
        return None
    from tqdm.auto import tqdm

    report = on_progress

    class Counting(tqdm):  # type: ignore[misc, type-arg]
        def __init__(self, *args: Any, **keywords: Any) -> None:
            super().__init__(*args, disable=True)
            self.update(keywords.get("initial", 0))

        def update(self, n: float | None = 1) -> None:
            nonlocal done
            done += int(n or 0)
            report(min(done, total), total)

    return Counting


def size_text(size_bytes: float) -> str:
    """Return a size in MB, or in GB from 1 GB on."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"


def _advice(error: Exception, repository: _Repository) -> str:
    """Return the reason and the next step, without the words of requests: they can hold tokens."""
    hub, page = constants.ENDPOINT, f"{constants.ENDPOINT}/{repository.name}"
    login = "log in with `hf auth login` or set HF_TOKEN"
    room = "make room or set HF_HOME to a folder on a larger disk"
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(error, errors.GatedRepoError):
        return f" is gated: accept its licence at {page}, then {login}, and run the same command"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f": {hub} has no such model, or it is private; check the name (org/name), or {login}"
    if isinstance(error, errors.RevisionNotFoundError):
        return f" has no revision {repository.revision!r}; see {page}/commits/main"
    cache = repository.folder.parent
    if getattr(error, "errno", None) in _DISK_FULL:
        return f": the disk of {cache} is full; {room}; the same command continues the download"
    if getattr(error, "errno", None) in _READ_ONLY:
        return f": {cache} cannot be written; set HF_HOME to another folder"
    if status in (401, 403):
        return f": the hub refuses access ({status}); {login} with a token that may read it"
    reason = f"it answered {status}" if status else type(error.__cause__ or error).__name__
    return f": the connection to {hub} broke ({reason}); the same command continues the download"
