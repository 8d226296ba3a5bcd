"""From a checked profile to the parts of a Reasoner; the only place that wires them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import viper.world
from viper.ace.bank import read_bank
from viper.api.prelude import PRELUDE
from viper.errors import ProfileError, ViperError
from viper.profiles.backends import USES_LLM, check_backend, load_backend
from viper.profiles.document import BackendChoice, ProfileDocument, read_profile
from viper.sandbox import Sandbox
from viper.sandbox.sandbox import Mode
from viper.strategies.base import Components, ExampleSource, NoExamples
from viper.tools.hub import ToolHub
from viper.tools.models import ModelSet
from viper.tools.text import LanguageTool

WORLD = Path(viper.world.__file__).parent
WEIGHTS = WORLD / "weights"
BANKS = WORLD / "banks"


@dataclass(frozen=True)
class Profile:
    """A profile ready to be wired; ``Reasoner(profile)`` does it.

    Attributes:
        sandbox_mode: ``strict``, or ``weak`` where a protection layer is missing and the
            user accepted that.
    """

    document: ProfileDocument
    sandbox_mode: Mode = "strict"

    @property
    def name(self) -> str:
        return self.document.name

    def components(self) -> Components:
        """The wired parts: the language model loaded, the vision models on first use.

        Raises:
            ProfileError, UnknownNameError: a backend or model that cannot be had.
        """
        document = self.document
        llm = self._load("llm", document.llm)
        loaders = {
            role: partial(LanguageTool, llm, document.run.prompt_style)
            if choice.backend == USES_LLM
            else partial(self._load, role, choice)
            for role, choice in document.roles.items()
        }
        for role, choice in document.roles.items():
            check_backend(role, choice.backend)
        return Components(
            llm=llm,
            hub=ToolHub(ModelSet(loaders), document.tools),
            sandbox=Sandbox(limits=document.limits, prelude=PRELUDE, mode=self.sandbox_mode),
            settings=document.run,
            examples=self._examples(),
            profile_name=document.name,
            preload=document.preload,
        )

    def problem(self) -> str | None:
        """Why this profile cannot run here, in one line, or None; loads nothing."""
        try:
            check_backend("llm", self.document.llm.backend)
            choices = [self.document.llm, *self.document.roles.values()]
            for role, choice in self.document.roles.items():
                check_backend(role, choice.backend)
            for choice in choices:
                self.model_source(choice)
            self._examples()
        except ViperError as error:
            return str(error)
        return None

    def without_examples(self) -> Profile:
        """The same profile in the zero-shot setting."""
        return replace(self, document=replace(self.document, bank=None))

    def model_source(self, choice: BackendChoice) -> str | None:
        """What a backend is asked to load: the shipped folder, the named folder, or a hub id.

        Raises:
            ProfileError: a shipped model of that name does not exist.
        """
        if choice.model is None or not choice.model.startswith("embedded:"):
            return choice.model
        folder = WEIGHTS / choice.model.removeprefix("embedded:")
        if not folder.is_dir():
            raise ProfileError(
                f"{choice.model}: not shipped with this package; known: "
                + ", ".join(sorted(path.name for path in WEIGHTS.glob("*") if path.is_dir()))
            )
        return str(folder)

    def _load(self, role: str, choice: BackendChoice) -> Any:
        return load_backend(role, choice.backend, self.model_source(choice), choice.options)

    def _examples(self) -> ExampleSource:
        bank = self.document.bank
        if bank is None:
            return NoExamples()
        if bank.startswith("embedded:"):
            return read_bank(BANKS / f"{bank.removeprefix('embedded:')}.jsonl")
        base = self.document.path.parent if self.document.path else Path()
        return read_bank(base / bank)


def load_profile(name_or_path: str = "embedded", *, sandbox: Mode = "strict") -> Profile:
    """The profile of that name or in that ``.toml`` file; loads no model yet.

    Args:
        name_or_path: a known name (``viper doctor`` lists them) or a path ending in ``.toml``.
        sandbox: ``strict``, or ``weak`` to go on where a protection layer is missing.

    Raises:
        UnknownNameError: no such profile.
        ProfileError: a broken file; says line and key.
    """
    return Profile(read_profile(name_or_path), sandbox)
