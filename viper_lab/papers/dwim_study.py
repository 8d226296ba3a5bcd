"""What ``viper lab reproduce dwim`` has to do before it can say anything, kept as it comes.

For each seed: workflows of training questions in three modes; agents tuned on them, one for each
row of the table; each of them, and the agent that was not tuned, answers questions that nobody has
met. All of it stands in a folder: what is there is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from viper.data.sample import DatasetSpec, Sample
from viper.errors import UsageError
from viper.evaluate.evaluation import Evaluation, model_ids
from viper.models.llm.adapters import ADAPTER_CONFIG
from viper.models.llm.messages import as_text
from viper.models.llm.prompt_tokens import PromptTokens
from viper.models.llm.transformers_llm import TransformersLLM
from viper.models.llm.wrapped import BATCH, GatheredLLM
from viper.models.loading import load_processor
from viper.prompting.exploring import Step, asked, compact_opening, explore_prompt, step_text
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Query
from viper.storage.files import write_file
from viper.strategies.base import Components
from viper.strategies.explore.workflow import Workflow
from viper.strategies.prompts import names_for
from viper.strategies.settings import RunSettings
from viper.tuning.agent.masking import MaskedWorkflow, masked
from viper.tuning.agent.training import TunedAgent, TuneSettings, tune
from viper.tuning.agent.workflows import WorkflowSettings, make_workflows
from viper_lab.papers.cell_runner import slug


@dataclass(frozen=True)
class AgentVariant:
    """A row of the table: what the agent was tuned on.

    Attributes:
        mode: of the workflows; "" for the agent as it came.
        variant, rest: as :func:`viper.tuning.agent.masking.masked` takes them.
        examples: most solved queries in its prompts.
    """

    name: str
    mode: str = ""
    variant: str = ""
    rest: str = "before"
    examples: int = 0


UNTUNED = AgentVariant("not tuned")
# Source: DWIM (2025), supplement, sec. 13. Differs: the ten examples are not printed there; these
# are right workflows of the agent itself about training samples, as many as its context holds.
FROZEN = AgentVariant("not tuned, with examples", examples=10)
MASKED = AgentVariant("discrepancy-aware, instruct-masking", "discrepancy", "masking")
# Ours: at test nobody doubts, so actions are learned in contexts without what was doubted.
CUT = replace(MASKED, name=f"{MASKED.name}, doubts cut", rest="effective")

SFT = AgentVariant("discrepancy-aware, SFT", "discrepancy", "sft")
RANDOM = AgentVariant("discrepancy-aware, random masking", "discrepancy", "random")
RETHINK = AgentVariant("discrepancy-aware, masking with rethink", "discrepancy", "rethink")
OTHERS = (
    AgentVariant("standard, SFT", "standard", "sft"),
    AgentVariant("standard, instruct-masking", "standard", "masking"),
    AgentVariant("given answer, SFT", "given", "sft"),
    AgentVariant("given answer, instruct-masking", "given", "masking"),
)

# Of all agents, if the profile has 0: one without a preference between two ways would always go the
# way that noise prefers. The supplement of the paper names no temperature.
TEMPERATURE = 1.0

# Tokens, at least, behind the prompt of a workflow that is learned; behind examples, for all turns
# of a query (embedded agent: the longest of 60 workflows takes 368).
ROOM_FOR_ACTIONS, ROOM_FOR_TURNS = 128, 512

# Of the folder: what is studied.
STUDY = "study.json"

AGENTS = (UNTUNED, FROZEN, *OTHERS, SFT, RANDOM, RETHINK, CUT, MASKED)
QUICK_AGENTS = (UNTUNED, FROZEN, SFT, MASKED)


@dataclass(frozen=True)
class DwimScale:
    """How much.

    Attributes:
        workflows: training samples, of each seed and mode.
        samples: answered by each agent, of each seed.
        settings: of every tuning; each seed replaces the seed, and :func:`steps_of` the steps.
    """

    workflows: int
    samples: int
    seeds: tuple[int, ...]
    settings: TuneSettings


@dataclass(frozen=True)
class SampleSplits:
    """Which samples.

    Attributes:
        train: split that workflows are made of.
        test: split that is answered.
    """

    set_name: str = "world"
    root: Path | None = None
    train: str = "train:question"
    test: str = "test:question"


@dataclass
class DwimStudy:
    """Makes, tunes and asks; all of it in one folder.

    Attributes:
        components: wired by the profile; their explorer is the agent that is not tuned.
        tuned: what that agent is, for tuning; and the style of its prompts.
        explore: settings of all agents beside those of the profile.
        checks_by: who compares results with labels in the discrepancy-aware mode, see
            :class:`viper.tuning.agent.workflows.WorkflowSettings`.
        say: told what goes on.
    """

    components: Components
    tuned: TunedAgent
    style: str
    folder: Path
    splits: SampleSplits
    scale: DwimScale
    explore: RunOptions = RunOptions(strategy="explore", temperature=TEMPERATURE)
    checks_by: str = "rules"
    workers: int = 8
    say: Callable[[str], None] = lambda text: None
    _known: dict[tuple[str, int], list[Workflow]] = field(default_factory=dict)
    _by_split: dict[tuple[str, int], Sequence[Sample]] = field(default_factory=dict)

    def begin(self) -> None:
        """Write a description of the study into its folder.

        Raises:
            UsageError: it holds another study, what is answered is learned from, or no action fits
                behind a prompt.
        """
        self._check_apart()
        self._check_fits()
        what = {
            "set": self.splits.set_name,
            "root": str(self.splits.root.resolve()) if self.splits.root else None,
            "splits": [self.splits.train, self.splits.test],
            "workflows": self.scale.workflows,
            "samples": self.scale.samples,
            "tuning": asdict(self.scale.settings),
            "first actions": "learned equally often",
            "models": model_ids(Reasoner(self.components, preload=False)),
            "thresholds": dict(self.components.toolbox.settings.start_thresholds(self_tune=False)),
            "style": self.style,
            "api": self._settings.api,
            "temperature": self._settings.temperature,
            "checks by": self.checks_by,
        }
        file = self.folder / STUDY
        if not file.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_file(file, json.dumps(what, indent=2) + "\n")
            return
        try:
            there = json.loads(file.read_text(encoding="utf-8"))
        except ValueError:
            there = {}
        others = [name for name, value in what.items() if there.get(name) != value]
        if others:
            raise UsageError(
                f"{self.folder} holds another study ({', '.join(others)} differ); give another "
                "--out, or the options that it was begun with"
            )

    def _check_apart(self) -> None:
        """Raise if any seed would learn from samples or media that it also answers."""

        def units(split: str, count: int) -> set[str]:
            samples = [s for seed in self.scale.seeds for s in self._samples(split, seed, count)]
            return {s.cluster or s.sample_id for s in samples}

        test = self.splits.test
        training = units(self.splits.train, self.scale.workflows)
        answered = units(test, self.scale.samples)
        both = sorted(training & answered)
        if both:
            raise UsageError(
                f"{len(both)} of {len(answered)} samples of {test} would be learned from, as "
                f"{both[0]}; choose another --split or --train-split"
            )

    def _check_fits(self) -> None:
        """Raise if an action behind the first prompt is too long to be tuned on."""
        samples = self._samples(self.splits.train, self.scale.seeds[0], self.scale.workflows)
        query, most = samples[0].query, self.scale.settings.longest
        from transformers import AutoTokenizer

        tokenizer = load_processor(AutoTokenizer, self.tuned.model, self.tuned.load)
        prompts = PromptTokens(tokenizer, self.tuned.template)
        tokens = len(prompts.encode(prompts.wrapped(self._first_prompt(query))))
        if tokens + ROOM_FOR_ACTIONS > most:
            raise UsageError(
                f"a prompt takes {tokens:,} tokens before the first action, and texts of more than "
                f"{most:,} are not learned; give --longest {2 * tokens:,} or so"
            )

    @property
    def _settings(self) -> RunSettings:
        return self.explore.settings(self.components.settings)

    def _first_prompt(self, query: Query) -> str:
        names, listing = names_for(self.components, query, self._settings)
        return as_text(explore_prompt(query, names, (), (), style=self.style, listing=listing))

    def examples(self, seed: int, most: int) -> list[str]:
        """Return solved queries for the agent that is not tuned, drawn from what it solved itself.

        They are right workflows of training samples, made without the label. Those are left out
        that leave no room in the context for the turns of a query.
        """
        llm = self.components.models.get("explorer", self.components.llm)
        made, chosen = self.made(seed, "standard"), list[str]()
        right = [workflow for workflow in made if workflow.outcome == "right"]
        first = self._first_prompt(made[0].query)
        room = llm.max_context - ROOM_FOR_TURNS - llm.count_tokens(first)
        for workflow in Random(seed).sample(right, len(right)):
            text = solved_text(workflow.query, workflow.captions, workflow.steps, self.style)
            tokens = llm.count_tokens(text)
            if len(chosen) < most and tokens <= room:
                chosen.append(text)
                room -= tokens
        return chosen

    def _samples(self, split: str, seed: int, count: int) -> Sequence[Sample]:
        if (split, seed) not in self._by_split:
            spec = DatasetSpec(self.splits.root, split, seed)
            self._by_split[split, seed] = Evaluation(self.splits.set_name, spec, count).samples()
        return self._by_split[split, seed]

    def answered(self, seed: int) -> Sequence[Sample]:
        """Return the samples that every agent answers under a seed."""
        return self._samples(self.splits.test, seed, self.scale.samples)

    def made(self, seed: int, mode: str) -> list[Workflow]:
        """Return the workflows of a seed in a mode."""
        if (mode, seed) not in self._known:
            folder = self.folder / f"seed-{seed}" / "made"
            samples = self._samples(self.splits.train, seed, self.scale.workflows)
            making = WorkflowSettings(
                self.splits.set_name, mode, self.explore, seed, self.checks_by
            )
            name = f"{mode} workflows"
            self._known[mode, seed] = self._explored(self.components, samples, making, folder, name)
        return self._known[mode, seed]

    def answers(self, agent: AgentVariant, seed: int) -> list[Workflow]:
        """Return what an agent makes of the samples of a seed; tunes it first if need be."""
        if (agent.name, seed) not in self._known:
            folder = self.folder / f"seed-{seed}" / slug(agent.name)
            components = self.components
            if agent.mode:
                components = components.with_models(explorer=self._tuned(agent, seed, folder))
            shown = self.examples(seed, agent.examples) if agent.examples else ()
            making = WorkflowSettings(
                self.splits.set_name, "standard", self.explore, seed, examples="".join(shown)
            )
            workflows = self._explored(components, self.answered(seed), making, folder, agent.name)
            self._known[agent.name, seed] = workflows
        return self._known[agent.name, seed]

    def _explored(
        self,
        components: Components,
        samples: Sequence[Sample],
        making: WorkflowSettings,
        folder: Path,
        name: str,
    ) -> list[Workflow]:
        numbers = count(1)

        def tell(workflow: Workflow) -> None:
            if (done := next(numbers)) % 20 == 0:
                self.say(f"seed {making.seed}, {name}: {done} of at most {len(samples)}")

        reasoner = Reasoner(components, preload=False)
        return make_workflows(reasoner, samples, making, folder, workers=self.workers, on_made=tell)

    def _tuned(self, agent: AgentVariant, seed: int, folder: Path) -> GatheredLLM:
        model = folder / "model"
        if not model.is_dir():
            right = [w for w in self.made(seed, agent.mode) if w.outcome == "right"]
            texts_of = partial(
                masked, style=self.style, variant=agent.variant, rest=agent.rest, seed=seed
            )
            listed = partial(names_for, self.components, settings=self._settings)
            asked = ((workflow, *listed(workflow.query)) for workflow in right)
            texts = [text for w, names, form in asked for text in texts_of(w, names, listing=form)]
            steps = steps_of(self.scale.settings.steps, texts, self.style)
            settings = replace(self.scale.settings, seed=seed, steps=steps)
            name = f"seed {seed}, {agent.name}"
            self.say(f"{name}: tuning on {len(texts)} actions")

            def tell_short(left_out: int) -> None:
                self.say(f"{name}: {left_out} actions are too long")

            def tell(step: int, loss: float) -> None:
                if step % 50 == 0:
                    self.say(f"{name}: step {step} of {settings.steps}")

            work = folder / "work"
            tune(self.tuned, texts, settings, model, work, tell, left_out=tell_short)
        is_adapter = (model / ADAPTER_CONFIG).is_file()
        llm = TransformersLLM(
            self.tuned.model if is_adapter else str(model),
            template=self.tuned.template,
            adapter=model if is_adapter else None,
            **asdict(self.tuned.load),
        )
        return GatheredLLM(llm, BATCH)


# Greatest number of times that the steps of a tuning are multiplied.
MOST_STEPS = 10


def steps_of(steps: int, texts: Sequence[MaskedWorkflow], style: str) -> int:
    """Return the steps in which as many first actions are learned as by ``steps`` rows of them.

    Where a doubted first action is masked, fewer rows hold one, and an agent would learn how to
    begin from fewer updates than another one.

    Args:
        style: of the prompts; in ``compact`` all actions of a workflow are one row.
    """
    first = sum(text.is_first for text in texts)
    rows = len({text.workflow for text in texts}) if style == "compact" else len(texts)
    return round(steps * min(MOST_STEPS, rows / first)) if first else steps


def solved_text(query: Query, captions: Sequence[str], steps: Sequence[Step], style: str) -> str:
    """Return a query with all its turns, as an example in the prompts of other queries."""
    opening = compact_opening(query.text, query.options, captions)
    opening = opening if style == "compact" else f"Solved before. {asked(query, captions)}"
    return f"{opening}{''.join(map(step_text, steps))}\n"
