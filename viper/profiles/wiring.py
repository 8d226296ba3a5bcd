"""Builds the components of a Reasoner from a checked profile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from viper.ace.bank import read_bank
from viper.ace.pool import FOLDER as DEMONSTRATIONS
from viper.ace.pool import DemonstrationPool, LearnedExamples
from viper.api.library import Library, library_for
from viper.errors import ProfileError, ViperError
from viper.models.checkpoints import weights_gib
from viper.models.libraries import import_libraries
from viper.models.llm.endpoint import find_endpoint
from viper.models.llm.protocol import LLM
from viper.models.llm.wrapped import BATCH, DeferredLLM, GatheredLLM
from viper.models.loading import split_options
from viper.models.memory import MemoryBudget
from viper.models.vision.roles import Floats
from viper.profiles.backends import (
    ENGINES,
    FRAMES,
    FULL_PRECISION,
    SAM2,
    SEARCHES,
    USES_LLM,
    VLM,
    SharedModel,
    asks_vlm,
    backend_class,
    built,
    check_loading_options,
    load_backend,
    loading_options,
    loads_weights,
    missing_extra,
    needs_model,
    resolve_backend,
    shared_model,
    takes_pictures,
    vlm_options,
)
from viper.profiles.document import EYES, WRITER, BackendChoice, ProfileDocument
from viper.profiles.files import proposed_profiles, read_profile, state_dir
from viper.sandbox import Sandbox
from viper.sandbox.sandbox import Mode
from viper.strategies.base import Components
from viper.strategies.examples import ExampleStore, NoExamples
from viper.strategies.settings import RunSettings, all_settings
from viper.tools.models import ModelSet
from viper.tools.toolbox import Toolbox
from viper.tuning.prompt_pool import FOLDER as PROMPTS
from viper.tuning.prompt_pool import PromptPool

EMBEDDED = Path(__file__).parents[1] / "embedded"
"""The data of the profile ``embedded``: weights, example banks, media."""
WEIGHTS = EMBEDDED / "weights"
BANKS = EMBEDDED / "banks"


@dataclass(frozen=True)
class Profile:
    """A profile from which ``Reasoner(profile)`` builds its components.

    Attributes:
        sandbox_mode: ``strict``, or ``weak`` if a protection layer is missing and the user accepts
            that.
        api: API instead of the profile's. Its files are relative to the working folder.
        max_memory_gb: memory limit instead of the profile's.
        state: folder of pools and caches; see :func:`viper.profiles.files.state_dir`.
        learned: use the state's pools: soft prompts for the tools, and programs that worked as
            examples before those of the bank.
    """

    document: ProfileDocument
    sandbox_mode: Mode = "strict"
    api: str | None = None
    max_memory_gb: float | None = None
    state: Path | None = None
    learned: bool = False

    @property
    def name(self) -> str:
        return self.document.name

    def components(self) -> Components:
        """Build the components. Every model is loaded on first use.

        Raises:
            ProfileError, UnknownNameError: a backend or model is not available.
            UsageError: a file of routines cannot be used.
        """
        document, library = self.document, self.library()
        for role, choice in self.choices():
            self._check_backend(role, choice)
        memory_gb = document.max_memory_gb if self.max_memory_gb is None else self.max_memory_gb
        limit = int(memory_gb * 2**30) if memory_gb else None
        models = ModelSet({}, MemoryBudget(limit, partial(memory_advice, document)))
        llms = {
            role: self._deferred_llm(models.budget, role, choice)
            for role, choice in document.models.items()
        }
        for role, choice in document.roles.items():
            self._add_role(models, role, choice, llms)
        pool = DemonstrationPool(state_dir(self.state) / DEMONSTRATIONS)
        return Components(
            models=llms,
            toolbox=Toolbox(
                models,
                document.tools,
                library.tool_routines,
                PromptPool(state_dir(self.state) / PROMPTS) if self.learned else None,
            ),
            sandbox=Sandbox(
                limits=document.limits, prelude=library.prelude(), mode=self.sandbox_mode
            ),
            settings=replace(self._run_settings(), api=self.api or document.run.api),
            examples=LearnedExamples(pool, self._examples()) if self.learned else self._examples(),
            profile_name=document.name,
            facts=document.facts,
            preload=document.preload,
            library=library,
            embed=partial(_embedded, models) if "embedder" in document.roles else None,
            demonstrations=pool,
            styles={role: choice.style for role, choice in document.models.items()},
            sees=frozenset(role for role, choice in document.models.items() if choice.sees),
        )

    def library(self) -> Library:
        """Return the names that programs may call.

        Raises:
            UsageError: a file of routines cannot be used.
        """
        if self.api is not None:
            return library_for(self.api)
        return library_for(self.document.run.api, self.document.base)

    def problems(self) -> list[str]:
        """Return one line per problem that prevents this profile from running here.

        Nothing is loaded.
        """
        checks: list[Callable[[], Any]] = [
            *[partial(self._check_backend, role, choice) for role, choice in self.choices()],
            *[partial(_check_key, choice) for choice in self.document.models.values()],
            self._examples,
            self.library,
            *[own.check_files for own in self._run_settings().own.values()],
        ]
        lines = []
        for check in checks:
            try:
                check()
            except ViperError as error:
                lines.append(str(error))
        return lines

    def without_examples(self) -> Profile:
        """Return the same profile in the zero-shot setting."""
        return replace(self, document=replace(self.document, bank=None))

    def with_bank(self, bank: str) -> Profile:
        """Return the same profile with another bank of examples: a file, or ``embedded:NAME``."""
        path = bank if bank.startswith("embedded:") else str(Path(bank).resolve())
        return replace(self, document=replace(self.document, bank=path))

    def with_thresholds(self, values: Mapping[str, float]) -> Profile:
        """Return the same profile with these start values of thresholds.

        Without self-tuning, they are the values of the whole run.

        Raises:
            UnknownNameError: the profile has no threshold of that name; lists its thresholds.
        """
        tools = self.document.tools.with_thresholds(values)
        return replace(self, document=replace(self.document, tools=tools))

    def choices(self) -> Iterator[tuple[str, BackendChoice]]:
        """Yield the role and backend of every model, the language models first."""
        yield from self.document.models.items()
        yield from self.document.roles.items()

    def model_source(self, choice: BackendChoice) -> str | None:
        """Return the model to load: the shipped folder, the named folder, or a hub id.

        Raises:
            ProfileError: a shipped model of that name does not exist.
        """
        return self._source(choice.model)

    def options(self, role: str, choice: BackendChoice) -> Mapping[str, Any]:
        """Return the options of a backend.

        They are those of the profile's ``[load]`` that the backend honours, overridden by its own
        options. Roles of :data:`FULL_PRECISION` take no lower precision from ``[load]``. An adapter
        is named in the same way as a model.

        Raises:
            ProfileError: a shipped adapter of that name does not exist.
        """
        honoured = loading_options(role, choice.backend) if choice.model is not None else ()
        load = {name: value for name, value in self.document.load.items() if name in honoured}
        if role in FULL_PRECISION:
            load.pop("quantize", None)
            load |= {"dtype": "float32"} if "dtype" in load else {}
        options = {**load, **choice.options}
        if isinstance(options.get("adapter"), str):
            options["adapter"] = self._source(options["adapter"])
        return options

    def shared_model(self, role: str, choice: BackendChoice) -> SharedModel | None:
        """Return the model of a role, which roles with an equal one share, or None.

        Raises:
            ProfileError: a shipped model does not exist, or an option for loading is wrong.
        """
        table = self.asked_table(role, choice)
        if table is not None:
            return self.shared_model(table, self.document.models[table])
        source = self.model_source(choice)
        return shared_model(role, choice.backend, source, self.options(role, choice))

    def asked_table(self, role: str, choice: BackendChoice) -> str | None:
        """Return the table of the language model that a role asks instead of naming one, or
        None.
        """
        if choice.model is not None or not asks_vlm(role, choice.backend):
            return None
        return EYES if EYES in self.document.models else WRITER

    def _source(self, name: str | None) -> str | None:
        if name is None:
            return None
        if not name.startswith("embedded:"):
            return self._beside(name)
        folder = WEIGHTS / name.removeprefix("embedded:")
        if not folder.is_dir():
            raise ProfileError(
                f"{name}: not shipped with this package; known: "
                + ", ".join(sorted(path.name for path in WEIGHTS.glob("*") if path.is_dir()))
            )
        return str(folder)

    def _beside(self, name: str) -> str:
        """Resolve a path that begins with ``./`` or ``../`` against the profile's folder."""
        base = self.document.base
        if not name.startswith(("./", "../")) or base is None:
            return name
        return str((base / name).resolve())

    def _check_backend(self, role: str, choice: BackendChoice) -> None:
        resolve_backend(role, choice.backend)
        check_loading_options(role, choice.backend, choice.options)
        source = self.model_source(choice)
        if source is None and needs_model(role, choice.backend):
            raise ProfileError(f"{role}: the backend {choice.backend!r} needs a model")
        if (role, choice.backend) == ("segmenter", SAM2) and "detector" not in self.document.roles:
            raise ProfileError(f"{role}: the backend {SAM2!r} needs a detector in [roles]")
        self._check_pictures(role, choice)
        self.shared_model(role, choice)
        if asks_vlm(role, choice.backend) or choice.backend == VLM:
            vlm_options(role, choice.backend, self.options(role, choice))
        missing = missing_extra(role, choice.backend)
        if missing is not None:
            raise missing

    def _check_pictures(self, role: str, choice: BackendChoice) -> None:
        if choice.sees and not takes_pictures(choice.backend, choice.options):
            raise ProfileError(
                f"{role}: sees = true, but its backend {choice.backend!r} takes no pictures; "
                f'use backend = "{VLM}" or "openai", or leave sees out'
            )
        table = self.asked_table(role, choice)
        backend = self.document.models.get(table or "")
        if backend and role != "text" and not takes_pictures(backend.backend, backend.options):
            raise ProfileError(
                f"{role}: it asks [{table}], whose backend {backend.backend!r} takes no pictures; "
                f"add a table [{EYES}] with a model that does, or name a model here"
            )

    def _run_settings(self) -> RunSettings:
        """Return the profile's settings with whole paths for files."""
        run = self.document.run
        return run.changed(
            **{
                setting.name: self._beside(value)
                for setting in all_settings().values()
                if setting.declaration.is_path
                and (value := run.flat(setting.strategy)[setting.name])
            }
        )

    def _load(self, role: str, choice: BackendChoice) -> Any:
        source = self.model_source(choice)
        return load_backend(role, choice.backend, source, self.options(role, choice))

    def _deferred_llm(self, budget: MemoryBudget, role: str, choice: BackendChoice) -> DeferredLLM:
        """Return a language model that loads at its first use; equal ones share their weights."""
        shared = self.shared_model(role, choice)
        assert shared is not None
        weights = budget.weights(shared, partial(self.weights_bytes, role, choice))
        load = partial(weights.shared_model, shared.load)
        return DeferredLLM(partial(self._load_llm, role, choice, load), weights)

    def _load_llm(self, role: str, choice: BackendChoice, load: Callable[[], Any]) -> LLM:
        llm = self._on_vlm(role, choice, load()) if choice.backend == VLM else load()
        llm = GatheredLLM(llm, getattr(llm, "batch", BATCH))
        if not choice.cache:
            return llm
        from viper.models.llm.cache import CachedLLM
        from viper.storage.responses import SqliteStore

        store = SqliteStore(state_dir(self.state) / "llm-cache.db")
        return CachedLLM(llm, store, self.options(role, choice))

    def weights_bytes(self, role: str, choice: BackendChoice) -> int:
        """Return the memory of a model's weights here, before it is loaded; 0 if it is unknown."""
        source, options = self.model_source(choice), self.options(role, choice)
        if source is None or not loads_weights(role, choice.backend):
            return 0
        loading = split_options(options)[0]
        import_libraries()
        on_gpu = loading.device_map is not None or loading.resolved_device() != "cpu"
        return round(weights_gib(source, loading.precision(on_gpu)) * 2**30)

    def _add_role(
        self, models: ModelSet, role: str, choice: BackendChoice, llms: Mapping[str, LLM]
    ) -> None:
        shared = self.shared_model(role, choice)
        asks_writer = role == "text" and choice.model is None
        estimate = partial(self.weights_bytes, role, choice)
        if shared is None or shared.backend != VLM or asks_writer:
            models.add(role, partial(self._load_role, role, choice, llms, models), estimate)
            return
        weights = models.budget.weights(shared, estimate)

        def load() -> Any:
            self._start_engines(llms)
            return self._on_vlm(role, choice, weights.shared_model(shared.load))

        models.add_sharing(role, weights, load)

    def _start_engines(self, llms: Mapping[str, LLM]) -> None:
        """Load the language models that take a share of the whole device, before any other
        model.
        """
        for role, choice in self.document.models.items():
            if choice.backend == "vllm":
                str(llms[role].model_id)  # asking for the name loads it

    def _on_vlm(self, role: str, choice: BackendChoice, model: Any) -> Any:
        """Return a loaded ``ChatVLM`` with the options of a language model, or a role's backend on
        it.
        """
        table = self.asked_table(role, choice)
        if table is not None:
            model = self._on_vlm(table, self.document.models[table], model)
        of_model, of_role = vlm_options(role, choice.backend, self.options(role, choice))
        if of_model:
            model = built(role, choice.backend, model.configured, (), of_model)
        if role not in self.document.roles:
            return model
        return self._asking(role, choice, GatheredLLM(model) if role == "text" else model, of_role)

    def _asking(
        self, role: str, choice: BackendChoice, model: Any, options: Mapping[str, Any]
    ) -> Any:
        arguments = (model,) if role != "text" else (model, self.document.run.prompt_style)
        return built(role, choice.backend, backend_class(role, choice.backend), arguments, options)

    def _load_role(
        self, role: str, choice: BackendChoice, llms: Mapping[str, LLM], models: ModelSet
    ) -> Any:
        table = self.asked_table(role, choice)
        if role == "text" and (choice.backend == USES_LLM or table is not None):
            return self._asking(role, choice, llms[table or WRITER], choice.options)
        if table is not None:
            from viper.models.vision.vlm import EndpointVLM

            return self._asking(role, choice, EndpointVLM(llms[table]), choice.options)
        if choice.backend == FRAMES and role == "video":
            from viper.models.vision.video_frames import FramesVideo

            others = (models.shared("vqa"), models.shared("matcher"))
            return built(role, choice.backend, FramesVideo, others, choice.options)
        if (role, choice.backend) in SEARCHES:
            return self._load_search(role, choice, models)
        if loads_weights(role, choice.backend):
            self._start_engines(llms)
        backend = self._load(role, choice)
        if (role, choice.backend) == ("segmenter", SAM2):
            backend.detector = models.shared("detector")
        return backend

    def _load_search(self, role: str, choice: BackendChoice, models: ModelSet) -> Any:
        """Load a search: in an index of the state, or on the web with cached replies."""
        state = state_dir(self.state)
        if choice.backend in ENGINES:
            from viper.search.web_text import WebTexts
            from viper.storage.responses import SqliteStore

            store = SqliteStore(state / "search-cache.db")
            return WebTexts.described(choice.backend, choice.options, store)
        from viper.search.named import DEFAULT, NamedPictures, NamedTexts

        name = choice.model or DEFAULT
        if role == "text_search":
            return built(role, choice.backend, NamedTexts, (state, name), choice.options)
        matcher = models.shared("matcher")
        if matcher is None:
            raise ProfileError("image_search: an index of pictures needs a matcher in [roles]")
        return built(role, choice.backend, NamedPictures, (state, matcher, name), choice.options)

    def _examples(self) -> ExampleStore:
        bank = self.document.bank
        if bank is None:
            return NoExamples()
        if bank.startswith("embedded:"):
            return read_bank(BANKS / f"{bank.removeprefix('embedded:')}.jsonl")
        return read_bank((self.document.base or Path()) / bank)


def memory_advice(document: ProfileDocument) -> str:
    """Return a clause that names the largest proposed profile for less memory, or ""."""
    import torch

    cuda = torch.cuda.is_available()
    device = torch.cuda.mem_get_info()[1] / 2**30 if cuda else math.inf
    below = document.hardware.memory_gib if document.hardware else math.inf
    smaller = [
        (hardware.memory_gib, other.name)
        for hardware, other in proposed_profiles()
        if (cuda or not hardware.gpu_gib) and hardware.memory_gib < min(below, 1.05 * device)
    ]
    if not smaller:
        return ""
    gib, name = max(smaller)
    return f"; the profile {name} is made for {gib:g} GiB: --profile {name}"


def _check_key(choice: BackendChoice) -> None:
    """Raise UsageError if an endpoint's key is missing or its address is wrong."""
    if choice.backend == "openai":
        names = ("base_url", "key_env")
        find_endpoint(**{name: choice.options[name] for name in names if name in choice.options})


def load_profile(
    name_or_path: str = "embedded",
    *,
    sandbox: Mode = "strict",
    api: str | None = None,
    max_memory_gb: float | None = None,
    state: str | Path | None = None,
    learned: bool = False,
) -> Profile:
    """Return the profile of that name or in that ``.toml`` file. No model is loaded yet.

    Args:
        name_or_path: a known name (``viper setup profile list``) or a path ending in ``.toml``.
        sandbox: ``strict``, or ``weak`` to continue if a protection layer is missing.
        api: API instead of the profile's: sets and files of routines, joined by ``+``.
        max_memory_gb: limit for the weights of loaded models instead of the profile's.
        state: folder of pools, caches and the user's own profiles, instead of ``VIPER_HOME``.
        learned: use the state's pools; see :class:`Profile`.

    Raises:
        UnknownNameError: there is no such profile.
        ProfileError: the file is broken; names line and key.
    """
    folder = None if state is None else Path(state)
    document = read_profile(name_or_path, folder)
    return Profile(document, sandbox, api, max_memory_gb, folder, learned)


def _embedded(models: ModelSet, texts: Sequence[str]) -> Floats:
    with models.using("embedder") as embedder:
        return embedder.embed(texts)
