from pathlib import Path

import pytest
import torch

from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.writer import (
    FURTHER_PART,
    GROUND_PART,
    LAST_PART,
    Phase,
    Stage,
    batches_at,
    encode_pieces,
    everyday_writer,
    initial_writer,
    save_writer,
    train_writer,
    writer_tokenizer,
)
from viper_lab.recipes.writer_documents import DocumentOptions, Piece
from viper_lab.recipes.writer_init import WriterShape, build_writer

SMALL = Stage(1.0, 256, DocumentOptions(programs=1, full_header=0.0, extra_lines=1))


def test_the_initial_weights_copy_what_they_have_seen_once() -> None:
    model = build_writer(400, 0, 1, 2).eval()
    half = torch.randint(3, 400, (2, 60), generator=torch.Generator().manual_seed(0))
    ids = torch.cat([half, half], 1)
    with torch.no_grad():
        predicted = model(ids).logits[:, 63:-1].argmax(-1)
    assert (predicted == ids[:, 64:]).float().mean() > 0.97


def test_the_initial_weights_know_the_line_and_gather_the_latest_query(tmp_path: Path) -> None:
    tokenizer = writer_tokenizer(tmp_path, 0, documents=60, words=300)
    model = initial_writer(tokenizer).eval()
    model.set_attn_implementation("eager")
    text = "# find all: zorp(a)\n# task: ground\n# query: red cone\ndef f(x):\n    y = x"
    encoded = tokenizer.encode(text)
    with torch.no_grad():
        marks, words = model(torch.tensor([encoded.ids]), output_attentions=True).attentions[:2]
    tokens = encoded.tokens
    start = tokens.index("▁query")
    assert tokens[int(marks[0, 3, start + 3].argmax())] == "▁query"
    assert tokens[int(marks[0, 3, -1].argmax())] == "\n    "
    query, elsewhere = words[0, 2, -1, start : start + 4], words[0, 2, -1, :start]
    assert query.mean() > 4 * elsewhere.mean()


def test_only_learned_pieces_and_the_end_count(tmp_path: Path) -> None:
    tokenizer = writer_tokenizer(tmp_path, 0, documents=20, words=50)
    ids, learned = encode_pieces(tokenizer, [Piece("# query: a\n", False), Piece("b = 1", True)])
    kept = [i for i, counts in zip(ids, learned, strict=True) if counts]
    assert tokenizer.decode(kept) == "b = 1"
    assert ids[-1] == tokenizer.token_to_id("</s>")


def test_batches_depend_on_their_seed_alone_and_fit_the_stage(tmp_path: Path) -> None:
    tokenizer = writer_tokenizer(tmp_path, 0, documents=20, words=50)
    one, again, other = (batches_at(tokenizer, SMALL, seed, 800) for seed in ("3", "3", "4"))
    assert all(torch.equal(a.ids, b.ids) for a, b in zip(one, again, strict=True))
    assert sum(batch.learned.numel() for batch in one) >= 800
    assert not all(
        a.ids.shape == b.ids.shape and torch.equal(a.ids, b.ids)
        for a, b in zip(one, other, strict=False)
    )
    assert max(batch.ids.shape[1] for batch in one) <= 256


@pytest.mark.parametrize("part", [GROUND_PART, FURTHER_PART, LAST_PART])
def test_a_part_goes_through_its_stages_in_order_and_ends_with_the_longest(part: Phase) -> None:
    passed = [part.stage(step) for step in range(part.steps)]
    assert list(dict.fromkeys(passed)) == list(part.stages)
    assert part.stages[-1].until == 1.0
    assert part.stages[-1].max_tokens == max(stage.max_tokens for stage in part.stages)


@pytest.mark.timeout(120)
def test_a_training_resumes_and_saves_a_loadable_folder(tmp_path: Path) -> None:
    from viper.models.llm.protocol import Sampling
    from viper.models.llm.transformers_llm import TransformersLLM

    shape = WriterShape(width=40, layers=2, heads=4, head_dim=16, inner=32)
    part = Phase("writer", (SMALL,), 2, 3e-3, step_tokens=300)
    writer_tokenizer(tmp_path / "work", 0, documents=20, words=50)
    for steps in (1, 2):
        options = TrainOptions(out=tmp_path / "out", work=tmp_path / "work", steps=steps)
        model, tokenizer = train_writer(options, part=part, shape=shape)
    save_writer(model, tokenizer, tmp_path / "out")
    llm = TransformersLLM(tmp_path / "out", local_only=True)
    text = llm.generate(["# query: the red cube\n"], Sampling(max_tokens=5))[0][0].text
    assert isinstance(text, str)
    assert llm.max_context == 2048


@pytest.mark.timeout(120)
def test_the_phase_of_everyday_english_resumes_with_its_own_tokenizer(tmp_path: Path) -> None:
    work = tmp_path / "work"
    tokenizer = writer_tokenizer(work, 0, documents=20, words=50)
    shape = WriterShape(width=40, layers=2, heads=4, head_dim=16, inner=32)
    everyday = DocumentOptions(programs=1, full_header=0.0, extra_lines=1, everyday=1.0)
    part = Phase("everyday", (Stage(1.0, 256, everyday),), 2, 3e-3, step_tokens=300)
    for steps in (1, 2):
        options = TrainOptions(out=tmp_path / "out", work=work, steps=steps)
        small = initial_writer(tokenizer, 0, shape)
        model, larger = everyday_writer(small, tokenizer, options, part=part)
    assert model.config.vocab_size == larger.get_vocab_size() > tokenizer.get_vocab_size()
    assert (work / "everyday-tokenizer.json").exists()
