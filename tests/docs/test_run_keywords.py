"""The keywords of ``Reasoner.run``, for editors, ``help`` and notebooks."""

from __future__ import annotations

import inspect
import pydoc

from tests.docs.run_keywords import STUB, stub
from viper import Reasoner, RunOptions
from viper.strategies.settings import shipped_settings


def test_the_stub_is_that_of_the_declarations() -> None:
    text = STUB.read_text("utf-8")
    assert text == stub(), "write it anew: python -m tests.docs.run_keywords"


def test_help_shows_every_setting_with_its_type_and_default() -> None:
    for function in (Reasoner.run, Reasoner.stream, Reasoner.arun, Reasoner.execute, RunOptions):
        shown = inspect.signature(function).parameters
        assert {"task", "options", "strategy"} <= set(shown)
        for setting in shipped_settings().values():
            parameter = shown[setting.name]
            assert parameter.kind is parameter.KEYWORD_ONLY
            assert (parameter.annotation, parameter.default) == (setting.type, setting.default)
    assert "trials: int = 3" in pydoc.render_doc(Reasoner.run, renderer=pydoc.plaintext)
