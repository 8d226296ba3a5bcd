"""Visual question answering and captions by a BLIP model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from viper.models.loading import Item, PictureTextCheckpoint, in_batches, in_equal_groups, prepared
from viper.models.vision.adapter_vqa import SURE, BlipAdapter, question_states, vectors_of
from viper.models.vision.boxes import require_finite
from viper.models.vision.chat_vlm import reply_probabilities
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.soft_prompts import LearnedPrompt

if TYPE_CHECKING:
    from torch import Tensor

# Question to which BLIP's question answering checkpoints reply with a caption.
CAPTION_QUESTION = "what is in the picture?"

ANSWER_TOKENS = 12
CAPTION_TOKENS = 48


class PictureAnswerer(PictureTextCheckpoint):
    """Base of answerers that encode a picture as one tensor, and answer from it by greedy
    generation.
    """

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        """Return one tensor ``[tokens, width]`` per image."""

        def forward(batch: Sequence[Pixels]) -> list[Any]:
            return self.encode_prepared([self.prepare(image) for image in batch])

        return in_batches(images, self._batch_size, forward)

    @property
    def prepare(self) -> Callable[[Pixels], Any]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        return partial(prepared, self._processor)

    def encode_prepared(self, inputs: Sequence[Any]) -> list[Any]:
        """Return one tensor ``[tokens, width]`` per prepared picture."""
        import torch

        def forward(batch: Sequence[Any]) -> list[Any]:
            pixels = self._fitted({"pixel_values": torch.stack(list(batch))})
            # Copies: a view would keep the whole batch in memory.
            return [row.clone() for row in self._look(pixels["pixel_values"])]

        with torch.inference_mode():
            return in_batches(inputs, self._batch_size, forward)

    def _look(self, pixels: Tensor) -> Tensor:
        """Return the encodings ``[B, tokens, width]`` of a batch of pictures."""
        raise NotImplementedError

    def _pairs(self, encodings: Sequence[Any], questions: Sequence[Item]) -> list[tuple[Any, Item]]:
        if len(encodings) != len(questions):
            raise ValueError(f"{len(encodings)} encodings for {len(questions)} questions")
        return list(zip(encodings, questions, strict=True))

    def _replies(
        self, ids: Tensor, logits: Sequence[Tensor], end_ids: Sequence[int]
    ) -> list[tuple[str, float]]:
        """Return generated texts, each with its probability.

        Raises:
            ModelError: a probability is not finite.
        """
        import torch

        log_probabilities = torch.stack(list(logits), dim=1).float().log_softmax(dim=-1)
        probabilities = reply_probabilities(ids, log_probabilities, end_ids)
        require_finite(self.model_id, "probabilities", np.array(probabilities))
        texts = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
        return [(text.strip(), p) for text, p in zip(texts, probabilities, strict=True)]


class BlipAnswerer(PictureAnswerer):
    """A :class:`~viper.models.vision.roles.VisualAnswerer` on ``BlipForQuestionAnswering``.

    An encoding is the vision tower's output ``[tokens, width]`` for one picture, so
    several questions about it cost one run of the tower.
    """

    network = "transformers:BlipForQuestionAnswering"

    def __init__(
        self, *parts: Any, caption_question: str = CAPTION_QUESTION, batch_size: int = 32
    ) -> None:
        super().__init__(*parts, batch_size=batch_size)
        self._caption_question = caption_question

    def _look(self, pixels: Tensor) -> Tensor:
        states: Tensor = self._model.vision_model(pixel_values=pixels).last_hidden_state
        return states

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        """Return the answer to ``questions[i]`` about ``encodings[i]`` with its probability."""
        return self._ask(encodings, questions, ANSWER_TOKENS)

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        """Return a short description of each picture."""
        questions = [self._caption_question] * len(encodings)
        return [text for text, _ in self._ask(encodings, questions, CAPTION_TOKENS)]

    @cached_property
    def adapter(self) -> BlipAdapter:
        """Return the adapter that feeds soft prompts into the network."""
        grey = np.full((32, 32, 3), 128, np.uint8)
        return BlipAdapter(self._model, self.encode([grey])[0], self.tokens(""))

    def tokens(self, text: str) -> list[int]:
        """Return the tokens of a question or an answer, special tokens included."""
        return self._tokenizer(text.strip().lower())["input_ids"]

    def feature(self, encoding: Any, question: str) -> Floats:
        """Return the feature of a picture and a question that selects prompts, of length 1."""
        return self.adapter.feature(self.adapter.states(encoding, self.tokens(question)))

    def answer_adapted(self, encoding: Any, question: str, prompt: LearnedPrompt) -> str:
        """Return the answer with a prompt, see :mod:`viper.models.vision.adapter_vqa`, or the plain
        one.

        The answer is plain if the model got most similar cases right, or if its probability exceeds
        :data:`~viper.models.vision.adapter_vqa.SURE`.
        """
        import torch

        text, probability = self.answer([encoding], [question])[0]
        vectors = vectors_of(prompt.vectors)
        if vectors is None or probability > SURE:
            return text
        before = self.adapter.before(torch.from_numpy(vectors).to(encoding.device)[None])
        return self._generate([encoding], [self.tokens(question)], ANSWER_TOKENS, before)[0][0]

    def score_answers(self, encoding: Any, question: str, answers: Sequence[str]) -> list[float]:
        """Return the log-likelihood of each answer, its end included, for one picture and
        question.
        """
        import torch

        model, text = self._model, self._model.config.text_config
        question_ids = self.tokens(question)
        # [CLS] is in the place of the decoder's start token; [SEP] is the end.
        answer_ids = [self.tokens(answer)[1:] for answer in answers]
        longest = max(map(len, answer_ids), default=0)
        padded = [ids + [text.pad_token_id] * (longest - len(ids)) for ids in answer_ids]
        if not padded:
            return []
        with torch.inference_mode():
            ids = torch.tensor([question_ids], device=encoding.device)
            states = question_states(model, encoding[None], ids)
            tokens = torch.tensor(padded, device=encoding.device)
            first = torch.full_like(tokens[:, :1], text.bos_token_id)
            count = len(padded)
            logits = model.text_decoder(
                input_ids=torch.cat([first, tokens[:, :-1]], dim=1),
                encoder_hidden_states=states.expand(count, -1, -1),
                encoder_attention_mask=torch.ones_like(ids).expand(count, -1),
            ).logits
        likely = logits.float().log_softmax(dim=-1).gather(2, tokens[:, :, None])[:, :, 0]
        lengths = torch.tensor([len(answer) for answer in answer_ids], device=likely.device)
        counted = torch.arange(longest, device=likely.device)[None] < lengths[:, None]
        return [float(value) for value in (likely * counted).sum(dim=1)]

    def _ask(
        self, encodings: Sequence[Any], questions: Sequence[str], max_new_tokens: int
    ) -> list[tuple[str, float]]:
        pairs = self._pairs(encodings, [self.tokens(question) for question in questions])

        def forward(batch: Sequence[tuple[Any, list[int]]]) -> list[tuple[str, float]]:
            pictures, questions = zip(*batch, strict=True)
            return self._generate(pictures, questions, max_new_tokens)

        return in_equal_groups(pairs, lambda pair: len(pair[1]), self._batch_size, forward)

    def _generate(
        self,
        encodings: Sequence[Any],
        tokens: Sequence[Sequence[int]],
        max_new_tokens: int,
        before: Tensor | None = None,
    ) -> list[tuple[str, float]]:
        """Return greedy answers to questions of one length, because BLIP's decoder would attend to
        padding.

        ``before`` ``[B, N, W]`` comes before the states of the questions.
        """
        import torch

        model, text = self._model, self._model.config.text_config
        with torch.inference_mode():
            images = torch.stack(list(encodings))
            ids = torch.tensor(tokens, device=images.device)
            question = question_states(model, images, ids)
            if before is not None:
                question = torch.cat([before.to(question.dtype), question], dim=1)
            output = model.text_decoder.generate(
                input_ids=torch.full((len(ids), 1), text.bos_token_id, device=images.device),
                eos_token_id=text.sep_token_id,
                pad_token_id=text.pad_token_id,
                encoder_hidden_states=question,
                encoder_attention_mask=ids.new_ones(question.shape[:2]),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                num_beams=1,
                output_logits=True,
                return_dict_in_generate=True,
            )
        return self._replies(output.sequences[:, 1:], output.logits, [text.sep_token_id])
