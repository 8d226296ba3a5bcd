"""The text role: a language model that picks an option or answers a plain question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from viper.errors import ProfileError, ToolError, UnknownNameError
from viper.models.llm.protocol import LLM, Sampling
from viper.prompting.builder import build_select_prompt
from viper.prompting.select import build_choice_prompt, parse_choice, verbatim

SelectBy = Literal["likelihood", "choice", "greedy"]

CHOICE_TOKENS = 24


class LanguageTool:
    """Answers ``select_answer`` and ``llm_query`` with any :class:`~viper.models.llm.protocol.LLM`.

    The option chosen is always one of those given, exactly. How it is chosen:

    - ``likelihood``: by mean log-likelihood per token after the prompt, so a small base
      model need not follow instructions.
    - ``choice``: the prompt lists options by letters and the model writes one of them, as
      chat models and remote endpoints do best.
    - ``greedy``: the model goes on after the prompt of ``likelihood``; what it writes is
      taken where it is one of the options.

    Where ``choice`` or ``greedy`` names no option, the likelihood decides; a model that
    cannot score (its attribute ``can_score`` is false) raises instead.

    Args:
        llm: the language model; shared with the program writer where both are one.
        style: prompt style, ``compact`` or ``full``.
        select_by: ``likelihood``, ``choice`` or ``greedy``.

    Raises:
        UnknownNameError: another way to select.
        ProfileError: ``likelihood`` with a model that cannot score.
    """

    concurrent = True
    """The toolbox need not keep other threads away: every LLM takes care of that itself."""

    def __init__(self, llm: LLM, style: str = "full", select_by: SelectBy = "likelihood") -> None:
        if select_by not in get_args(SelectBy):
            raise UnknownNameError("way to select", select_by, get_args(SelectBy))
        if select_by == "likelihood" and not _can_score(llm):
            raise ProfileError(
                f"{llm.model_id} cannot score texts, which selecting by likelihood needs; "
                'give the text role the option select_by = "choice"'
            )
        self._llm, self._style, self._select_by = llm, style, select_by
        self.model_id = llm.model_id

    def select(self, info: str, question: str, options: Sequence[str]) -> str:
        """The option that answers the question given the information; the first of equals.

        Raises:
            ToolError: no options; or the model named none of them and cannot score.
        """
        if not options:
            raise ToolError("there are no options to select from; give at least one")
        if self._select_by == "likelihood":
            return self._likeliest(info, question, options)
        by_letter = self._select_by == "choice"
        reply = (self._chosen if by_letter else self._continued)(info, question, options)
        found = parse_choice(reply, options) if by_letter else verbatim(reply, options)
        if found is not None:
            return options[found]
        if not _can_score(self._llm):
            raise ToolError(
                f"{self.model_id} named none of the {len(options)} options but wrote "
                f"{reply.strip()[:60]!r}, and it cannot score them; ask more plainly, or give "
                "the text role to another model"
            )
        return self._likeliest(info, question, options)

    def score_options(self, info: str, question: str, options: Sequence[str]) -> list[float] | None:
        """Log-likelihood of each option as a whole; None where the model cannot score."""
        if not _can_score(self._llm):
            return None
        prompt = build_select_prompt(info, question, options, self._style)
        told = [f" {option}" for option in options]
        means = self._llm.score(prompt, told)
        return [mean * self._llm.count_tokens(one) for mean, one in zip(means, told, strict=True)]

    def answer(self, question: str, *, context: str | None, long_answer: bool) -> str:
        """The model's continuation of a question, one line unless a long answer is wanted."""
        lines = [f"# info: {context}"] if context else []
        prompt = "\n".join([*lines, f"# question: {question}", "# answer:"])
        sampling = Sampling(
            max_tokens=256 if long_answer else 32, stop=("\n\n",) if long_answer else ("\n",)
        )
        return self._llm.generate([prompt], sampling)[0][0].text.strip()

    def _likeliest(self, info: str, question: str, options: Sequence[str]) -> str:
        prompt = build_select_prompt(info, question, options, self._style)
        scores = self._llm.score(prompt, [f" {option}" for option in options])
        return options[max(range(len(options)), key=lambda index: scores[index])]

    def _chosen(self, info: str, question: str, options: Sequence[str]) -> str:
        # No stop string: a chat model may begin with an empty line.
        prompt = build_choice_prompt(info, question, options)
        sampling = Sampling(max_tokens=CHOICE_TOKENS)
        return self._llm.generate([prompt], sampling)[0][0].text

    def _continued(self, info: str, question: str, options: Sequence[str]) -> str:
        prompt = build_select_prompt(info, question, options, self._style)
        longest = max(self._llm.count_tokens(f" {option}") for option in options)
        sampling = Sampling(max_tokens=longest + 2, stop=("\n",))
        return self._llm.generate([prompt], sampling)[0][0].text


def _can_score(llm: LLM) -> bool:
    """Whether it offers ``score``; looked up when needed, since an endpoint has to be asked."""
    return bool(getattr(llm, "can_score", True))
