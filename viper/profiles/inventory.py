"""Inventory of a profile's models: source, size, problems. Nothing is loaded.

`inventory` calls `_state` for each role: it resolves the backend, checks packages and options, and
then looks where the weights are: a folder, the cache, or still on the hub.
`downloads` and `readiness` summarise the states.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from viper.errors import ModelError, ViperError
from viper.models.checkpoints import facts_of
from viper.models.hub import PIPELINE_INDEX, size_text, stored
from viper.profiles import backends
from viper.profiles.document import BackendChoice
from viper.profiles.wiring import Profile

Place = Literal["folder", "cache", "partial", "hub", "endpoint", "shared", "own", "nowhere"]

_CONFIGS = ("config.json", "open_clip_config.json", "adapter_config.json", PIPELINE_INDEX)


@dataclass(frozen=True)
class ModelState:
    """State of one role's model.

    Attributes:
        place: location of the weights: a ``folder``, the hub's ``cache`` on this disk, only
            ``partial`` there, only on the ``hub``, behind an ``endpoint``, ``shared`` with another
            role, managed by the backend itself (``own``), or ``nowhere``.
        size_bytes: size of the files on this disk; None if there are none, or if they are counted
            for the role that shares the model.
        whole_bytes: size of all files of a model that is partial or on the hub; None if unknown.
        problem: why the role cannot run on this machine, or None.
        shares: earlier role that uses the same model, or None.
    """

    role: str
    backend: str
    model: str | None
    place: Place
    size_bytes: int | None = None
    whole_bytes: int | None = None
    problem: str | None = None
    options: Mapping[str, Any] | None = None
    shares: str | None = None

    @property
    def missing_gb(self) -> float:
        """Return the size of the files to be downloaded in 10^9 bytes; 0 if it is unknown."""
        return max(0, (self.whole_bytes or 0) - (self.size_bytes or 0)) / 1e9

    @property
    def size(self) -> str:
        """Return the size on this disk, and after the download, as text; empty if unknown."""
        sizes = [self.size_bytes, self.whole_bytes]
        return " of ".join(size_text(size) for size in sizes if size is not None)


def inventory(profile: Profile, offline: bool = False) -> Iterator[ModelState]:
    """Return the state of every role, the language model first.

    Args:
        offline: a model that is still on the hub is a problem.
    """
    seen: list[tuple[backends.SharedModel, str]] = []
    for role, choice in profile.choices():
        state = _state(profile, role, choice, offline)
        model = None if state.place == "nowhere" else profile.shared_model(role, choice)
        if model is not None:
            first = next((earlier for other, earlier in seen if other == model), None)
            seen.append((model, role))
            if first is not None:
                # Report a problem of the model once, for the first role that uses it.
                unsized = replace(state, size_bytes=None, whole_bytes=None)
                state = replace(unsized, place="shared", problem=None, shares=first)
        yield state


def downloads(profile: Profile) -> list[ModelState]:
    """Return the states of the published models that are not whole on this disk, each model
    once.
    """
    absent = (state for state in inventory(profile) if state.place in ("hub", "partial"))
    return list({state.model: state for state in absent}.values())


def problems_of(profile: Profile, states: Sequence[ModelState]) -> list[str]:
    """Return the problems of the states and the further ones of the profile, each once."""
    of_models = {state.problem for state in states}
    others = [problem for problem in profile.problems() if problem not in of_models]
    return [f"{state.role}: {state.problem}" for state in states if state.problem] + others


def readiness(profile: Profile) -> tuple[str, str | None]:
    """Return ``runs here``, ``downloads first`` or ``cannot run``, and the reason."""
    problems = problems_of(profile, list(inventory(profile)))
    if problems:
        return "cannot run", "; ".join(problems)
    absent = downloads(profile)
    if absent:
        names = (f"{each.model} ({each.size})" if each.size else str(each.model) for each in absent)
        return "downloads first", f"not on this disk: {', '.join(names)}"
    return "runs here", None


def _state(profile: Profile, role: str, choice: BackendChoice, offline: bool) -> ModelState:
    options = {**profile.options(role, choice), **({"sees": True} if choice.sees else {})}

    def state(place: Place, **more: Any) -> ModelState:
        return ModelState(role, choice.backend, choice.model, place, options=options, **more)

    try:
        source = profile.checked_source(role, choice)
    except ViperError as error:
        return state("nowhere", problem=str(error))
    if choice.backend == "openai":
        return state("endpoint", problem=None if choice.model else "names no model")
    asks_own = source and backends.asks_vlm(role, choice.backend)
    if not asks_own and not backends.needs_model(role, choice.backend):
        is_own = backends.kind_of(role, choice.backend) in ("bundled", "search")
        return state("own" if is_own else "shared")
    is_file = backends.kind_of(role, choice.backend) == "file"
    if source is None:
        problem = backends.FETCH_MODEL if is_file else "names no model (a folder or a hub id)"
        return state("nowhere", problem=problem)
    if is_file:
        file = Path(source).expanduser()
        if not file.is_file():
            return state("nowhere", problem=f"{file}: no such file")
        return state("folder", size_bytes=file.stat().st_size)
    if not backends.kind_of(role, choice.backend) and not Path(source).is_dir():
        return state("own")
    if "pretrained" in options:
        return state("own")  # only open_clip knows which repository has an architecture's weights
    folder = Path(source)
    if folder.is_dir():
        endings = (".safetensors", ".gguf", ".bin", ".pt", ".pth")
        inside = folder.rglob("*") if (folder / PIPELINE_INDEX).is_file() else folder.iterdir()
        size = sum(path.stat().st_size for path in inside if path.suffix in endings)
        problem = f"{source}: no {' or '.join(_CONFIGS[:2])} in that folder"
        is_whole = any((folder / name).is_file() for name in _CONFIGS)
        return state("folder", size_bytes=size, problem=None if is_whole else problem)
    try:
        on_disk = stored(source, options.get("revision"))
    except ModelError as error:
        return state("nowhere", problem=str(error))
    if on_disk.state == "whole":
        return state("cache", size_bytes=on_disk.bytes_on_disk)
    facts = facts_of(source)
    partly = on_disk.state == "partial"
    problem = f"{source} is {on_disk.shortfall}, and --offline forbids the hub"
    return state(
        "partial" if partly else "hub",
        size_bytes=on_disk.bytes_on_disk if partly else None,
        whole_bytes=round(facts.disk_gb * 1e9) if facts else None,
        problem=problem if offline else None,
    )
