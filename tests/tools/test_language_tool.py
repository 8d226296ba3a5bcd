"""How the text role picks an option."""

from dataclasses import replace
from typing import Any

import pytest

from viper.errors import ProfileError, ScriptExhaustedError, ToolError, UnknownNameError, UsageError
from viper.models.llm.scripted import ScriptedLLM
from viper.prompting.select import build_choice_prompt, labels, parse_choice, verbatim
from viper.testing.conformance import check_text
from viper.tools.text import ANSWER_TOKENS, LanguageTool

OPTIONS = ["a red cube", "a blue ball", "nothing"]


class Unscored(ScriptedLLM):
    """A model behind an endpoint that returns text only."""

    can_score = False

    def score(self, prompt: str, continuations: Any) -> list[float]:
        raise UsageError("this endpoint gives no log-likelihoods")


def kinds(llm: ScriptedLLM) -> list[str]:
    return [call.kind for call in llm.calls]


def test_likelihood_is_the_default_and_takes_the_first_of_equals() -> None:
    llm = ScriptedLLM(scores={"ball": -0.5, "cube": -0.5, "nothing": -2.0})
    assert LanguageTool(llm).select("seen", "what?", OPTIONS) == "a red cube"
    assert llm.calls[0].continuations == (" a red cube", " a blue ball", " nothing")
    assert kinds(llm) == ["score"]


@pytest.mark.parametrize(
    ("reply", "index"),
    [
        ("B", 1),
        ("b", 1),
        ("(b)", 1),
        ("\n\n B.", 1),
        ("**B**", 1),
        ("**B.** a blue ball", 1),
        ("B) it is blue", 1),
        ("B\nbecause A is red", 1),
        ("Answer: C", 2),
        ("the answer is c.", 2),
        ("The correct answer is (C), nothing.", 2),
        ("My answer: option B", 1),
        ("The answer is B because of its colour", 1),
        ("A", 0),
        ("A: a red cube", 0),
        ("A a red cube", 0),
        ("A blue ball", 1),
        ('"A blue ball."', 1),
        ("a  Blue ball", 1),
        ("I see nothing.", 2),
        ("It must be a blue ball, I think", 1),
        ("", None),
        ("  \n ", None),
        ("D", None),
        ("a ball", None),
        ("A dog", None),
        ("I'm not sure", None),
        ("a red cube or a blue ball", None),
        ("nothingness", None),
    ],
)
def test_replies_are_read_as_they_were_meant(reply: str, index: int | None) -> None:
    assert parse_choice(reply, OPTIONS) == index


def test_a_longer_option_hides_the_shorter_one_inside_it() -> None:
    assert parse_choice("surely the dark red one", ["red", "dark red"]) == 1
    assert parse_choice("surely the red one", ["red", "dark red"]) == 0
    assert parse_choice("red, not dark red", ["red", "dark red"]) is None


def test_options_that_are_letters_or_numbers() -> None:
    assert parse_choice("B", ["B", "A"]) == 1
    assert parse_choice("-3", ["3", "-3"]) == 1
    assert parse_choice("it is 3.5 m", ["3", "3.5"]) == 1
    assert parse_choice("Yes", ["yes", "Yes"]) == 1
    assert parse_choice("YES", ["yes", "Yes"]) is None
    assert parse_choice("surely yes", ["yes", "Yes"]) is None


def test_more_options_than_letters_are_numbered() -> None:
    many = [f"thing {word}" for word in "abcdefghijklmnopqrstuvwxyzåäö"]
    assert labels(26)[-1] == "Z" and labels(29)[-1] == "29"
    assert parse_choice("12", many) == 11
    assert parse_choice("1.", many) == 0
    assert parse_choice("Number 29", many) == 28
    assert "12. thing l\n" in build_choice_prompt("x", "y?", many)
    assert "Answer with the number before" in build_choice_prompt("x", "y?", many)


def test_the_prompt_of_choices_lists_letters_on_lines_of_their_own() -> None:
    prompt = build_choice_prompt({"seen": "a\ncube"}, "what $x\nis it?", ["a\nb", "c"])
    assert "What is known: seen: a cube\nQuestion: what $x is it?\n" in prompt
    assert "Options:\nA. a b\nB. c\nAnswer with the letter before" in prompt
    assert prompt.endswith("Answer:")


def test_a_choice_is_decoded_once_and_greedily() -> None:
    llm = Unscored(["B"])
    assert LanguageTool(llm, select_by="choice").select("seen", "what?", OPTIONS) == "a blue ball"
    (call,) = llm.calls
    assert "B. a blue ball" in call.prompt
    assert call.sampling is not None and call.sampling.temperature == 0.0
    assert (call.sampling.n, call.sampling.stop) == (1, ())


def test_a_clear_choice_does_not_ask_whether_the_model_can_score() -> None:
    class Unasked(ScriptedLLM):
        @property
        def can_score(self) -> bool:
            raise AssertionError("an endpoint would be asked for nothing")

    tool = LanguageTool(Unasked(["B", "nothing"]), select_by="choice")
    assert tool.select("seen", "what?", OPTIONS) == "a blue ball"
    assert tool.select("seen", "what?", OPTIONS) == "nothing"


def test_it_keeps_the_rules_of_its_role() -> None:
    check_text(LanguageTool(ScriptedLLM(lambda prompt: "the answer")))
    check_text(LanguageTool(Unscored(lambda prompt: "A"), select_by="choice"))
    check_text(LanguageTool(ScriptedLLM(lambda prompt: "a dog"), select_by="greedy"))


def test_an_unclear_choice_falls_back_on_the_likelihood() -> None:
    llm = ScriptedLLM(["hard to say"], scores={"nothing": -0.1, "a": -1.0})
    assert LanguageTool(llm, select_by="choice").select("seen", "what?", OPTIONS) == "nothing"
    assert kinds(llm) == ["generate", "score"]
    assert "A. " not in llm.calls[1].prompt


@pytest.mark.parametrize("select_by", ["choice", "greedy"])
def test_an_unclear_choice_of_a_model_that_cannot_score_is_an_error(select_by: Any) -> None:
    llm = Unscored(["hard to say"] * (3 if select_by == "choice" else 1))
    tool = LanguageTool(llm, select_by=select_by)
    with pytest.raises(ToolError, match="named none of the 3 options but wrote 'hard to say'"):
        tool.select("seen", "what?", OPTIONS)


@pytest.mark.parametrize("first", ["hard to say", "<think>\nA is red, B is blue and", ""])
def test_an_unclear_choice_is_asked_again_with_another_seed(first: str) -> None:
    llm = Unscored([first, "hm", "B"])
    assert LanguageTool(llm, select_by="choice").select("seen", "what?", OPTIONS) == "a blue ball"
    samplings = [call.sampling for call in llm.calls if call.sampling]
    assert [sampling.seed for sampling in samplings] == [0, 1, 2]
    assert 0 == samplings[0].temperature < samplings[1].temperature < samplings[2].temperature
    assert {sampling.max_tokens for sampling in samplings} == {ANSWER_TOKENS}
    assert len({call.prompt for call in llm.calls}) == 1


def test_greedy_takes_a_verbatim_option() -> None:
    llm = ScriptedLLM(["  a  blue ball \n# query: next"])
    tool = LanguageTool(llm, "compact", select_by="greedy")
    assert tool.select("seen", "what?", OPTIONS) == "a blue ball"
    (call,) = llm.calls
    assert call.prompt.endswith("# answer:")
    assert call.sampling is not None and call.sampling.stop == ("\n",)
    assert call.sampling.max_tokens == 5


@pytest.mark.parametrize("reply", ["A blue ball", "a blue ball.", "blue ball", "", "B"])
def test_greedy_leaves_everything_else_to_the_likelihood(reply: str) -> None:
    llm = ScriptedLLM([reply], scores={"nothing": -0.1, "a": -1.0})
    assert LanguageTool(llm, select_by="greedy").select("seen", "what?", OPTIONS) == "nothing"
    assert verbatim(reply, OPTIONS) is None


def test_what_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(UnknownNameError, match="unknown way to select 'random'; known: choice"):
        LanguageTool(ScriptedLLM(), select_by="random")  # type: ignore[arg-type]
    with pytest.raises(ProfileError, match='select_by = "choice"'):
        LanguageTool(Unscored())
    for select_by in ("likelihood", "choice", "greedy"):
        with pytest.raises(ToolError, match="no options"):
            LanguageTool(ScriptedLLM(), select_by=select_by).select("seen", "what?", [])


def test_an_llm_that_fails_is_no_unclear_choice() -> None:
    with pytest.raises(ScriptExhaustedError):
        LanguageTool(ScriptedLLM(), select_by="choice").select("seen", "what?", OPTIONS)


def test_a_plain_answer_is_one_line_and_a_long_one_a_paragraph() -> None:
    llm = ScriptedLLM(["Paris\nIt is", "Paris\nIt is\n\nmore"])
    tool = LanguageTool(llm)
    assert tool.answer("capital?", context="France", long_answer=False) == "Paris"
    assert tool.answer("capital?", context=None, long_answer=True) == "Paris\nIt is"
    assert llm.calls[0].prompt == "# info: France\n# question: capital?\n# answer:"
    assert llm.calls[1].prompt == "# question: capital?\n# answer:"


@pytest.mark.parametrize(
    "reply", ["\nParis", "<think>\nFrance, so\n</think>\n\nParis", "Well.\nThe answer is Paris."]
)
def test_a_chat_model_may_begin_with_an_empty_line_or_its_reasoning(reply: str) -> None:
    tool = LanguageTool(ScriptedLLM([reply]), "chat")
    assert tool.answer("capital?", context=None, long_answer=False) == "Paris"


def test_a_small_model_continues_the_line_as_before() -> None:
    llm = ScriptedLLM([" Paris\n# question: next"])
    assert LanguageTool(llm, "compact").answer("q?", context=None, long_answer=False) == "Paris"
    sampling = llm.calls[0].sampling
    assert sampling is not None and (sampling.max_tokens, sampling.stop) == (32, ("\n",))


@pytest.mark.parametrize("info", ["red ball", "A red ball.", "the Red Ball"])
def test_an_option_that_is_stated_already_costs_no_request(info: str) -> None:
    llm = ScriptedLLM([])
    tool = LanguageTool(llm, select_by="choice")
    assert tool.select(info, "what is it?", ["blue ball", "red ball"]) == "red ball"
    assert llm.calls == []


@pytest.mark.parametrize("info", ["a ball", "red ball or blue ball", ""])
def test_an_option_that_is_not_stated_is_asked_for(info: str) -> None:
    llm = ScriptedLLM(["B"])
    tool = LanguageTool(llm, select_by="choice")
    assert tool.select(info, "what is it?", ["blue ball", "red ball"]) == "red ball"
    assert len(llm.calls) == 1


class Cut(ScriptedLLM):
    """A model whose replies the limit cuts."""

    can_score = False

    def generate(self, prompts: Any, sampling: Any) -> Any:
        done = super().generate(prompts, sampling)
        return [[replace(each, finish_reason="length") for each in row] for row in done]


def test_a_cut_reply_is_no_answer() -> None:
    tool = LanguageTool(Cut(["Paris is the"]), select_by="choice")
    with pytest.raises(ToolError, match="cut off") as raised:
        tool.answer("what?", context=None, long_answer=True)
    assert "max_tokens" in (raised.value.advice or "") and "max_tokens" not in raised.value.problem
    tool = LanguageTool(Cut(["A is not it, so B"] * 3), select_by="choice")
    with pytest.raises(ToolError, match="none of the 3 options"):
        tool.select("seen", "what?", OPTIONS)
