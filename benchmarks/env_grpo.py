"""Train a policy of 3 million parameters by TRL's GRPO in the environment of `viper.env`.

    .venv-bridges/trl/bin/python -m benchmarks.env_grpo [--level 1] [--minutes 10] [--tasks 300]

`make test-bridges BRIDGE=trl` makes that interpreter. A small Qwen2 with random weights first
imitates `--shown` episodes, of which half call the tools in the canonical program and half only
guess. `GRPOTrainer(environment_factory=…)` then trains it on endless other tasks of the split
train, with tools that make no mistake. What it can learn from the reward is to look instead of
guessing. Both policies answer the same tasks of the split val, greedily. Prints the reward and the
share of right answers before and after, their difference with a 95 % interval, and the minutes.

Claimed: the interval of the gain lies above 0, and all of it takes at most 20 minutes. Exit status
1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import parse_response

from viper.env.episode import Episode, RewardWeights, Rules
from viper.env.tasks import EnvTask, Tasks
from viper.env.trl import CodeEnvironment
from viper.evaluate.intervals import Estimate, paired
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.world.everyday.programs import program_of

START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
TEMPLATE = (
    "{%- for message in messages %}"
    "{{- '<|im_start|>' + message.role + '\n' }}"
    "{{- message.content if message.content else '' }}"
    "{%- for call in message.tool_calls or [] %}"
    "{{- '<tool_call>' + call.function.name }}"
    "{%- for name, value in call.function.arguments.items() %}"
    "{{- ' ' + name + '\n' + value }}"
    "{%- endfor %}"
    "{{- '</tool_call>' }}"
    "{%- endfor %}"
    "{{- '<|im_end|>\n' }}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"
)
"""A conversation without the description of the tool: the policy has only one."""

RESPONSE = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<|im_start|>assistant\n",
    "fields": {
        "tool_calls": {
            "open": "<tool_call>run_code code\n",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "text",
            "transform": {
                "type": "function",
                "function": {"name": "run_code", "arguments": {"code": "{content}"}},
            },
        },
        "content": {"close_pattern": r"<\|im_end\|>\s*", "content": "text"},
    },
}
"""How a reply is read; see `PreTrainedTokenizerBase.parse_response`."""

GUESSES = ("'yes'", "'no'", "'1'", "'2'", "'red'", "image_patch")

VOCABULARY = 1_200
LONGEST = 100
"""Tokens of a reply."""

BATCH = 32


def messages_of(task: EnvTask, code: str) -> list[dict[str, Any]]:
    """Return an episode of one action."""
    call = {"type": "function", "function": {"name": "run_code", "arguments": {"code": code}}}
    return [
        {"role": "user", "content": opening(task)},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "run_code", "content": "'yes'"},
        {"role": "assistant", "content": ""},
    ]


def right_action(task: EnvTask) -> str:
    """Return the action that the canonical program of a task makes."""
    return action_of(program_of(task.sample.load.ask))  # type: ignore[attr-defined]


def action_of(program: str) -> str:
    """Return the body of a program as an action; a program with several ends stays as it is."""
    if program.count("return ") > 1:
        return program
    lines = textwrap.dedent("\n".join(program.split("\n")[2:]))
    return re.sub(r"^return ", "final_answer = ", lines, flags=re.MULTILINE)


def code_of(message: Mapping[str, Any]) -> str:
    """Return the code of a message; "" without a call."""
    return "".join(call["function"]["arguments"]["code"] for call in message.get("tool_calls", ()))


def opening(task: EnvTask) -> str:
    """Return what the environment says first under `RULES`."""
    return f"Query: {task.sample.text}\n"


def new_tokenizer(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    """Return a byte-pair tokenizer of these texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, START, END, "<tool_call>", "</tool_call>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END)
    fast.add_special_tokens({"additional_special_tokens": [START, "<tool_call>", "</tool_call>"]})
    fast.chat_template, fast.response_template = TEMPLATE, RESPONSE
    fast.padding_side = "left"
    return fast


def new_policy(tokenizer: PreTrainedTokenizerFast) -> Qwen2ForCausalLM:
    """Return a policy of 3 million parameters with random weights."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=640,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=1_024,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def imitate(
    policy: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    shown: Sequence[list[dict[str, Any]]],
    epochs: int,
) -> None:
    """Train the policy on the replies of the episodes shown."""
    pairs = []
    for messages in shown:
        prompt = tokenizer.apply_chat_template(
            messages[:1], add_generation_prompt=True, return_dict=False
        )
        whole = tokenizer.apply_chat_template(messages, return_dict=False)
        pairs.append((prompt, whole))
    optimiser = torch.optim.AdamW(policy.parameters(), lr=2e-3, weight_decay=0.05)
    steps = epochs * (len(pairs) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    policy.train()
    for _ in range(epochs):
        for batch in batches(pairs):
            width = max(len(whole) for _, whole in batch)
            ids = torch.full((len(batch), width), tokenizer.pad_token_id)
            labels = torch.full((len(batch), width), -100)
            for row, (prompt, whole) in enumerate(batch):
                ids[row, : len(whole)] = torch.tensor(whole)
                labels[row, len(prompt) : len(whole)] = torch.tensor(whole[len(prompt) :])
            loss = policy(
                input_ids=ids, attention_mask=ids != tokenizer.pad_token_id, labels=labels
            ).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()


def batches(pairs: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the pairs in random order, in full batches."""
    order = random.sample(range(len(pairs)), len(pairs))
    for first in range(0, len(pairs) - BATCH + 1, BATCH):
        yield [pairs[index] for index in order[first : first + BATCH]]


@torch.no_grad()
def rewards_of(
    policy: Qwen2ForCausalLM,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Sequence[EnvTask],
    reasoner: Reasoner,
    rules: Rules,
) -> tuple[list[float], list[float]]:
    """Return the reward and the score of the policy's greedy action on each task."""
    policy.eval()
    rewards, scores = [], []
    for first in range(0, len(tasks), BATCH):
        some = tasks[first : first + BATCH]
        prompts = [[{"role": "user", "content": opening(task)}] for task in some]
        inputs = tokenizer.apply_chat_template(
            prompts, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        )
        outputs = policy.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            max_new_tokens=LONGEST,
            do_sample=False,
        )
        for task, ids, prompt in zip(some, outputs, inputs["input_ids"], strict=True):
            reply = ids[len(prompt) :].tolist()
            parsed = parse_response(tokenizer, reply, prefix=prompt.tolist())
            episode = Episode(task, reasoner, rules)
            assert episode.reset().text == opening(task)
            for call in parsed.get("tool_calls") or []:
                if call["function"]["name"] == "run_code":
                    episode.act(str(call["function"]["arguments"].get("code", "")))
            reward = episode.reward()
            rewards.append(reward.total)
            scores.append(reward.parts["answer"])
            episode.close()
    return rewards, scores


class Clock(TrainerCallback):
    """Stops training after some minutes and prints the mean reward meanwhile."""

    def __init__(self, minutes: float) -> None:
        self._end = time.monotonic() + 60 * minutes

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_training_stop = time.monotonic() > self._end

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if logs and "reward" in logs:
            print(f"step {state.global_step}: reward {float(logs['reward']):.3f}", flush=True)


def percent(estimate: Estimate) -> str:
    """Return an estimate in per cent with its interval."""
    low, high = 100 * estimate.low, 100 * estimate.high
    return f"{100 * estimate.value:+.1f} [{low:+.1f}, {high:+.1f}]"


def main() -> int:
    """Run the benchmark and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--level", type=int, default=1, help="level of the tasks")
    parser.add_argument("--minutes", type=float, default=10, help="time of GRPO")
    parser.add_argument("--tasks", type=int, default=300, help="tasks to judge by")
    parser.add_argument("--shown", type=int, default=2_000, help="episodes shown before")
    parser.add_argument("--epochs", type=int, default=6, help="times that each is shown")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"
    started = time.monotonic()
    torch.manual_seed(options.seed)
    random.seed(options.seed)
    train = Tasks("world-everyday", split=f"train:{options.level}", seed=options.seed)
    val = Tasks("world-everyday", split=f"val:{options.level}", seed=options.seed)
    rules = Rules(turns=1, exact=True, instructions=0, weights=RewardWeights(answer=1.0, kind=0.1))
    shown = []
    for number in range(options.shown):
        task, guess = train[number], f"final_answer = {random.choice(GUESSES)}"
        shown.append(messages_of(task, guess if number % 2 else right_action(task)))
    tokenizer = new_tokenizer(
        [f"{message['content']}\n{code_of(message)}" for each in shown for message in each]
    )
    policy = new_policy(tokenizer)
    imitate(policy, tokenizer, shown, options.epochs)
    judged = [val[number] for number in range(options.tasks)]
    with Reasoner(load_profile("embedded"), preload=False) as reasoner:
        before = rewards_of(policy, tokenizer, judged, reasoner, rules)
        print(f"{policy.num_parameters() / 1e6:.2f} M parameters, {options.shown} episodes shown, "
              f"{(time.monotonic() - started) / 60:.1f} minutes", flush=True)  # fmt: skip
        print(
            f"before: reward {fmean(before[0]):.3f}, right {100 * fmean(before[1]):.1f} %",
            flush=True,
        )
        with tempfile.TemporaryDirectory() as folder:
            config = GRPOConfig(
                folder,
                per_device_train_batch_size=64,
                num_generations=8,
                max_completion_length=LONGEST + 30,
                max_tool_calling_iterations=1,
                learning_rate=1e-4,
                lr_scheduler_type="constant",
                temperature=1.0,
                beta=0.0,
                max_steps=100_000,
                logging_steps=10,
                save_strategy="no",
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                seed=options.seed,
                bf16=False,
            )
            trainer = GRPOTrainer(
                policy,
                args=config,
                train_dataset=Dataset.from_dict(
                    {"task": list(range(options.shown, options.shown + 20_000))}
                ),
                processing_class=tokenizer,
                environment_factory=partial(CodeEnvironment, train, reasoner, rules),
                callbacks=[Clock(options.minutes)],
            )
            trainer.train()
        after = rewards_of(policy, tokenizer, judged, reasoner, rules)
    minutes = (time.monotonic() - started) / 60
    gain = paired(before[1], after[1]).difference
    print(
        f"after {trainer.state.global_step} steps: right {100 * sum(after[1]) / len(judged):.1f} %"
    )
    print(f"gain in right answers: {percent(gain)} points, n = {len(judged)}")
    print(f"gain in reward: {percent(paired(before[0], after[0]).difference)} of 100")
    print(f"{minutes:.1f} minutes")
    return 0 if gain.low > 0 and minutes <= 20 else 1


if __name__ == "__main__":
    sys.exit(main())
