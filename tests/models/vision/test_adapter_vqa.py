"""How prompts enter a BLIP answerer, on a tiny untrained checkpoint."""

import numpy as np
import pytest

from tests.models.vision.tiny_blip import tiny_blip
from viper.models.vision.adapter_vqa import VECTORS, prompt_of, vectors_of
from viper.models.vision.soft_prompts import LearnedPrompt, NoSoftPrompts
from viper.models.vision.vqa_blip import BlipAnswerer

WIDTH = 16
QUESTION = "what is this?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_blip(tmp_path_factory.mktemp("adapted-vqa"))


@pytest.fixture(scope="module")
def answerer(folder):
    return BlipAnswerer.from_pretrained(folder)


def picture(seed=0):
    return np.random.default_rng(seed).integers(0, 255, (20, 24, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def encoding(answerer):
    return answerer.encode([picture()])[0]


def strange(seed=0):
    """Vectors that surely say something else."""
    drawn = np.random.default_rng(seed).normal(size=(VECTORS, WIDTH)) * 20
    return drawn.astype(np.float32)


def test_being_looked_at_as_taught_changes_no_bit(folder):
    answerer = BlipAnswerer.from_pretrained(folder)
    (encoding,) = answerer.encode([picture()])
    before = answerer.answer([encoding], [QUESTION])
    state = {name: each.clone() for name, each in answerer._model.state_dict().items()}
    answerer.feature(encoding, QUESTION)
    answerer.answer_adapted(encoding, QUESTION, LearnedPrompt("", prompt_of(strange())))
    assert answerer.answer([encoding], [QUESTION]) == before
    now = answerer._model.state_dict()
    assert state.keys() == now.keys() and all((now[name] == state[name]).all() for name in state)


def test_without_vectors_the_decoder_says_what_it_said(answerer, encoding):
    import torch

    adapter, ids = answerer.adapter, answerer.tokens(QUESTION)
    states = adapter.states(encoding, ids)
    told = torch.tensor([[adapter.first_token, 8]])
    seen = torch.ones(states.shape[:2], dtype=torch.long)
    with torch.no_grad():
        found = adapter.answer_logits(torch.zeros(1, 0, WIDTH), states, seen, told)
        plain = answerer._model.text_decoder(
            input_ids=told, encoder_hidden_states=states, encoder_attention_mask=seen
        ).logits
    assert torch.equal(found, plain.float())


def test_training_and_answering_see_the_same_network(answerer, encoding):
    import torch

    adapter, vectors = answerer.adapter, torch.from_numpy(strange())[None]
    states = adapter.states(encoding, answerer.tokens(QUESTION))
    seen = torch.ones(states.shape[:2], dtype=torch.long)
    with torch.no_grad():
        logits = adapter.answer_logits(
            vectors, states, seen, torch.full((1, 1), adapter.first_token)
        )
        pairs = [(encoding, answerer.tokens(QUESTION))]
        text, probability = answerer._generate(1, pairs, adapter.before(vectors))[0]
    best = int(logits[0, 0].argmax())
    assert text == answerer._tokenizer.decode([best], skip_special_tokens=True)
    assert probability == pytest.approx(float(logits[0, 0].softmax(-1).max()), abs=1e-4)
    plain = answerer._generate(1, pairs)[0][1]
    assert abs(probability - plain) > 1e-3


def test_padding_is_not_seen(answerer, encoding):
    import torch

    adapter, vectors = answerer.adapter, torch.from_numpy(strange())[None]
    states = adapter.states(encoding, answerer.tokens(QUESTION))
    told = torch.full((1, 1), adapter.first_token)
    seen = torch.ones(states.shape[:2], dtype=torch.long)
    padded = torch.cat([states, torch.full((1, 3, WIDTH), 7.0)], dim=1)
    mask = torch.cat([seen, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    with torch.no_grad():
        alone = adapter.answer_logits(vectors, states, seen, told)
        beside = adapter.answer_logits(vectors, padded, mask, told)
    assert torch.allclose(alone, beside, atol=1e-4)


def test_vectors_get_gradients_and_weights_none(answerer, encoding):
    import torch

    adapter = answerer.adapter
    states = adapter.states(encoding, answerer.tokens(QUESTION))
    seen = torch.ones(states.shape[:2], dtype=torch.long)
    vectors = torch.from_numpy(adapter.start.copy())[None].requires_grad_()
    told = torch.full((1, 1), adapter.first_token)
    adapter.answer_logits(vectors, states, seen, told)[0, 0, 8].backward()
    assert vectors.grad is not None and float(vectors.grad.abs().sum()) > 0
    assert not any(p.requires_grad or p.grad is not None for p in answerer._model.parameters())


def test_a_case_is_like_itself_and_less_like_another_question(answerer, encoding):
    mine = answerer.feature(encoding, QUESTION)
    again = answerer.feature(encoding, "What is THIS? ")
    other = answerer.feature(encoding, "is this red cube?")
    assert mine.dtype == np.float32 and np.linalg.norm(mine) == pytest.approx(1, abs=1e-4)
    assert np.array_equal(mine, again)
    assert float(mine @ other) < 0.9


def test_zeros_hold_back_by_a_vote(answerer, encoding):
    one = strange()
    assert np.array_equal(vectors_of(prompt_of(one)), one)
    assert vectors_of(0.5 * prompt_of(one)) is None
    assert np.allclose(vectors_of(0.6 * prompt_of(one)), one, atol=1e-5)
    plain = answerer.answer([encoding], [QUESTION])[0][0]
    held = LearnedPrompt("", 0.4 * prompt_of(one))
    assert answerer.answer_adapted(encoding, QUESTION, held) == plain


def test_a_sure_answer_stands(answerer, encoding, monkeypatch):
    from viper.models.vision import vqa_blip

    asked = (encoding, QUESTION, LearnedPrompt("", prompt_of(strange())))
    monkeypatch.setattr(vqa_blip, "SURE", 0.0)
    assert answerer.answer_adapted(*asked) == answerer.answer([encoding], [QUESTION])[0][0]


def test_a_prompt_of_another_size_is_refused():
    with pytest.raises(ValueError, match="a prompt of 3 rows; expected 17"):
        vectors_of(np.zeros((3, WIDTH), np.float32))


def test_half_precision_is_taught_too(folder):
    half = BlipAnswerer.from_pretrained(folder, dtype="bfloat16", device="cpu")
    (encoding,) = half.encode([picture()])
    assert np.isfinite(half.feature(encoding, QUESTION)).all()
    assert isinstance(
        half.answer_adapted(encoding, QUESTION, LearnedPrompt("", prompt_of(strange()))), str
    )


def test_a_hub_that_was_taught_nothing_asks_for_no_feature(answerer, monkeypatch):
    from viper.models.media import media_from
    from viper.tools.models import ModelSet
    from viper.tools.settings import ToolSettings
    from viper.tools.toolbox import Toolbox

    for name in ("feature", "answer_adapted"):
        monkeypatch.setattr(answerer, name, None)
    toolbox = Toolbox(ModelSet({"vqa": lambda: answerer}), ToolSettings())
    said = []
    for each in (toolbox, toolbox.with_soft_prompts(NoSoftPrompts())):
        session = each.session(media_from([picture()]))
        ref = session.patch_ref("image0", (0, 0, 24, 20))
        said.append(session.call("simple_query", (ref, QUESTION), {}, None))
    assert said == [answerer.answer(answerer.encode([picture()]), [QUESTION])[0][0]] * 2
