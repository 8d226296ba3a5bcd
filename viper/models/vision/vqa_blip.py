"""Visual question answering and captions by BLIP and BLIP-2 models.

``encode`` runs the vision tower once per picture (:class:`PictureAnswerer`). ``answer`` and
``caption`` turn each question into the network's prompt, feed it with the encoding to the language
model, and decode greedily; the probability of a reply is that of its tokens. BLIP also answers
under a learned prompt (:meth:`BlipAnswerer.answer_adapted`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from viper.errors import ProfileError
from viper.models.libraries import Tensor, torch
from viper.models.loading import PictureTextCheckpoint, in_batches, in_equal_groups
from viper.models.vision.adapter_vqa import SURE, BlipAdapter, question_states, vectors_of
from viper.models.vision.boxes import require_finite
from viper.models.vision.chat_vlm import reply_probabilities
from viper.models.vision.image_processing import prepared
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.soft_prompts import LearnedPrompt

# Question to which BLIP's question answering checkpoints reply with a caption.
CAPTION_QUESTION = "what is in the picture?"

# BLIP-2's prompts for a question to a decoder (OPT) and to an encoder-decoder (Flan-T5), and the
# one that it continues with a caption; for their sources see Blip2Answerer.
DECODER_PROMPT = "Question: {} Answer:"
ENCODER_DECODER_PROMPT = "Question: {} Short answer:"
CAPTION_PROMPT = "a photo of"

# Answers of VQA data sets have one to three words, which fit into 12 tokens; 48 hold a sentence. A
# model that does not end is cut there.
ANSWER_TOKENS = 12
CAPTION_TOKENS = 48


class PictureAnswerer(PictureTextCheckpoint):
    """Base of answerers that encode a picture as one tensor, and answer from it by greedy
    generation.
    """

    _caption_prompt: str

    def encode(self, images: Sequence[Pixels]) -> list[Any]:
        """Return one tensor ``[tokens, width]`` per image."""

        def forward(batch: Sequence[Pixels]) -> list[Any]:
            return self.encode_prepared([self.prepare(image) for image in batch])

        # Batch by batch, because the inputs of all images would fill memory.
        return in_batches(images, self._batch_size, forward)

    @property
    def prepare(self) -> Callable[[Pixels], Any]:
        """See :class:`~viper.models.vision.roles.PreparesPictures`."""
        return partial(prepared, self._processor)

    def encode_prepared(self, inputs: Sequence[Any]) -> list[Any]:
        """Return one tensor ``[tokens, width]`` per prepared picture."""

        def forward(batch: Sequence[Any]) -> list[Any]:
            pixels = self._fitted({"pixel_values": torch.stack(list(batch))})
            # Copies: a view would keep the whole batch in memory.
            return [row.clone() for row in self._look(pixels["pixel_values"])]

        with torch.inference_mode():
            return in_batches(inputs, self._batch_size, forward)

    def _look(self, pixels: Tensor) -> Tensor:
        """Return the encodings ``[B, tokens, width]`` of a batch of pictures."""
        raise NotImplementedError

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        """Return the answer to ``questions[i]`` about ``encodings[i]`` with its probability."""
        prompts = [self._prompt(question) for question in questions]
        return self._ask(zip(encodings, prompts, strict=True), ANSWER_TOKENS)

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        """Return a short description of each picture."""
        pairs = ((encoding, self._caption_prompt) for encoding in encodings)
        return [text for text, _ in self._ask(pairs, CAPTION_TOKENS)]

    def _prompt(self, question: str) -> str:
        """Return the text that the language model reads for a question."""
        return question

    def _ask(self, pairs: Iterable[tuple[Any, str]], limit: int) -> list[tuple[str, float]]:
        """Return the replies to pairs of an encoding and a prompt, each with its probability."""
        raise NotImplementedError

    def _replies(
        self, language_model: Any, end_ids: Sequence[int], pad_id: int, limit: int, **inputs: Any
    ) -> list[tuple[str, float]]:
        """Return what a language model writes greedily, each text with its probability.

        Raises:
            ModelError: a probability is not finite.
        """
        output = language_model.generate(
            **inputs,
            eos_token_id=list(end_ids),
            pad_token_id=pad_id,
            max_new_tokens=limit,
            do_sample=False,
            num_beams=1,
            output_logits=True,
            return_dict_in_generate=True,
        )
        ids = output.sequences[:, -len(output.logits) :]
        log_probabilities = torch.stack(list(output.logits), dim=1).float().log_softmax(dim=-1)
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
        self._caption_prompt = caption_question

    def _look(self, pixels: Tensor) -> Tensor:
        states: Tensor = self._model.vision_model(pixel_values=pixels).last_hidden_state
        return states

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
        text, probability = self.answer([encoding], [question])[0]
        vectors = vectors_of(prompt.vectors)
        if vectors is None or probability > SURE:
            return text
        before = self.adapter.before(torch.from_numpy(vectors).to(encoding.device)[None])
        return self._generate(ANSWER_TOKENS, [(encoding, self.tokens(question))], before)[0][0]

    def score_answers(self, encoding: Any, question: str, answers: Sequence[str]) -> list[float]:
        """Return the log-likelihood of each answer, its end included, for one picture and
        question.
        """
        if not answers:
            return []
        model, text = self._model, self._model.config.text_config
        # [CLS] is in the place of the decoder's start token; [SEP] is the end.
        answer_ids = [self.tokens(answer)[1:] for answer in answers]
        count, longest = len(answers), max(map(len, answer_ids))
        padded = [ids + [text.pad_token_id] * (longest - len(ids)) for ids in answer_ids]
        with torch.inference_mode():
            ids = torch.tensor([self.tokens(question)], device=encoding.device)
            states = question_states(model, encoding[None], ids)
            tokens = torch.tensor(padded, device=encoding.device)
            first = torch.full_like(tokens[:, :1], text.bos_token_id)
            logits = model.text_decoder(
                input_ids=torch.cat([first, tokens[:, :-1]], dim=1),
                encoder_hidden_states=states.expand(count, -1, -1),
                encoder_attention_mask=torch.ones_like(ids).expand(count, -1),
            ).logits
        likely = logits.float().log_softmax(dim=-1).gather(2, tokens[:, :, None])[:, :, 0]
        lengths = torch.tensor([len(answer) for answer in answer_ids], device=likely.device)
        counted = torch.arange(longest, device=likely.device)[None] < lengths[:, None]
        return [float(value) for value in (likely * counted).sum(dim=1)]

    def _ask(self, pairs: Iterable[tuple[Any, str]], limit: int) -> list[tuple[str, float]]:
        # Questions of one length share a batch, because BLIP's decoder would attend to padding.
        tokens = [(encoding, self.tokens(question)) for encoding, question in pairs]
        forward = partial(self._generate, limit)
        return in_equal_groups(tokens, lambda pair: len(pair[1]), self._batch_size, forward)

    def _generate(
        self, limit: int, pairs: Sequence[tuple[Any, Sequence[int]]], before: Tensor | None = None
    ) -> list[tuple[str, float]]:
        """Answer questions of one length; ``before`` [B, N, W] comes before their states."""
        model, text = self._model, self._model.config.text_config
        with torch.inference_mode():
            images = torch.stack([encoding for encoding, _ in pairs])
            ids = torch.tensor([tokens for _, tokens in pairs], device=images.device)
            question = question_states(model, images, ids)
            if before is not None:
                question = torch.cat([before.to(question.dtype), question], dim=1)
            return self._replies(
                model.text_decoder,
                [text.sep_token_id],
                text.pad_token_id,
                limit,
                input_ids=torch.full((len(ids), 1), text.bos_token_id, device=images.device),
                encoder_hidden_states=question,
                encoder_attention_mask=ids.new_ones(question.shape[:2]),
            )


class Blip2Answerer(PictureAnswerer):
    """A :class:`~viper.models.vision.roles.VisualAnswerer` on ``Blip2ForConditionalGeneration``.

    An encoding is ``[queries, width]``: the outputs of the Q-Former's queries for one picture,
    projected into the language model's space. Questions cost no run of the vision tower.

    Source: Li et al. 2023, BLIP-2: a decoder (OPT) is asked "Question: {} Answer:", an
    encoder-decoder (Flan-T5) "Question: {} Short answer:", and a newline ends an answer. The
    configurations of LAVIS (``projects/blip2/eval``) confirm the second prompt for VQAv2 and GQA;
    their later one for OPT also says "Short answer". The paper's prompt for OPT and its length
    penalty are from memory.
    Differs: answers are greedy, where those configurations use 5 beams and up to 10 tokens,
    because the probability of an answer must be that of its own tokens.

    Args:
        model: the network, over a causal or an encoder-decoder language model.
        image_processor: its image processor.
        tokenizer: its language model's tokenizer.
        name: goes into traces and cache keys.
        question_prompt: text with {} in the question's place; None takes the one that suits the
            language model.
        caption_prompt: prompt that a caption continues; empty for none.
        batch_size: maximum number of pictures or questions in one forward pass.

    Raises:
        ProfileError: question_prompt does not hold {} once.
    """

    network = "transformers:Blip2ForConditionalGeneration"

    def __init__(
        self,
        *parts: Any,
        question_prompt: str | None = None,
        caption_prompt: str = CAPTION_PROMPT,
        batch_size: int = 8,
    ) -> None:
        super().__init__(*parts, batch_size=batch_size)
        if question_prompt is None:
            decodes = self._model.config.use_decoder_only_language_model
            question_prompt = DECODER_PROMPT if decodes else ENCODER_DECODER_PROMPT
        if question_prompt.count("{}") != 1:
            raise ProfileError(
                f"the option question_prompt is {question_prompt!r}; expected a text with {{}} "
                "in the place of the question"
            )
        self._question_prompt = question_prompt
        self._caption_prompt = caption_prompt
        # Every token that ends an answer, a newline token included.
        listed: list[Any] = [self._tokenizer.eos_token_id]
        for part in (self._model, self._model.language_model):
            stated = part.generation_config.eos_token_id
            listed += stated if isinstance(stated, list) else [stated]
        newline = self._tokenizer("\n", add_special_tokens=False)["input_ids"]
        if len(newline) == 1 and self._tokenizer.decode(newline) == "\n":
            listed += newline
        self._end_ids = list(dict.fromkeys(token for token in listed if token is not None))

    def _look(self, pixels: Tensor) -> Tensor:
        features = self._model.get_image_features(pixel_values=pixels, return_dict=True)
        return features.pooler_output

    def _prompt(self, question: str) -> str:
        return self._question_prompt.replace("{}", question.strip())

    def _ask(self, pairs: Iterable[tuple[Any, str]], limit: int) -> list[tuple[str, float]]:
        return in_batches(list(pairs), self._batch_size, partial(self._generate, limit))

    def _generate(self, limit: int, pairs: Sequence[tuple[Any, str]]) -> list[tuple[str, float]]:
        embeddings = self._model.language_model.get_input_embeddings()
        place, rows = embeddings.weight, []
        with torch.inference_mode():
            for picture, prompt in pairs:  # the picture, then the prompt, as in training
                ids = torch.tensor(self._tokenizer(prompt)["input_ids"], dtype=torch.long)
                words = embeddings(ids.to(place.device))
                rows.append(torch.cat([picture.to(words.device, words.dtype), words]))
            # A decoder continues from the last position of a row; T5 positions are relative.
            pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True, padding_side="left")
            mask = [torch.ones(len(row), dtype=torch.long, device=row.device) for row in rows]
            return self._replies(
                self._model.language_model,
                self._end_ids,
                self._end_ids[0],
                limit,
                inputs_embeds=pad(rows),
                attention_mask=pad(mask),
            )
