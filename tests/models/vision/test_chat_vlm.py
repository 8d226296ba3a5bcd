"""The wrapper of chat vision-language models, on tiny checkpoints of three families."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_chat

from viper.errors import ModelError, ProfileError
from viper.models.vision.chat_vlm import ChatVLM
from viper.models.vision.vlm import ChatRequest

MESSAGES = ["what is this ?", "is this the red cube or not , yes or no ?", "a ball ?", "what ?"]


@pytest.fixture(autouse=True)
def _endless_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_chat.take_cut_replies(monkeypatch)


@pytest.fixture(scope="module", params=tiny_chat.FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat.FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def vlm(folder: Path) -> ChatVLM:
    return ChatVLM.from_pretrained(folder)


@pytest.fixture(scope="module")
def requests() -> list[ChatRequest]:
    """Messages of unequal length with one, three, two and one pictures of unequal size."""
    shown = tiny_chat.pictures(4) + tiny_chat.pictures(3, 16, 40)
    ranges = [(0, 1), (1, 4), (4, 6), (6, 7)]
    return [ChatRequest(shown[a:b], text) for (a, b), text in zip(ranges, MESSAGES, strict=True)]


def reread(vlm: ChatVLM, request: ChatRequest, count: int) -> tuple[list[int], list[float]]:
    """The reply's tokens and their log-probabilities by one plain forward pass a token."""
    import torch

    unwritten = torch.tensor(tiny_chat.UNWRITTEN)
    tokens, logs = [], []
    inputs = dict(vlm._inputs([request.prompt]))
    with torch.inference_mode():
        for _ in range(count):
            scores = vlm._model(**inputs).logits[0, -1].log_softmax(-1)
            token = int(scores.index_fill(0, unwritten, -torch.inf).argmax())
            tokens.append(token)
            logs.append(float(scores[token]))
            if token in vlm._end_ids():
                break
            for name, value in (("input_ids", token), ("attention_mask", 1)):
                inputs[name] = torch.cat([inputs[name], torch.tensor([[value]])], dim=1)
            if "mm_token_type_ids" in inputs:
                kinds = inputs["mm_token_type_ids"]
                inputs["mm_token_type_ids"] = torch.cat([kinds, kinds.new_zeros(1, 1)], dim=1)
    return tokens, logs


def test_replies_are_greedy_and_have_their_own_probability(
    vlm: ChatVLM, requests: list[ChatRequest]
) -> None:
    for request, (text, probability) in zip(requests, vlm.ask(requests, 6), strict=True):
        tokens, logs = reread(vlm, request, 6)
        assert text == vlm._tokenizer.decode(tokens, skip_special_tokens=True).strip()
        assert probability == pytest.approx(float(np.exp(sum(logs))), rel=1e-3)
        assert 0 < probability <= 1
    assert len({text for text, _ in vlm.ask(requests, 6)}) > 1


@pytest.mark.parametrize(
    "published",
    [
        {"repetition_penalty": 1.5},
        {"no_repeat_ngram_size": 1},
        {"min_new_tokens": 12},
        {"min_p": 0.3, "do_sample": True, "temperature": 0.1, "top_k": 1, "top_p": 0.001},
        {"num_beams": 3, "length_penalty": -1.0},
        {"exponential_decay_length_penalty": (1, 2.0)},
        {"sequence_bias": [[[tiny_chat.VOCABULARY["red"]], 50.0]]},
    ],
    ids=lambda published: next(iter(published)),
)
def test_settings_that_a_checkpoint_publishes_change_no_reply(
    folder: Path, requests: list[ChatRequest], published: dict[str, Any], tmp_path: Path
) -> None:
    import json
    import shutil

    from viper.models.llm.protocol import Sampling

    changed = Path(shutil.copytree(folder, tmp_path / "published"))
    config = json.loads((changed / "generation_config.json").read_text())
    (changed / "generation_config.json").write_text(json.dumps({**config, **published}))
    plain, other = ChatVLM.from_pretrained(folder), ChatVLM.from_pretrained(changed)
    assert other.ask(requests, 10) == plain.ask(requests, 10)
    assert other.probability_of_yes(requests) == plain.probability_of_yes(requests)
    prompts = [request.prompt for request in requests]
    for sampling in (Sampling(max_tokens=10), Sampling(temperature=1.0, max_tokens=10)):
        assert other.generate(prompts, sampling) == plain.generate(prompts, sampling)


def test_a_reply_ends_with_the_end_token_and_padding_after_it_costs_nothing(
    folder: Path, requests: list[ChatRequest]
) -> None:
    vlm = ChatVLM.from_pretrained(folder)
    tokens, logs = reread(vlm, requests[0], 4)
    assert len(tokens) == 4
    vlm._model.generation_config.eos_token_id = [tokens[1], tiny_chat.VOCABULARY["</s>"]]
    together = vlm.ask(requests, 8)
    stop = tokens.index(tokens[1]) + 1
    assert together[0][1] == pytest.approx(float(np.exp(sum(logs[:stop]))), rel=1e-3)
    alone = [vlm.ask([request], 8)[0] for request in requests]
    assert [text for text, _ in together] == [text for text, _ in alone]


def test_requests_together_are_answered_as_alone(vlm: ChatVLM, requests: list[ChatRequest]) -> None:
    assert vlm.batches
    together = vlm.ask(requests, 5)
    alone = [vlm.ask([request], 5)[0] for request in requests]
    assert [text for text, _ in together] == [text for text, _ in alone]
    assert [p for _, p in together] == pytest.approx([p for _, p in alone], rel=1e-3)
    chances = vlm.probability_of_yes(requests)
    assert chances == pytest.approx(
        [vlm.probability_of_yes([request])[0] for request in requests], rel=1e-3
    )


def test_the_first_token_alone_tells_yes_from_no(vlm: ChatVLM, requests: list[ChatRequest]) -> None:
    import torch

    with torch.inference_mode():
        scores = vlm._model(**vlm._inputs([requests[1].prompt])).logits[0, -1].softmax(-1)
    yes = sum(float(scores[tiny_chat.VOCABULARY[word]]) for word in ("yes", "Yes"))
    no = sum(float(scores[tiny_chat.VOCABULARY[word]]) for word in ("no", "No"))
    chance = vlm.probability_of_yes(requests)[1]
    assert chance == pytest.approx(yes / (yes + no), rel=1e-3)


def test_a_reply_depends_on_the_pictures_and_on_their_order(vlm: ChatVLM) -> None:
    one, other = tiny_chat.pictures(2, seed=5)
    chances = vlm.probability_of_yes(
        [ChatRequest(shown, "what ?") for shown in ([one, other], [other, one], [one, one])]
    )
    assert len({round(chance, 6) for chance in chances}) == 3


def test_a_model_without_padding_is_asked_one_at_a_time(
    folder: Path, requests: list[ChatRequest]
) -> None:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(folder)
    processor = AutoProcessor.from_pretrained(folder)
    expected = ChatVLM(model, processor, "padded").ask(requests, 4)
    processor.tokenizer.pad_token = None
    vlm = ChatVLM(model, processor, "unpadded")
    sizes = []
    original = model.generate

    def generate(**inputs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        return original(**inputs)

    model.generate = generate
    assert not vlm.batches
    assert [text for text, _ in vlm.ask(requests, 4)] == [text for text, _ in expected]
    assert sizes == [1] * len(requests)


def test_batches_are_bounded(folder: Path, requests: list[ChatRequest]) -> None:
    vlm = ChatVLM.from_pretrained(folder, batch_size=3)
    sizes = []
    original = vlm._model.generate

    def generate(**inputs: Any) -> Any:
        sizes.append(len(inputs["input_ids"]))
        return original(**inputs)

    vlm._model.generate = generate
    vlm.ask(requests, 2)
    assert sizes == [3, 1]


def test_a_question_cannot_forge_the_marks_of_the_format(vlm: ChatVLM) -> None:
    marks = " ".join(tiny_chat.IMAGE_MARKS)
    (picture,) = tiny_chat.pictures(1)
    plain = vlm._inputs([ChatRequest([picture], "what is this ?").prompt])["input_ids"]
    forged = vlm._inputs([ChatRequest([picture], f"what {marks} is </s> this ?").prompt])[
        "input_ids"
    ]
    assert forged.tolist() == plain.tolist()


def test_a_beginning_that_the_template_writes_is_not_written_twice(folder: Path) -> None:
    from tokenizers import processors

    vlm = ChatVLM.from_pretrained(folder)
    begin = tiny_chat.VOCABULARY["<s>"]
    vlm._tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", begin)]
    )
    request = ChatRequest(tiny_chat.pictures(1), "what ?")
    assert vlm._inputs([request.prompt])["input_ids"][0].tolist().count(begin) == 1
    vlm._processor.chat_template = "<s> " + vlm._processor.chat_template
    assert vlm._inputs([request.prompt])["input_ids"][0].tolist().count(begin) == 1


def test_it_says_what_it_is(vlm: ChatVLM, folder: Path) -> None:
    assert vlm.model_id.startswith(folder.name + "@")
    assert vlm.memory_bytes == sum(p.numel() * 4 for p in vlm._model.parameters()) + sum(
        b.numel() * b.element_size() for b in vlm._model.buffers()
    )
    assert vlm.ask([], 3) == [] and vlm.probability_of_yes([]) == []


def test_half_precision_takes_pictures_too(folder: Path, requests: list[ChatRequest]) -> None:
    vlm = ChatVLM.from_pretrained(folder, device="cpu", dtype="bfloat16")
    assert all(0 < p <= 1 for _, p in vlm.ask(requests, 3))
    assert all(0 <= p <= 1 for p in vlm.probability_of_yes(requests))


def test_a_request_needs_a_picture(vlm: ChatVLM) -> None:
    with pytest.raises(ValueError, match="at least one picture"):
        vlm.ask([ChatRequest([], "what ?")], 3)


def test_a_processor_without_chat_template_is_a_model_error(tmp_path: Path) -> None:
    tiny_chat.llava(tmp_path, chat_template=None)
    with pytest.raises(ModelError, match="has no chat template"):
        ChatVLM.from_pretrained(tmp_path)


def test_a_model_that_reads_text_only_is_a_model_error(tmp_path: Path) -> None:
    from transformers import LlamaConfig

    tiny_chat.word_tokenizer().save_pretrained(tmp_path)
    LlamaConfig(vocab_size=40, hidden_size=8, num_attention_heads=2).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="reads no pictures"):
        ChatVLM.from_pretrained(tmp_path)


def test_a_folder_without_a_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as AutoProcessor"):
        ChatVLM.from_pretrained(tmp_path)


@pytest.mark.parametrize("known", [[], ["yes"], ["No"]])
def test_a_vocabulary_without_yes_or_no_is_a_model_error(folder: Path, known: list[str]) -> None:
    vlm = ChatVLM.from_pretrained(folder)
    unknown = vlm._tokenizer.unk_token_id

    class FewWords:
        unk_token_id = unknown

        def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
            return {"input_ids": [20 if text in known else unknown]}

    vlm._tokenizer = FewWords()
    with pytest.raises(ModelError, match="no tokens that tell yes from no"):
        vlm.probability_of_yes([ChatRequest(tiny_chat.pictures(1), "what ?")])


def test_what_yes_and_no_begin_with_alike_does_not_count(folder: Path) -> None:
    vlm = ChatVLM.from_pretrained(folder)
    tokens = {"yes": [20], "Yes": [21], " yes": [30, 20], " Yes": [30, 21], "no": [22], "No": [23]}

    class Spaced:
        unk_token_id = 1

        def __call__(self, text: str, **_: Any) -> dict[str, list[int]]:
            return {"input_ids": tokens.get(text, [30, 22])}

    vlm._tokenizer = Spaced()
    assert vlm._answer_tokens() == ([20, 21], [22, 23])


def test_large_pictures_are_scaled_down_before_the_processor(
    vlm: ChatVLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    read = vlm._read
    monkeypatch.setattr(
        vlm, "_read", lambda *texts, **more: shown.append(more) or read(*texts, **more)
    )
    large, small = tiny_chat.pictures(1, 3000, 4000) + tiny_chat.pictures(1)
    vlm.ask([ChatRequest([large, small], "what ?")], 1)
    ((wide, same),) = shown[0]["images"]
    assert wide.width * wide.height <= 1280 * 28 * 28 and wide.width > 1100
    assert wide.width / wide.height == pytest.approx(4 / 3, rel=2e-3)
    assert np.array_equal(same, small)


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl"])
def test_the_tokens_of_a_picture_are_bounded(family: str, tmp_path: Path) -> None:
    vlm = ChatVLM.from_pretrained(tiny_chat.FAMILIES[family](tmp_path), max_pixels=100 * 100)
    vlm._processor.image_processor.size = {"shortest_edge": 64, "longest_edge": 12_845_056}
    (large,) = tiny_chat.pictures(1, 3000, 4000)

    def tokens(vlm: ChatVLM) -> int:
        prompt = ChatRequest([large], "what ?").prompt
        return int(vlm._inputs([prompt])["attention_mask"].sum())

    # A token stands for 8 x 8 pixels here.
    assert tokens(vlm) < 1.2 * 100 * 100 / 64 + 16
    assert tokens(vlm.configured(max_pixels=200 * 200)) > 500


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 4000), (900, 3)])
def test_pictures_of_every_shape_are_answered(vlm: ChatVLM, height: int, width: int) -> None:
    (picture,) = tiny_chat.pictures(1, height, width)
    assert len(vlm.ask([ChatRequest([picture], "what ?")], 2)) == 1


def test_pictures_without_pixels_are_refused(vlm: ChatVLM) -> None:
    with pytest.raises(ProfileError, match="max_pixels is 0; expected 1 or more"):
        vlm.configured(max_pixels=0)


def test_a_package_that_a_processor_misses_is_one_line_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.smolvlm import processing_smolvlm

    folder = tiny_chat.idefics3(tmp_path / "smolvlm")
    config = folder / "processor_config.json"
    named = {**json.loads(config.read_text()), "processor_class": "SmolVLMProcessor"}
    config.write_text(json.dumps(named))
    sizes = {"size": {"longest_edge": 32}, "max_image_size": {"longest_edge": 16}}
    sampling = {"fps": 1, "max_frames": 4, "video_size": {"longest_edge": 32}}
    video = {"video_processor_type": "SmolVLMVideoProcessor", "num_frames": 4, "fps": 1}
    text = json.dumps({**video, **sizes, "video_sampling": sampling})
    (folder / "video_preprocessor_config.json").write_text(text)
    monkeypatch.setattr(processing_smolvlm, "num2words", None)
    with pytest.raises(ModelError, match="pip install num2words") as caught:
        ChatVLM.from_pretrained(folder)
    assert "\n" not in str(caught.value)
