from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from tests.models.llm.engine.copies import Copies
from viper.errors import CancelledError, ModelError, UsageError
from viper.models.llm.engine.reading import PromptReader
from viper.models.llm.engine.shared_prefix import forward
from viper.models.llm.protocol import LLM, Payer, Sampling, charging
from viper.models.llm.transformers_llm import TransformersLLM

PROMPTS = ["# query: the red cube\n", "the cube", "# query: the red dax of the blicket\ndef "]
WARM = Sampling(temperature=1.0, seed=3, max_tokens=12)


def _texts(llm: TransformersLLM, prompts: list[str], sampling: Sampling) -> list[list[str]]:
    return [[c.text for c in found] for found in llm.generate(prompts, sampling)]


def test_it_is_an_llm_named_by_folder_and_weights(llm: TransformersLLM) -> None:
    assert isinstance(llm, LLM)
    name, _, digest = llm.model_id.partition("@")
    assert name == "tiny"
    assert len(digest) == 12
    assert llm.max_context == 256


def test_greedy_text_equals_the_library_s_own_generate(
    llm: TransformersLLM, model_folder: Path
) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(model_folder, dtype="float32").eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(model_folder)
    for prompt, found in zip(PROMPTS, llm.generate(PROMPTS, Sampling(max_tokens=10)), strict=True):
        encoded = tokenizer(prompt, return_tensors="pt")
        written = model.generate(
            input_ids=encoded["input_ids"], max_new_tokens=10, do_sample=False
        )[0, encoded["input_ids"].shape[1] :]
        assert found[0].text == tokenizer.decode(written, skip_special_tokens=True)
        assert found[0].prompt_tokens == encoded["input_ids"].shape[1]


def test_a_prompt_that_is_asked_again_is_guessed_from_its_first_token(
    llm: TransformersLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []

    def counted(model: Any, rows: Any, tokens: list[list[int]]) -> torch.Tensor:
        passes.append(len(tokens[0]))
        return forward(model, rows, tokens)

    monkeypatch.setattr("viper.models.llm.engine.decoding.forward", counted)
    first = _texts(llm, [PROMPTS[0] + PROMPTS[2]], WARM)
    assert passes == [1] * 11  # nothing to guess from
    passes.clear()
    assert _texts(llm, [PROMPTS[0] + PROMPTS[2]], WARM) == first
    assert passes == [11]


def test_prompts_of_one_kind_do_not_push_out_those_of_another(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = TransformersLLM(model_folder, local_only=True, kept_prompts=2)._reader
    read: list[int] = []

    def counted(ids: list[list[int]], *arguments: Any, **named: Any) -> Any:
        read.append(len(ids[0]))
        return PromptReader.forward(reader, ids, *arguments, **named)

    monkeypatch.setattr(reader, "forward", counted)
    pictures, videos = [10] * 20, [11] * 20
    for prompt in ([*videos, 3], *([*pictures, number] for number in range(3, 8)), [*videos, 4]):
        reader.read(prompt)
    assert read == [21, 21, 1, 1, 1, 1, 1]
    reader.read([*videos, 4])
    assert len(read) == 7  # the same prompt is not read again


class Ends(Payer):
    """A query that ends at one of the checks of its model."""

    def __init__(self, after: int) -> None:
        self.left = after

    def check_running(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise CancelledError("the run was cancelled")


def test_writing_ends_between_two_tokens_with_its_query(llm: TransformersLLM) -> None:
    ends = Ends(after=4)
    with charging([ends]), pytest.raises(CancelledError):
        llm.generate(PROMPTS[:1], WARM)
    assert ends.left == -1
    with charging([Ends(after=0), Payer()]):  # the other query still waits
        assert _texts(llm, PROMPTS[:1], WARM)[0][0]


def test_samples_do_not_depend_on_the_batch(llm: TransformersLLM) -> None:
    together = _texts(llm, PROMPTS, WARM)
    alone = [_texts(llm, [prompt], WARM)[0] for prompt in reversed(PROMPTS)]
    assert together == alone[::-1]


def test_samples_differ_by_number_and_seed_and_repeat_with_the_seed(llm: TransformersLLM) -> None:
    several = Sampling(temperature=1.0, seed=3, max_tokens=12, n=3)
    first = _texts(llm, PROMPTS[:1], several)[0]
    assert len(set(first)) == 3
    assert first[0] == _texts(llm, PROMPTS[:1], WARM)[0][0]
    assert _texts(llm, PROMPTS[:1], several)[0] == first
    other = Sampling(temperature=1.0, seed=4, max_tokens=12)
    assert _texts(llm, PROMPTS[:1], other)[0][0] != first[0]


def test_draws_copy_no_vocabulary_from_the_device_of_the_logits(
    llm: TransformersLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    _texts(llm, PROMPTS, WARM)  # the first call also checks the model
    devices: list[Any] = []
    original = torch.Generator
    monkeypatch.setattr(
        torch, "Generator", lambda *place: devices.append(*place) or original(*place)
    )
    with Copies() as copies:
        _texts(llm, PROMPTS, Sampling(temperature=1.0, seed=3, max_tokens=12, n=2))
    vocabulary = llm._model.config.vocab_size
    assert [shape for shape in copies.shapes if shape[-1:] == (vocabulary,)] == []
    assert (1,) in copies.shapes  # the drawn tokens themselves
    assert devices == [torch.device("cpu")] * 2 * len(PROMPTS)


def test_a_stop_string_ends_the_text_before_it(llm: TransformersLLM) -> None:
    free = llm.generate(PROMPTS[:1], Sampling(max_tokens=20))[0][0]
    mark = free.text[4:8]
    stopped = llm.generate(PROMPTS[:1], Sampling(max_tokens=20, stop=(mark,)))[0][0]
    assert stopped.text == free.text[: free.text.index(mark)]
    assert stopped.finish_reason == "stop"
    assert stopped.completion_tokens < free.completion_tokens
    assert free.finish_reason == "length"


def test_a_shared_prefix_is_read_once(
    llm: TransformersLLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = "# query: the red cube of the blicket\n" * 4
    read: list[int] = []
    forward = llm._model.forward

    def counted(*args: Any, **kwargs: Any) -> Any:
        read.append(kwargs["input_ids"].shape[1])
        return forward(*args, **kwargs)

    one = Sampling(max_tokens=1)
    llm.generate(["the first prompt has the model checked"], one)
    monkeypatch.setattr(llm._model, "forward", counted)
    llm.generate([prefix + "the cube"], one)
    llm.generate([prefix + "the dax"], one)
    assert read[1] < read[0] / 4


def test_scores_are_mean_log_likelihoods(llm: TransformersLLM, model_folder: Path) -> None:
    prompt, options = "# query: the red cube\n", ["the dax", "the blicket of the cube", "wug"]
    found = llm.score(prompt, options)
    model: Any = AutoModelForCausalLM.from_pretrained(model_folder, dtype="float32").eval()
    tokenizer: Any = AutoTokenizer.from_pretrained(model_folder)
    start = len(tokenizer(prompt)["input_ids"])
    for option, score in zip(options, found, strict=True):
        ids = torch.tensor([tokenizer(prompt + option)["input_ids"]])
        with torch.no_grad():
            logs = model(input_ids=ids).logits[0].log_softmax(-1)
        steps = [float(logs[i - 1, ids[0, i]]) for i in range(start, ids.shape[1])]
        assert score == pytest.approx(sum(steps) / len(steps), abs=1e-4)
    assert llm.score(prompt, []) == []


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_completion_has_the_log_probability_of_its_tokens(
    llm: TransformersLLM, monkeypatch: pytest.MonkeyPatch, temperature: float
) -> None:
    decoded: list[Any] = []
    decode = llm._decoder.decode
    monkeypatch.setattr(
        llm._decoder,
        "decode",
        lambda rows, sampling: decoded.extend(rows) or decode(rows, sampling),
    )
    sampling = Sampling(temperature=temperature, seed=3, max_tokens=12, n=2)
    found = [each for group in llm.generate(PROMPTS, sampling) for each in group]
    for completion, row in zip(found, decoded, strict=True):
        start = len(row.prefill.ids)
        ids = torch.tensor([[*row.prefill.ids, *row.output]])
        with torch.no_grad():
            logs = llm._model(input_ids=ids).logits[0].log_softmax(-1)
        steps = [float(logs[i - 1, ids[0, i]]) for i in range(start, ids.shape[1])]
        assert completion.logprob == pytest.approx(sum(steps), abs=1e-3)


def test_a_prompt_that_fills_the_context_is_refused(llm: TransformersLLM) -> None:
    with pytest.raises(UsageError, match="holds 256"):
        llm.generate(["cube dax " * 200], Sampling())


def test_generation_stops_where_the_context_ends(llm: TransformersLLM) -> None:
    prompt = "the red cube " * 60
    room = 256 - llm.count_tokens(prompt)
    found = llm.generate([prompt], Sampling(max_tokens=500))[0][0]
    assert found.completion_tokens <= room


def test_threads_do_not_disturb_each_other(llm: TransformersLLM) -> None:
    expected = [_texts(llm, [prompt], WARM) for prompt in PROMPTS]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda prompt: _texts(llm, [prompt], WARM), PROMPTS))
    assert found == expected


def test_a_folder_without_a_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as"):
        TransformersLLM(tmp_path, local_only=True)
