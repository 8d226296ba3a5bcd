"""Tunes a causal language model on masked actions: a low-rank adapter, or all weights.

`tune` loads the model, encodes the texts, checks that the work folder belongs to the same tuning,
trains from the last checkpoint, measures held-out actions before and after, and saves.

The training loop is ``Trainer`` of transformers, which uses accelerate for devices, precision and
checkpoints. An interrupted tuning resumes from its last checkpoint with the same batches. Of the
processes that ``torchrun`` starts (:func:`is_first`), one writes.

Source: DWIM (2025), supplement, sec. 10, for the training data; LoRA (Hu et al. 2022).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from viper.errors import UsageError
from viper.models.llm.adapters import ADAPTER_CONFIG, state_base, with_adapter
from viper.models.llm.prompt_tokens import Template
from viper.models.loading import LoadOptions, load_pretrained, load_processor
from viper.record import record_from_json
from viper.storage.files import write_file
from viper.strategies.explore.workflow import Workflow
from viper.tuning.agent.masking import IGNORED, EncodedWorkflow, Encoder, MaskedWorkflow, padded

# File in the folder of checkpoints: the tuned model and the settings.
SETTINGS = "tuning.json"

# File in the folder of checkpoints: the loss of each step.
LOSSES = "losses.jsonl"

# File in the folder of checkpoints: the loss on held-out workflows.
HELD_OUT = "held-out.json"


@dataclass(frozen=True)
class TunedAgent:
    """The model to tune.

    Attributes:
        model: folder or hub id.
        adapter: existing low-rank adapter to continue training; None trains a new adapter or the
            model itself.
        template: see :class:`viper.models.llm.transformers_llm.TransformersLLM`.
        load: options for loading the model.
    """

    model: str
    adapter: str | None = None
    template: Template = "auto"
    load: LoadOptions = LoadOptions()


@dataclass(frozen=True)
class TuneSettings:
    """Settings for tuning.

    Attributes:
        steps: number of optimiser steps.
        batch: rows per pass of a process.
        accumulate: passes per step.
        rank: rank of a new adapter's matrices; 0 tunes all weights.
        longest: most tokens of a row.
        seed: random seed for new matrices and for the order of rows.
        save_every: steps between checkpoints.
    """

    steps: int = 300
    batch: int = 16
    accumulate: int = 1
    learning_rate: float = 5e-4
    warmup: int = 10
    rank: int = 32
    longest: int = 2048
    seed: int = 0
    save_every: int = 50

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate", "longest", "save_every"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; expected 1 or more")
        if self.rank < 0 or self.learning_rate <= 0:
            raise UsageError(
                f"rank is {self.rank}, learning_rate {self.learning_rate:g}; expected 0 or more, "
                "and more than 0"
            )


def tune(
    tuned: TunedAgent,
    texts: Sequence[MaskedWorkflow],
    settings: TuneSettings,
    out: Path,
    work: Path,
    report: Callable[[int, float], None] = lambda step, loss: None,
    held_out: Sequence[MaskedWorkflow] = (),
    left_out: Callable[[int], None] = lambda count: None,
) -> Path:
    """Tune the model and save it to ``out``. Resume from a checkpoint of the same tuning in
    ``work``.

    Args:
        work: folder for checkpoints and losses.
        report: called with the loss of each step.
        held_out: actions that are not learned. Their loss before and after is stored in ``work``
            (:func:`read_held_out`).
        left_out: called with the number of texts longer than ``settings.longest``, if there are
            any.

    Returns:
        ``out``: folder of an adapter, or of a whole model if ``settings.rank`` is 0.

    Raises:
        UsageError: no text is short enough, or ``work`` holds another tuning.
        ModelError: the model cannot be loaded.
    """
    import torch
    from transformers import Trainer
    from transformers.trainer_callback import PrinterCallback, TrainerCallback

    if out.exists():
        raise UsageError(f"{out}: is there already; give another folder")
    arguments = _arguments(tuned, settings, work)
    _ = arguments.device  # chooses the GPU of this process
    model, tokenizer = _load(tuned, settings)
    encoder = Encoder(tokenizer, tuned.template, settings.longest)
    rows = encoder.encoded(texts)
    if not rows:
        raise UsageError(
            f"none of {len(texts)} actions fits into {settings.longest} tokens; set a larger bound"
        )
    if encoder.left_out:
        left_out(encoder.left_out)
    held_out_rows = encoder.encoded(held_out)
    with arguments.main_process_first(local=False):
        _check_same(work, tuned, settings, rows, held_out_rows, arguments.world_size)
        last = _last_checkpoint(work)
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0

    def collate(batch: list[dict[str, Any]]) -> dict[str, Any]:
        filled = padded([rows[item["row"]] for item in batch], pad)
        return {name: torch.tensor(values) for name, values in filled.items()}

    class Losses(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if is_first() and logs and "loss" in logs:
                with (work / LOSSES).open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps([state.global_step, logs["loss"]]) + "\n")
                report(state.global_step, float(logs["loss"]))

    trainer = Trainer(
        model=model,
        args=arguments,
        train_dataset=[{"row": number} for number in range(len(rows))],  # type: ignore[arg-type]
        data_collator=collate,
        callbacks=[Losses()],
    )
    trainer.pop_callback(PrinterCallback)
    if trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled:
        raise UsageError("a model in parts is not tuned; start processes that each hold all of it")
    figures = read_held_out(work)
    if is_first() and held_out_rows and figures is None:
        before, tokens = token_loss(trainer.model, held_out_rows, pad, settings.batch)
        figures = HeldOut(len(held_out_rows), tokens, before)
        note_held_out(work, figures)
    with warnings.catch_warnings():
        # Each save says that weights of an embedding are in the adapter; they are meant to be.
        warnings.filterwarnings("ignore", message="Setting `save_embedding_layers`")
        if last is not None and int(last.rpartition("-")[2]) >= settings.steps:
            trainer._load_from_checkpoint(last)  # ``train`` would take one more step
        else:
            trainer.train(resume_from_checkpoint=last)
        if is_first() and figures is not None:
            after, _ = token_loss(trainer.model, held_out_rows, pad, settings.batch)
            note_held_out(work, replace(figures, after=after))
        if is_first():
            _save(trainer.model, tokenizer, tuned, out)
    trainer.accelerator.end_training()
    return out


def is_first() -> bool:
    """Return whether this process is alone, or the first of those that share a tuning."""
    return os.environ.get("RANK", "0") == "0"


def losses(work: Path) -> list[tuple[int, float]]:
    """Return the loss of each step. A step repeated after a kill has its last loss."""
    file = work / LOSSES
    by_step: dict[int, float] = {}
    if file.is_file():
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                step, loss = json.loads(line)
            except ValueError:  # cut off by a kill
                continue
            by_step[int(step)] = float(loss)
    return sorted(by_step.items())


def _load(tuned: TunedAgent, settings: TuneSettings) -> tuple[Any, Any]:
    """Load the model, ready for training, and its tokenizer."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, AutoTokenizer

    torch.manual_seed(settings.seed)
    tokenizer = load_processor(AutoTokenizer, tuned.model, tuned.load)
    model = load_pretrained(AutoModelForCausalLM, tuned.model, tuned.load)
    if settings.rank == 0:
        if tuned.adapter is not None:
            raise UsageError(
                f"the model is used with the adapter {tuned.adapter}; all weights cannot be tuned "
                "beside it: set a rank above 0"
            )
        return model.train(), tokenizer
    if tuned.adapter is not None:
        return with_adapter(model, tuned.adapter, tuned.model, merged=False), tokenizer
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=2 * settings.rank,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    with warnings.catch_warnings():
        # peft asks for an attribute that transformers has renamed.
        warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
        return get_peft_model(model, config), tokenizer


def _digest(rows: Sequence[EncodedWorkflow]) -> str:
    return hashlib.sha256(repr([(row.ids, row.labels) for row in rows]).encode()).hexdigest()


def _check_same(
    work: Path,
    tuned: TunedAgent,
    settings: TuneSettings,
    rows: Sequence[EncodedWorkflow],
    held_out: Sequence[EncodedWorkflow],
    processes: int,
) -> None:
    """Raise if the folder holds another tuning. Record this tuning in a new folder."""
    description = {
        "model": tuned.model,
        "adapter": tuned.adapter,
        "settings": asdict(settings),
        "rows": len(rows),
        "sha256": _digest(rows),
        **({"held_out": _digest(held_out)} if held_out else {}),
        **({"processes": processes} if processes > 1 else {}),
    }
    file = work / SETTINGS
    if file.is_file():
        try:
            stored = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            stored = None
        if stored != description:
            raise UsageError(
                f"{work} holds checkpoints of another tuning (model, data or settings differ); "
                "give another folder, or delete that one"
            )
        return
    if next(work.glob("checkpoint-*"), None) is not None:
        raise UsageError(
            f"{work} holds checkpoints and no {SETTINGS} that tells of what; give another folder"
        )
    work.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(description, indent=2) + "\n", encoding="utf-8")


def _arguments(tuned: TunedAgent, settings: TuneSettings, work: Path) -> Any:
    from transformers import TrainingArguments

    return TrainingArguments(
        output_dir=str(work),
        max_steps=settings.steps,
        per_device_train_batch_size=settings.batch,
        gradient_accumulation_steps=settings.accumulate,
        learning_rate=settings.learning_rate,
        warmup_steps=min(settings.warmup, settings.steps),
        lr_scheduler_type="cosine",
        weight_decay=0.01,
        logging_steps=1,
        save_steps=settings.save_every,
        save_total_limit=2,
        seed=settings.seed,
        data_seed=settings.seed,
        use_cpu=tuned.load.resolved_device() == "cpu",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        label_names=["labels"],
        log_level="error",
    )


def _last_checkpoint(work: Path) -> str | None:
    from transformers.trainer_utils import get_last_checkpoint

    # A checkpoint that a kill interrupted lacks its state file, which is written last.
    for folder in sorted(work.glob("checkpoint-*")):
        if not (folder / "trainer_state.json").is_file():
            shutil.rmtree(folder)
    return get_last_checkpoint(str(work))


def _save(model: Any, tokenizer: Any, tuned: TunedAgent, out: Path) -> None:
    """Save only the adapter, or the whole model, as safetensors. The folder appears complete."""
    part = out.with_name(f"{out.name}.part")
    part.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(part, safe_serialization=True)
    if (part / ADAPTER_CONFIG).is_file():
        (part / "README.md").unlink(missing_ok=True)
        if Path(tuned.model).is_dir():
            state_base(part, Path(tuned.model))
    else:
        tokenizer.save_pretrained(part)
    part.replace(out)


@dataclass(frozen=True)
class HeldOut:
    """Mean loss per token of held-out actions, in nats.

    Attributes:
        rows: number of texts with these actions.
        tokens: number of tokens of the actions.
        before: loss before tuning.
        after: loss after tuning; None until it is finished.
    """

    rows: int
    tokens: int
    before: float
    after: float | None = None


def split(
    workflows: Sequence[Workflow], share: float, seed: int
) -> tuple[list[Workflow], list[Workflow]]:
    """Split the workflows into those to tune on and those that are held out.

    Workflows about the same media stay together, whatever their collection mode: ``share`` of all
    media, rounded down, is held out with all their queries.
    """
    units = list(dict.fromkeys(workflow.unit for workflow in workflows))
    out = set(Random(f"held out {seed}").sample(units, int(share * len(units))))
    return (
        [workflow for workflow in workflows if workflow.unit not in out],
        [workflow for workflow in workflows if workflow.unit in out],
    )


def token_loss(
    model: Any, rows: Sequence[EncodedWorkflow], pad: int, batch: int
) -> tuple[float, int]:
    """Return the mean loss of the tokens that count, and their number."""
    import torch

    device = next(model.parameters()).device
    was_training = model.training
    model.eval()
    total, tokens = 0.0, 0
    with torch.no_grad():
        for start in range(0, len(rows), batch):
            some = rows[start : start + batch]
            count = sum(label != IGNORED for row in some for label in row.labels[1:])
            filled = padded(some, pad)
            inputs = {name: torch.tensor(values, device=device) for name, values in filled.items()}
            total += float(model(**inputs).loss) * count
            tokens += count
    model.train(was_training)
    return total / max(1, tokens), tokens


def read_held_out(work: Path) -> HeldOut | None:
    """Read the held-out figures of a folder, or return None if they are missing or unreadable."""
    try:
        return record_from_json(HeldOut, json.loads((work / HELD_OUT).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def note_held_out(work: Path, figures: HeldOut) -> None:
    """Write the held-out figures in one step."""
    write_file(work / HELD_OUT, json.dumps(asdict(figures)) + "\n")
