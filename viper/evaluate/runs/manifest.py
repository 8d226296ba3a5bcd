"""Manifest of a run (``run.json``), and the comparison of two manifests.

It holds no keys, no secrets, and no path of a home folder.
"""

from __future__ import annotations

import hashlib
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from viper.api.routine_files import StoredRoutines
from viper.data.sample import DatasetSpec, Sample
from viper.errors import StoreError
from viper.record import RecordError, record_from_json
from viper.storage.json_lines import dumps, plain

# An older viper refuses a run with a greater number; new keys need none, as unknown ones are
# ignored.
MANIFEST_VERSION = 1

# Names in the manifest, with the names of the distributions.
PACKAGES = {
    "viper": "viper-reasoner",
    "torch": "torch",
    "transformers": "transformers",
    "open_clip": "open_clip_torch",
    "numpy": "numpy",
}

_PACKAGE = Path(__file__).resolve().parents[2]
# `git status` of a large checkout on a network disk takes seconds; a run must start without it.
_GIT_TIMEOUT_S = 10.0

HIDDEN = "[hidden]"

# Hidden: what options and keys of this name hold, what looks like a key of a known service, and
# users in addresses. Rather too much than a key in a shared run.
_SECRET_NAME = re.compile(
    r"(^|[-_])(api[-_]?key|key|secret|passw(or)?d|token|authorization|credentials?)$", re.IGNORECASE
)
_SECRET_VALUE = re.compile(r"\b(sk|hf|ghp|gsk|xai)[-_][A-Za-z0-9_-]{16,}|\bBearer\s+\S+")
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")

# Keys of a profile that change no answer, or that a hash represents.
_NO_INFLUENCE = (
    *("path", "description", "name", "extends", "hardware", "preload", "max_memory_gb", "bank"),
    *("critic", "threads", "watch"),
)


@dataclass(frozen=True)
class SetDescription:
    """Description of a run's samples, independent of where their files lie.

    Attributes:
        sha256: hash of ids, queries, options and targets, in order.
    """

    name: str
    split: str | None
    seed: int
    limit: int | None
    samples: int
    sha256: str

    @classmethod
    def of(cls, name: str, spec: DatasetSpec, samples: Sequence[Sample]) -> SetDescription:
        """Return the description of the samples that a run will answer."""
        return cls(name, spec.split, spec.seed, spec.limit, len(samples), samples_hash(samples))


@dataclass(frozen=True)
class RunEnvironment:
    """Software and machine of a run.

    Attributes:
        versions: versions of viper, python and the installed packages that compute.
        revision: git revision of the source tree, with ``+changes`` if files of the package
            differ from it; None outside a checkout.
        platform: operating system, kernel and processor in words.
    """

    versions: Mapping[str, str]
    revision: str | None
    platform: str

    @classmethod
    def here(cls) -> RunEnvironment:
        """Return the environment of this process. None of the packages is imported."""
        versions = {"python": platform.python_version()}
        for name, distribution in PACKAGES.items():
            with suppress(PackageNotFoundError):
                versions[name] = version(distribution)
        return cls(versions, revision(_PACKAGE), platform.platform())


# The routines' constants, from before profiles stated them.
_OLD_RATIOS = {"is_on": 1.08, "is_next_to": 1.33}


@dataclass(frozen=True)
class Manifest:
    """Configuration of one run, written to ``run.json`` before anything else.

    Attributes:
        metric: name of the metric.
        seeds: every sample is answered once under each.
        settings: settings that change answers, from the command line or the profile: trials,
            temperatures, deadline and budgets of a sample, fallbacks, …
        document: the whole resolved profile as JSON values; secrets are hidden.
        models: role to model id (with the hash of its weights where the backend knows it).
        prompt_hash: hash of the prompt for a fixed query.
        bank_hash: hash of the bank of in-context examples; None without one.
        arguments: the command line as typed; secrets are hidden.
        execution: settings that change no answer: workers, engine, budget of the whole run.
        created: time of creation, UTC, ISO 8601.
        routines: the files of routines that programs could call; runs of earlier versions hold
            none.
    """

    set: SetDescription
    metric: str
    seeds: tuple[int, ...]
    strategy: str
    api: str
    settings: Mapping[str, Any]
    profile: str
    document: Mapping[str, Any]
    models: Mapping[str, str]
    prompt_hash: str | None = None
    bank_hash: str | None = None
    arguments: tuple[str, ...] = ()
    execution: Mapping[str, Any] = field(default_factory=dict)
    environment: RunEnvironment = field(default_factory=RunEnvironment.here)
    created: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    schema: int = MANIFEST_VERSION
    routines: tuple[StoredRoutines, ...] = ()

    @property
    def depth_ratios(self) -> Mapping[str, float]:
        """Return the profile's greatest ratios of two depths, see :class:`ToolSettings`."""
        ratios: Mapping[str, float] = self.document.get("tools", {}).get(
            "depth_ratios", _OLD_RATIOS
        )
        return ratios

    def to_json(self) -> dict[str, Any]:
        """Return the manifest as JSON values, without secrets and without the path of a home."""
        values: dict[str, Any] = plain(self)
        values["arguments"] = list(redacted_arguments(self.arguments))
        for name in ("document", "settings", "execution", "models"):
            values[name] = redacted(values[name])
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Manifest:
        """Read the values of :meth:`to_json`. Keys that this version does not know are ignored.

        Raises:
            StoreError: not a manifest, or one of a newer version.
        """
        version = values.get("schema") if isinstance(values, Mapping) else None
        if isinstance(version, int) and version > MANIFEST_VERSION:
            raise StoreError(
                f"run.json has version {version}, this viper reads up to {MANIFEST_VERSION}; "
                "install a newer viper"
            )
        try:
            manifest = record_from_json(cls, values)
        except RecordError as error:
            raise StoreError(f"run.json is not a run's manifest ({error})") from None
        # The other defaults describe this process, so they are wrong for a stored run.
        names = {item.name for item in fields(cls)} - {"routines"}
        missing = [name for name in sorted(names) if name not in values]
        if missing:
            raise StoreError(f"run.json is not a run's manifest ({missing[0]}: field required)")
        return manifest

    @property
    def fingerprint(self) -> str:
        """Return a hash of everything that changes answers or scores, and of nothing else."""
        return hashlib.sha256(dumps(dict(sorted(_decisive(self)))).encode()).hexdigest()[:16]


def differences(old: Manifest, new: Manifest) -> list[str]:
    """Return a line for each differing setting that changes answers; empty if none does."""
    before, after = dict(_decisive(old)), dict(_decisive(new))
    lines = []
    for name in dict.fromkeys([*before, *after]):
        values = [side.get(name, _ABSENT) for side in (before, after)]
        if values[0] != values[1]:
            old_text, new_text = (v if isinstance(v, str) else dumps(v) for v in values)
            lines.append(f"{name}: {old_text} in the run, {new_text} now")
    return lines


def samples_hash(samples: Iterable[Sample]) -> str:
    """Return the SHA-256 of ids, queries, options and targets of the samples, in order."""
    digest = hashlib.sha256()
    for item in samples:
        judged = [item.sample_id, item.text, item.task, item.media, item.options, item.target]
        digest.update(dumps(judged).encode())
        digest.update(b"\n")
    return digest.hexdigest()


_ABSENT = "nothing"


def _decisive(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    """Yield name and value of everything that changes answers or scores."""
    values = manifest.to_json()
    for name, value in values["set"].items():
        yield f"set {name}", value
    for name in ("metric", "seeds", "strategy", "api", "prompt_hash", "bank_hash"):
        yield name.replace("_", " "), values[name]
    yield "viper", values["environment"]["versions"].get("viper", _ABSENT)
    for file in values["routines"]:
        yield f"routines of {file['name']}", file["digest"]
    yield from _flat(values["settings"], "")
    yield from _flat(_of_document(values), "profile.")
    for role, model in values["models"].items():
        yield f"model of {role}", model


def decisive_tables(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables and keys of a profile that may change answers."""
    return {key: each for key, each in document.items() if key not in _NO_INFLUENCE}


def _of_document(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the profile without paths, replaced settings, and what model ids stand for."""
    document = decisive_tables(manifest["document"])
    run = document.get("run")
    if isinstance(run, Mapping):
        settings = manifest["settings"]
        document["run"] = {key: run[key] for key in run if key not in {"api", "own", *settings}}

    def backend(role: str, choice: Any) -> Any:
        if not isinstance(choice, Mapping):
            return choice
        left_out = {"cache", "model"} if role in manifest["models"] else {"cache"}
        return {key: value for key, value in choice.items() if key not in left_out}

    models = document.pop("models", {})  # earlier versions had a key for each
    for role, choice in [*document.items(), *models.items()]:
        if role in models or (isinstance(choice, Mapping) and "backend" in choice):
            document[role] = backend(role, choice)
    roles = document.get("roles")
    if isinstance(roles, Mapping):
        document["roles"] = {role: backend(role, choice) for role, choice in roles.items()}
    return decisive_tables({key: each for key, each in document.items() if each is not None})


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def revision(package: Path) -> str | None:
    """Return the git revision of the checkout that holds a package's source.

    None where there is no git, no checkout, or the package lies deeper in somebody else's
    (an environment inside a repository).
    """
    top = _git(package, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != package.parent:
        return None
    head = _git(package, "rev-parse", "HEAD")
    changes = _git(package, "status", "--porcelain", "--", ".")
    return f"{head}+changes" if head and changes else head


def _git(folder: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_GIT_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def redacted(value: Any) -> Any:
    """Return JSON values without anything that looks like a secret; homes become ``~``."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if item and _SECRET_NAME.search(str(key)) else redacted(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def redacted_arguments(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command line with the values of options like ``--api-key`` hidden."""
    shown: list[str] = []
    hide = False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        secret = argument.startswith("--") and bool(_SECRET_NAME.search(name))
        text = f"{name}={HIDDEN}" if secret and equals else _text(argument)
        shown.append(HIDDEN if hide else text)
        hide = secret and not equals
    return tuple(shown)


def _text(text: str) -> str:
    home = str(Path.home())
    if len(home) > 1:
        text = re.sub(rf"{re.escape(home)}(?=/|$)", "~", text)
    return _SECRET_VALUE.sub(HIDDEN, _USER_IN_URL.sub(f"{HIDDEN}@", text))
