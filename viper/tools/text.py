"""The text role: a language model that selects an option or answers a plain question.

:meth:`LanguageTool.select` chooses among the options by likelihood, by a letter or by greedy text,
as the profile says, and falls back to the likelihood; :meth:`LanguageTool.answer` asks without
options. All completions are charged to the query that called the tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from viper.errors import ProfileError, ToolError, UnknownNameError
from viper.models.llm.protocol import LLM, Completion, Sampling, charge, sending
from viper.models.llm.replies import final_answer, first_line, without_reasoning
from viper.prompting.builder import build_select_prompt
from viper.prompting.select import build_choice_prompt, parse_choice, stated, verbatim

SelectBy = Literal["likelihood", "choice", "greedy"]

# Number of times that a model is asked for a letter before a choice fails; a model that names none
# three times does not understand the request.
MAX_CHOICES = 3

# Increase of the temperature with each further time: at 0 the same reply would come again.
CHOICE_TEMPERATURE = 0.4

# Room for an answer of a few sentences; models that think have ``thinking_tokens`` besides.
ANSWER_TOKENS = 512


class LanguageTool:
    """Answers ``select_answer`` and ``llm_query`` with any :class:`~viper.models.llm.protocol.LLM`.

    The result of a selection is always exactly one of the options. There are three ways to select:

    - ``likelihood``: by mean log-likelihood per token after the prompt, so a small base
      model need not follow instructions.
    - ``choice``: the prompt lists options by letters and the model writes one of them, as
      chat models and remote endpoints do best.
    - ``greedy``: the model continues the prompt of ``likelihood``. Its text counts if it is one
      of the options.

    If ``choice`` or ``greedy`` names no option, the likelihood decides. A model that cannot score
    (its attribute ``can_score`` is false) is asked for a letter again, and raises in the end.

    Args:
        llm: the language model; it may also be the program writer.
        style: prompt style, ``compact`` or ``full``.
        select_by: ``likelihood``, ``choice`` or ``greedy``.
        max_tokens: maximum length of an answer or choice of a chat model.

    Raises:
        UnknownNameError: an unknown way to select.
        ProfileError: ``likelihood`` with a model that cannot score.
    """

    # The toolbox takes no lock for this role, because every LLM is safe to use from threads.
    concurrent = True
    asks_language_model = True

    def __init__(
        self,
        llm: LLM,
        style: str = "full",
        *,
        select_by: SelectBy = "likelihood",
        max_tokens: int = ANSWER_TOKENS,
    ) -> None:
        if select_by not in get_args(SelectBy):
            raise UnknownNameError("way to select", select_by, get_args(SelectBy))
        if select_by == "likelihood" and not _can_score(llm):
            raise ProfileError(
                f"{llm.model_id} cannot score texts, which selecting by likelihood needs; "
                'give the text role the option select_by = "choice"'
            )
        self._llm, self._style, self._select_by = llm, style, select_by
        self._max_tokens = max_tokens
        self.model_id = llm.model_id

    def select(self, info: str, question: str, options: Sequence[str]) -> str:
        """Return the option that answers the question given the information, or the first of
        equals.

        Raises:
            ToolError: there are no options, or the model named none of them and cannot score.
        """
        if not options:
            raise ToolError("there are no options to select from; give at least one")
        if self._select_by == "likelihood":
            return self._select_by_score(info, question, options)
        by_letter = self._select_by == "choice"
        if by_letter and (index := stated(info, options)) is not None:
            return options[index]
        reply = ""
        for number in range(MAX_CHOICES if by_letter else 1):
            if by_letter:
                # No stop string: a chat model may begin with an empty line.
                prompt = build_choice_prompt(info, question, options)
                sampling = Sampling(number * CHOICE_TEMPERATURE, number, self._max_tokens)
            else:
                prompt = build_select_prompt(info, question, options, self._style)
                longest = max(self._llm.count_tokens(f" {option}") for option in options)
                sampling = Sampling(max_tokens=longest + 2, stop=("\n",))
            completion = self._generate(prompt, sampling)
            reply = completion.text
            if by_letter:  # a letter in a cut reply may be one that the model thinks about
                is_cut = completion.finish_reason == "length"
                index = None if is_cut else parse_choice(reply, options)
            else:
                index = verbatim(reply, options)
            if index is not None:
                return options[index]
            if _can_score(self._llm):
                return self._select_by_score(info, question, options)
        raise ToolError(
            f"{self.model_id} named none of the {len(options)} options but wrote "
            f"{reply.strip()[:60]!r}, and it cannot score them; ask more plainly",
            advice="give the text role to another model",
        )

    def score_options(self, info: str, question: str, options: Sequence[str]) -> list[float] | None:
        """Return the log-likelihood of each whole option, or None if the model cannot score."""
        if not _can_score(self._llm):
            return None
        prompt = build_select_prompt(info, question, options, self._style)
        texts = [f" {option}" for option in options]
        means = zip(self._llm.score(prompt, texts), texts, strict=True)
        return [mean * self._llm.count_tokens(text) for mean, text in means]

    def answer(self, question: str, *, context: str | None, long_answer: bool) -> str:
        """Return the model's answer to a question, one line unless ``long_answer`` is set.

        A long answer is one paragraph.

        Raises:
            ToolError: the limit cut the reply of a chat model.
        """
        lines = [f"# info: {context}"] if context else []
        prompt = "\n".join([*lines, f"# question: {question}", "# answer:"])
        if self._style == "compact":
            most, stop = (256, "\n\n") if long_answer else (32, "\n")
            sampling = Sampling(max_tokens=most, stop=(stop,))
            return self._generate(prompt, sampling).text.strip()
        # A chat model may begin with an empty line or with its reasoning.
        sampling = Sampling(max_tokens=self._max_tokens, stop=("\n# question",))
        completion = self._generate(prompt, sampling)
        reply = completion.text
        if completion.finish_reason == "length":
            raise ToolError(
                f"{self.model_id} was cut off after {completion.completion_tokens} tokens, before "
                "its answer was complete; ask for less",
                advice="raise max_tokens of the text role's options",
            )
        if long_answer:
            return without_reasoning(reply).strip().partition("\n\n")[0]
        return final_answer(reply) or first_line(reply)

    def _select_by_score(self, info: str, question: str, options: Sequence[str]) -> str:
        prompt = build_select_prompt(info, question, options, self._style)
        scores = self._llm.score(prompt, [f" {option}" for option in options])
        return options[max(range(len(options)), key=lambda index: scores[index])]

    def _generate(self, prompt: str, sampling: Sampling) -> Completion:
        with sending(1):
            ((completion,),) = self._llm.generate([prompt], sampling)
            charge([completion])
        return completion


def _can_score(llm: LLM) -> bool:
    """Check that the model offers ``score``; done late, because an endpoint must be asked for
    it.
    """
    return bool(getattr(llm, "can_score", True))
