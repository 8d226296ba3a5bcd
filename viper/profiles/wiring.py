"""Builds the components of a Reasoner from a checked profile.

`load_profile` reads the file of a name and returns a `Profile`. `components` checks every backend
and then builds the parts: models that load on first use, the toolbox with soft prompts, the sandbox
with the library of routines, and the store of examples. `problems` runs the checks alone and lists
what fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from viper.ace.bank import read_bank
from viper.api.library import Library, library_for
from viper.api.routine_files import StoredRoutines
from viper.embedded import BANKS, DOMAINS
from viper.errors import ProfileError, ViperError
from viper.models.domain import Domain
from viper.models.llm.endpoint import find_endpoint
from viper.models.vision.onnx_layout import Layout
from viper.models.vision.prompt_pool import FOLDER as PROMPTS
from viper.models.vision.prompt_pool import PromptPool
from viper.profiles import backends
from viper.profiles.document import EYES, BackendChoice, DomainFiles
from viper.profiles.files import read_profile, state_dir
from viper.profiles.models import ModelChoices, ProfileModels
from viper.sandbox import Sandbox
from viper.sandbox.sandbox import Mode
from viper.strategies.base import Components
from viper.strategies.demonstration_pool import FOLDER as DEMONSTRATIONS
from viper.strategies.demonstration_pool import DemonstrationPool, LearnedExamples
from viper.strategies.examples import ExampleStore, NoExamples
from viper.strategies.settings import RunSettings, all_settings
from viper.threads import compute_with, wait_passively
from viper.tools.toolbox import Toolbox


@dataclass(frozen=True)
class Profile(ModelChoices):
    """A profile from which ``Reasoner(profile)`` builds its components.

    Attributes:
        sandbox_mode: ``strict``, or ``weak`` if a protection layer is missing and the user accepts
            that.
        api: API instead of the profile's. Its files are relative to the working folder.
        max_memory_gb: memory limit instead of the profile's.
        learned: use the state's pools: soft prompts for the tools, and programs that worked as
            examples before those of the bank.
        routines: given if the API is named by data: the files of routines that the data hold.
    """

    sandbox_mode: Mode = "strict"
    api: str | None = None
    max_memory_gb: float | None = None
    learned: bool = False
    routines: tuple[StoredRoutines, ...] | None = None

    def __repr__(self) -> str:
        return f"<Profile {self.name}: {', '.join(role for role, _ in self.choices())}>"

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
        wait_passively()
        compute_with(document.threads)
        for role, choice in self.choices():
            self._check_backend(role, choice)
        memory_gb = document.max_memory_gb if self.max_memory_gb is None else self.max_memory_gb
        models = ProfileModels(self, int(memory_gb * 2**30) if memory_gb else None)
        pool = DemonstrationPool(state_dir(self.state) / DEMONSTRATIONS)
        prompts = self.soft_prompts()
        toolbox = Toolbox(models.tools, document.tools, library.tool_routines, prompts)
        return Components(
            models=models.llms,
            toolbox=toolbox,
            sandbox=Sandbox(
                limits=document.limits, prelude=library.prelude(), mode=self.sandbox_mode
            ),
            settings=replace(self._run_settings(), api=self.api or document.run.api),
            examples=LearnedExamples(pool, self._examples()) if self.learned else self._examples(),
            profile_name=document.name,
            facts=document.facts,
            domain=self._domain(),
            confidence=document.confidence,
            exact_inputs=document.domain.exact_inputs if document.domain else "",
            preload=document.preload,
            library=library,
            page=partial(_page, library=library, toolbox=toolbox, mode=self.sandbox_mode),
            embed=models.embed if "embedder" in document.roles else None,
            demonstrations=pool,
            styles={role: choice.style for role, choice in document.models.items()},
            sees=frozenset(role for role, choice in document.models.items() if choice.sees),
        )

    def soft_prompts(self) -> PromptPool | None:
        """Return the pool that the tools use, if they do."""
        return PromptPool(state_dir(self.state) / PROMPTS) if self.learned else None

    def library(self) -> Library:
        """Return the names that programs may call.

        Raises:
            UsageError: a file of routines cannot be used.
        """
        if self.api is not None:
            library = library_for(self.api, stored=self.routines)
        else:
            library = library_for(self.document.run.api, self.document.base)
        return replace(library, depth_ratios=self.document.tools.depth_ratios)

    def problems(self, *, writes: bool = True) -> list[str]:
        """Return one line per problem that prevents this profile from running here.

        Nothing is loaded.

        Args:
            writes: a language model is to write programs, and not the user.
        """
        names = ("base_url", "key_env")
        endpoints = [
            {name: each.options[name] for name in names if name in each.options}
            for each in self.document.models.values()
            if each.backend == "openai" and writes
        ]
        checks: list[Callable[[], Any]] = [
            *[partial(self._check_backend, role, choice) for role, choice in self.choices()],
            *[partial(find_endpoint, **options) for options in endpoints],
            self._examples,
            self.library,
            self._check_domain,
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

    def with_ocr_alone(self) -> Profile:
        """Return the same profile for the shipped program of task ``extract``, which asks no other
        model, so that no other one need be usable.
        """
        roles = {role: each for role, each in self.document.roles.items() if role == "ocr"}
        return replace(self, document=replace(self.document, models={}, roles=roles))

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

    def for_watching(self) -> Profile:
        """Return the same profile with the tools of its table ``[watch]``."""
        watch, tools = self.document.watch, self.document.tools
        tools = replace(tools, find_check=watch.find_check or tools.find_check)
        document = replace(self.document, tools=tools.with_thresholds(watch.thresholds))
        return replace(self, document=document)

    def checked_source(self, role: str, choice: BackendChoice) -> str | None:
        """Return the model to load, after a check of the backend, its packages and options.

        Raises:
            ProfileError, UnknownNameError, MissingExtraError: one of them is wrong or missing.
        """
        backends.resolve_backend(role, choice.backend)
        source = self.model_source(choice)
        backends.check_packages(role, choice.backend, source is not None)
        backends.check_loading_options(role, choice.backend, choice.options)
        self.shared_model(role, choice)
        return source

    def _check_backend(self, role: str, choice: BackendChoice) -> None:
        source = self.checked_source(role, choice)
        if source is None and backends.needs_model(role, choice.backend):
            advice = f"; {backends.FETCH_MODEL}" if choice.backend == backends.ONNX else ""
            raise ProfileError(f"{role}: the backend {choice.backend!r} needs a model{advice}")
        roles = self.document.roles
        if (role, choice.backend) == ("segmenter", backends.SAM2) and "detector" not in roles:
            raise ProfileError(f"{role}: the backend {backends.SAM2!r} needs a detector in [roles]")
        if choice.sees and not backends.takes_pictures(choice.backend, choice.options):
            raise ProfileError(
                f"{role}: sees = true, but its backend {choice.backend!r} takes no pictures; "
                f'use backend = "{backends.VLM}" or "openai", or leave sees out'
            )
        table = self.asked_table(role, choice)
        asked = self.document.models.get(table or "")
        if asked and role != "text" and not backends.takes_pictures(asked.backend, asked.options):
            raise ProfileError(
                f"{role}: it asks [{table}], whose backend {asked.backend!r} takes no pictures; "
                f"add a table [{EYES}] with a model that does, or name a model here"
            )
        if backends.asks_vlm(role, choice.backend) or choice.backend == backends.VLM:
            backends.vlm_options(role, choice.backend, self.options(role, choice))

    def _check_domain(self) -> None:
        if (domain := self._domain()) is not None:
            domain.check()

    def _run_settings(self) -> RunSettings:
        """Return the profile's settings with whole paths for files."""
        run, paths = self.document.run, {}
        for setting in all_settings().values():
            if setting.declaration.is_path:
                paths[setting.name] = run.flat(setting.strategy)[setting.name]
        return run.changed(**{name: self.beside(path) for name, path in paths.items() if path})

    def _domain(self) -> Domain | None:
        def file(name: str | None, suffix: str) -> Path | None:
            if name is not None and name.startswith("embedded:"):
                return DOMAINS / f"{name.removeprefix('embedded:')}{suffix}"
            return None if name is None else (self.document.base or Path()) / name

        def domain_of(files: DomainFiles) -> Domain:
            words, look = file(files.words, ".txt"), file(files.look, ".npz")
            roles = {role: domain_of(own) for role, own in files.roles.items()}
            withheld = (files.withhold, files.withhold_words)
            return Domain(files.about, words, look, files.instead, *withheld, vocabulary, roles)

        vocabulary, detector = None, self.document.roles.get("detector")
        if detector and detector.backend == backends.ONNX and detector.model:
            path = Path(self.model_source(detector) or "").expanduser()
            vocabulary = Layout.beside(path).vocabulary if self.document.domain else None
        return None if self.document.domain is None else domain_of(self.document.domain)

    def _examples(self) -> ExampleStore:
        bank = self.document.bank
        if bank is None:
            return NoExamples()
        if bank.startswith("embedded:"):
            return read_bank(BANKS / f"{bank.removeprefix('embedded:')}.jsonl")
        return read_bank((self.document.base or Path()) / bank)


def _page(*run: Any, **parts: Any) -> str:
    from viper.web.trace_page import run_page  # most runs need no page

    return run_page(*run, **parts)


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
    return Profile(document, folder, sandbox, api, max_memory_gb, learned)
