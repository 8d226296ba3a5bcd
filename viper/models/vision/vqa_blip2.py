"""Visual question answering and captions by a BLIP-2 model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from viper.errors import ProfileError
from viper.models.loading import in_batches
from viper.models.vision.vqa_blip import ANSWER_TOKENS, CAPTION_TOKENS, PictureAnswerer

if TYPE_CHECKING:
    from torch import Tensor

# Question to a decoder (OPT).
DECODER_PROMPT = "Question: {} Answer:"

# Question to an encoder-decoder (Flan-T5).
ENCODER_DECODER_PROMPT = "Question: {} Short answer:"

# Prompt that BLIP-2 continues with a caption.
CAPTION_PROMPT = "a photo of"


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
        self._end_ids = _end_ids(self._model, self._tokenizer)

    def _look(self, pixels: Tensor) -> Tensor:
        features = self._model.get_image_features(pixel_values=pixels, return_dict=True)
        return features.pooler_output

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        """Return the answer to ``questions[i]`` about ``encodings[i]`` with its probability."""
        prompts = [self._question_prompt.replace("{}", question.strip()) for question in questions]
        return self._continue(encodings, prompts, ANSWER_TOKENS)

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        """Return a short description of each picture."""
        prompts = [self._caption_prompt] * len(encodings)
        return [text for text, _ in self._continue(encodings, prompts, CAPTION_TOKENS)]

    def _continue(
        self, encodings: Sequence[Any], prompts: Sequence[str], max_new_tokens: int
    ) -> list[tuple[str, float]]:
        forward = partial(self._generate, max_new_tokens=max_new_tokens)
        return in_batches(self._pairs(encodings, prompts), self._batch_size, forward)

    def _generate(
        self, pairs: Sequence[tuple[Any, str]], max_new_tokens: int
    ) -> list[tuple[str, float]]:
        """Return greedy continuations of pictures and prompts, each with its probability."""
        import torch

        language = self._model.language_model
        with torch.inference_mode():
            rows = [self._row(picture, prompt) for picture, prompt in pairs]
            # A decoder continues from the last position of a row; T5 positions are relative.
            pad = partial(torch.nn.utils.rnn.pad_sequence, batch_first=True, padding_side="left")
            mask = [torch.ones(len(row), dtype=torch.long, device=row.device) for row in rows]
            output = language.generate(
                inputs_embeds=pad(rows),
                attention_mask=pad(mask),
                eos_token_id=self._end_ids,
                pad_token_id=self._end_ids[0],
                max_new_tokens=max_new_tokens,
                do_sample=False,
                num_beams=1,
                output_logits=True,
                return_dict_in_generate=True,
            )
        ids = output.sequences[:, -len(output.logits) :]
        return self._replies(ids, output.logits, self._end_ids)

    def _row(self, picture: Any, prompt: str) -> Any:
        """Return the picture, then the prompt, as in training, ``[queries + tokens, width]``."""
        import torch

        embeddings = self._model.language_model.get_input_embeddings()
        ids = self._tokenizer(prompt)["input_ids"]
        words = embeddings(torch.tensor(ids, dtype=torch.long, device=embeddings.weight.device))
        return torch.cat([picture.to(words.device, words.dtype), words])


def _end_ids(model: Any, tokenizer: Any) -> list[int]:
    """Return every token that ends an answer, a newline token included."""
    listed: list[Any] = [tokenizer.eos_token_id]
    for config in (model.generation_config, model.language_model.generation_config):
        stated = config.eos_token_id
        listed += stated if isinstance(stated, list) else [stated]
    newline = tokenizer("\n", add_special_tokens=False)["input_ids"]
    if len(newline) == 1 and tokenizer.decode(newline) == "\n":
        listed += newline
    return list(dict.fromkeys(token for token in listed if token is not None))
