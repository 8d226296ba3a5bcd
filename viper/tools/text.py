"""The text role: a language model that picks an option or answers a plain question."""

from __future__ import annotations

from collections.abc import Sequence

from viper.llm.protocol import LLM, Sampling
from viper.prompting.builder import build_select_prompt


class LanguageTool:
    """Answers ``select_answer`` and ``llm_query`` with any :class:`~viper.llm.protocol.LLM`.

    Options are compared by mean log-likelihood per token, so a small base model
    need not follow instructions, and the result is always one of the options.

    Args:
        llm: the language model; shared with the program writer where both are one.
        style: prompt style, ``compact`` or ``full``.
    """

    def __init__(self, llm: LLM, style: str = "full") -> None:
        self._llm, self._style = llm, style
        self.model_id = llm.model_id

    def select(self, info: str, question: str, options: Sequence[str]) -> str:
        """The likeliest option given the information; the first of equals."""
        prompt = build_select_prompt(info, question, options, self._style)
        scores = self._llm.score(prompt, [f" {option}" for option in options])
        return options[max(range(len(options)), key=lambda index: scores[index])]

    def answer(self, question: str, *, context: str | None, long_answer: bool) -> str:
        """The model's continuation of a question, one line unless a long answer is wanted."""
        lines = [f"# info: {context}"] if context else []
        prompt = "\n".join([*lines, f"# question: {question}", "# answer:"])
        sampling = Sampling(
            max_tokens=256 if long_answer else 32, stop=("\n\n",) if long_answer else ("\n",)
        )
        return self._llm.generate([prompt], sampling)[0][0].text.strip()
