"""The rules of the text role: picking an option, answering a plain question."""

from __future__ import annotations

from operator import eq
from typing import Any

from viper.testing.conformance.rules import keeps_identity, require, works_in_another_thread

INFO = "There is a red cube on the table and a dog on the sofa."
QUESTION = "What is on the table?"
OPTIONS = ("a dog", "A red cube ", "nothing, really")


def check_text(backend: Any) -> None:
    """Checks what plays the text role (see :class:`~viper.tools.text.LanguageTool`).

    Raises:
        AssertionError: a rule is broken; the message names it.
    """
    with keeps_identity(backend):
        options = list(OPTIONS)
        chosen = backend.select(INFO, QUESTION, options)
        require(chosen in OPTIONS, f"select must give one of the options as it is, not {chosen!r}")
        require(options == list(OPTIONS), "select must leave the list of options as it is")
        again = backend.select(INFO, QUESTION, options)
        require(chosen == again, "select must choose alike when asked again")
        for option in OPTIONS:
            only = backend.select(INFO, QUESTION, [option])
            require(only == option, "select must take the only option")
        for context in (None, INFO):
            short = backend.answer(QUESTION, context=context, long_answer=False)
            good = isinstance(short, str) and "\n" not in short
            require(good, f"a short answer must be one line of text, not {short!r}")
            said = backend.answer(QUESTION, context=context, long_answer=True)
            require(isinstance(said, str), f"an answer must be text, not {said!r}")
        works_in_another_thread(lambda: backend.select(INFO, QUESTION, options), eq)
