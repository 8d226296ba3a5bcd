"""A chat vision-language model as a language model, on tiny checkpoints of several families."""

from pathlib import Path

import pytest
import tiny_chat
import torch

from tests.models.llm.engine.copies import Copies
from viper.errors import PromptTooLongError
from viper.models.llm.messages import Picture, Prompt, assistant, system, user
from viper.models.llm.protocol import Sampling, sees_pictures
from viper.models.vision.chat_vlm import ChatVLM, _draws
from viper.models.vision.vlm import ChatRequest
from viper.testing.conformance import check_llm

FAMILIES = ["llava", "qwen3_vl", "idefics3"]
ONE, OTHER = map(Picture, tiny_chat.pictures(2))
ASKED: list[Prompt] = [
    (system("a cube"), user(ONE, "what is this ?"), assistant("a ball"), user("not red ?")),
    "what is this ?",
    (user("two", OTHER, "frames", ONE, "yes or no ?"),),
    (user("is the ball red ?"),),
]
SAMPLED = Sampling(temperature=1.5, max_tokens=8, n=3, seed=3)


@pytest.fixture(autouse=True)
def _endless_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_chat.take_cut_replies(monkeypatch)


@pytest.fixture(scope="module", params=FAMILIES)
def vlm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ChatVLM:
    folder: Path = tmp_path_factory.mktemp(request.param)
    return ChatVLM.from_pretrained(tiny_chat.FAMILIES[request.param](folder))


def test_it_keeps_the_rules_of_language_models(vlm: ChatVLM) -> None:
    assert sees_pictures(vlm)
    check_llm(vlm, ["what is this ?", "a red cube , yes or no ?"])


@pytest.mark.parametrize("sampling", [Sampling(max_tokens=6), SAMPLED])
def test_prompts_together_are_answered_as_alone(vlm: ChatVLM, sampling: Sampling) -> None:
    together = vlm.generate(ASKED, sampling)
    assert together == [vlm.generate([prompt], sampling)[0] for prompt in ASKED]
    backwards = vlm.in_batches_of(3).generate(ASKED[::-1], sampling)
    assert together == backwards[::-1]
    if sampling.n > 1:
        assert len({each.text for samples in together for each in samples}) > len(ASKED)


def test_a_greedy_completion_is_the_reply_to_the_request(vlm: ChatVLM) -> None:
    request = ChatRequest([ONE.pixels], "what is this ?")
    (reply, _) = vlm.ask([request], 6)[0]
    (completion,) = vlm.generate([request.prompt], Sampling(max_tokens=6))[0]
    assert completion.text.strip() == reply
    assert completion.completion_tokens <= 6 < completion.prompt_tokens


def test_pictures_and_seeds_change_the_samples(vlm: ChatVLM) -> None:
    def texts(prompt: Prompt, seed: int) -> list[str]:
        sampling = Sampling(temperature=1.0, max_tokens=12, n=2, seed=seed)
        return [each.text for each in vlm.generate([prompt], sampling)[0]]

    asked = (user(ONE, "what ?"),)
    assert texts(asked, 1) == texts(asked, 1) != texts(asked, 2)
    assert texts(asked, 1) != texts((user(OTHER, "what ?"),), 1)


def test_draws_are_those_of_single_generators_and_copy_no_vocabulary() -> None:
    scores = torch.randn(3, 40, generator=torch.Generator().manual_seed(1))
    seeds, generators = [5, 6, 7], [torch.Generator().manual_seed(seed) for seed in (5, 6, 7)]
    with Copies() as copies:
        drawn = _draws(seeds, 0.7)
        found = [drawn(None, scores) for _ in range(4)]
    assert copies.shapes == []
    for each in found:
        noise = [torch.empty(40).exponential_(generator=g) for g in generators]
        assert torch.equal(each, scores / 0.7 - torch.stack(noise).log())


def test_a_cold_sample_is_the_likeliest_text(vlm: ChatVLM) -> None:
    cold = vlm.generate(ASKED, Sampling(temperature=1e-4, max_tokens=6))
    assert [one.text for (one,) in cold] == [
        one.text for (one,) in vlm.generate(ASKED, Sampling(max_tokens=6))
    ]


def test_a_stop_string_of_the_prompt_ends_nothing_and_one_of_the_reply_does(vlm: ChatVLM) -> None:
    (whole,) = vlm.generate([ASKED[0]], Sampling(max_tokens=8))[0]
    word = whole.text.split()[3]
    sampling = Sampling(max_tokens=8, stop=("assistant :", word))
    cut = vlm.generate(ASKED[:3], sampling)[0][0]
    assert cut.text == whole.text[: whole.text.index(word)]
    assert (cut.finish_reason, cut.completion_tokens < 8) == ("stop", True)


def test_a_prompt_that_fills_the_context_is_refused_by_itself(vlm: ChatVLM) -> None:
    long = "cube " * (vlm.max_context + 1)
    with pytest.raises(PromptTooLongError, match=f"holds {vlm.max_context}"):
        vlm.generate([long], Sampling())
    near = (user("cube " * (vlm.max_context - 30)),)
    sampling = Sampling(max_tokens=40)
    together = vlm.generate([near, "what ?"], sampling)
    assert together == [vlm.generate([prompt], sampling)[0] for prompt in (near, "what ?")]
    assert together[0][0].completion_tokens < 40


def test_thinking_gets_room_and_is_left_out_of_answers(
    vlm: ChatVLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    thinking = vlm.configured(thinking_tokens=5, chat_template_kwargs={"picture": "x"})
    (completion,) = thinking.generate(["what ?"], Sampling(max_tokens=2))[0]
    assert completion.completion_tokens > 2 or completion.finish_reason == "stop"
    monkeypatch.setattr(
        vlm._tokenizer, "decode", lambda *_, **__: "<think>no , not yes</think>\nYes , a ball ."
    )
    request = ChatRequest([ONE.pixels], "a ball ?")
    assert thinking.ask([request], 4)[0][0] == "Yes , a ball ."
    assert thinking.probability_of_yes([request]) == [1.0]


def test_ten_turns_each_begin_with_the_tokens_of_the_one_before(
    vlm: ChatVLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_role = vlm._processor.chat_template.replace("user : ", " {{ message['role'] }} : ")
    monkeypatch.setattr(vlm._processor, "chat_template", by_role)
    conversation = (system("a cube"), user(ONE, "what is this ?"))
    before: list[int] = []
    for turn in range(10):
        ids = vlm._inputs([conversation])["input_ids"][0].tolist()
        assert ids[: len(before)] == before and len(ids) > len(before), turn
        before = ids
        conversation = (*conversation, assistant(" a red ball"), user("yes or no ?"))


def test_scores_compute_logits_of_the_continuations_alone(
    vlm: ChatVLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt, options = "cube " * 200 + ", yes or no ?", ["yes", "no , a red ball", "a cube"]
    head = vlm._template.render(prompt)
    expected = []
    with torch.inference_mode():
        start = len(vlm._read([head])["input_ids"][0])
        for text in options:
            inputs = vlm._fitted(vlm._read([head + text]))
            ids = inputs["input_ids"][0]
            logs = vlm._model(**inputs).logits[0, :-1].float().log_softmax(dim=-1)
            expected.append(float(logs.gather(1, ids[1:, None])[start - 1 :, 0].mean()))
    widths: list[int] = []
    layer = vlm._model.get_output_embeddings()
    counted = layer.register_forward_hook(lambda *call: widths.append(call[2].shape[1]))
    try:
        assert vlm.score(prompt, options) == pytest.approx(expected, abs=1e-5)
    finally:
        counted.remove()
    assert len(widths) == 3 and max(widths) < 10 < start
    assert not layer._forward_pre_hooks
