"""Inventory of a profile's models: source, size, problems. Nothing is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from viper.errors import ViperError
from viper.profiles.backends import (
    SEARCHES,
    SHIPPED,
    SharedModel,
    asks_vlm,
    missing_extra,
    needs_model,
    played,
    resolve_backend,
)
from viper.profiles.document import BackendChoice
from viper.profiles.wiring import Profile

Place = Literal["folder", "cache", "hub", "endpoint", "shared", "own", "nowhere"]

PIPELINE_INDEX = "model_index.json"
"""Configuration file of a checkpoint with several networks, each in its own folder."""

_CONFIGS = ("config.json", "open_clip_config.json", "adapter_config.json", PIPELINE_INDEX)


@dataclass(frozen=True)
class ModelState:
    """State of one role's model.

    Attributes:
        place: location of the weights: a ``folder``, the hub's ``cache`` on this disk, only on the
            ``hub``, behind an ``endpoint``, ``shared`` with another role, managed by the backend
            itself (``own``), or ``nowhere``.
        size_bytes: size of the weight files; None if unknown, or counted for the role that shares
            the model.
        problem: why the role cannot run on this machine, or None.
        shares: earlier role that uses the same model, or None.
    """

    role: str
    backend: str
    model: str | None
    place: Place
    size_bytes: int | None = None
    problem: str | None = None
    options: Mapping[str, Any] | None = None
    shares: str | None = None


def inventory(profile: Profile, offline: bool = False) -> Iterator[ModelState]:
    """Return the state of every role, the language model first.

    Args:
        offline: a model that is still on the hub is a problem.
    """
    seen: list[tuple[SharedModel, str]] = []
    for role, choice in profile.choices():
        state = _state(profile, role, choice, offline)
        model = None if state.place == "nowhere" else profile.shared_model(role, choice)
        if model is not None:
            first = next((earlier for other, earlier in seen if other == model), None)
            seen.append((model, role))
            if first is not None:
                # Report a problem of the model once, for the first role that uses it.
                state = replace(state, place="shared", size_bytes=None, problem=None, shares=first)
        yield state


def readiness(profile: Profile) -> tuple[str, str | None]:
    """Return ``runs here``, ``downloads first`` or ``cannot run``, and the reason."""
    states = list(inventory(profile))
    problems = [f"{state.role}: {state.problem}" for state in states if state.problem]
    known = {state.problem for state in states}
    problems += [problem for problem in profile.problems() if problem not in known]
    if problems:
        return "cannot run", "; ".join(problems)
    absent = list(dict.fromkeys(str(state.model) for state in states if state.place == "hub"))
    if absent:
        return "downloads first", f"not on this disk: {', '.join(absent)}"
    return "runs here", None


def _state(profile: Profile, role: str, choice: BackendChoice, offline: bool) -> ModelState:
    options = {**profile.options(role, choice), **({"sees": True} if choice.sees else {})}

    def state(place: Place, size: int | None = None, problem: str | None = None) -> ModelState:
        return ModelState(role, choice.backend, choice.model, place, size, problem, options)

    try:
        resolve_backend(role, choice.backend)
        source = profile.model_source(choice)
        profile.shared_model(role, choice)
    except ViperError as error:
        return state("nowhere", problem=str(error))
    missing = missing_extra(role, choice.backend)
    if missing is not None:
        return state("nowhere", problem=str(missing))
    if choice.backend == "openai":
        return state("endpoint", problem=None if choice.model else "names no model")
    if not needs_model(role, choice.backend) and not (source and asks_vlm(role, choice.backend)):
        is_own = role in ("faces", "ocr") or (role, choice.backend) in SEARCHES
        return state("own" if is_own else "shared")
    if source is None:
        return state("nowhere", problem="names no model (a folder or a hub id)")
    if choice.backend not in SHIPPED.get(played(role), {}) and not Path(source).is_dir():
        return state("own")
    return _of_source(source, state, offline)


def _of_source(source: str, state: Callable[..., ModelState], offline: bool) -> ModelState:
    folder = Path(source)
    if folder.is_dir():
        problem = None
        if not any((folder / name).is_file() for name in _CONFIGS):
            problem = f"{source}: no {' or '.join(_CONFIGS[:2])} in that folder"
        return state("folder", _weights(folder), problem)
    if folder.is_absolute() or source.startswith("."):
        return state("nowhere", problem=f"{source}: no such folder")
    cached = _cached_size(source.removeprefix("hf-hub:"))
    if cached is not None:
        return state("cache", cached)
    problem = f"{source} is not on this disk, and --offline forbids the hub" if offline else None
    return state("hub", problem=problem)


def _weights(folder: Path) -> int:
    endings = (".safetensors", ".bin", ".pt", ".pth")
    inside = folder.rglob("*") if (folder / PIPELINE_INDEX).is_file() else folder.iterdir()
    return sum(path.stat().st_size for path in inside if path.suffix in endings)


def _cached_size(repository: str) -> int | None:
    """Return the bytes that the hub's cache holds of a repository, or None if it holds nothing."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        for entry in scan_cache_dir().repos:
            if entry.repo_id == repository and entry.repo_type == "model":
                return int(entry.size_on_disk)
    except (CacheNotFound, OSError):
        return None
    return None
