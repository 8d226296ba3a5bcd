"""Table 10 of DWIM (2025) and its sections 9, 11 and 14: agents tuned on their own workflows.

For each seed: workflows of training questions in three manners; agents tuned on them, one for each
row of the table; each of them, and the agent that was not tuned, answers questions that nobody has
met. Everything is kept in a folder as it comes: what is there is not done again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from viper.errors import UsageError
from viper.evaluate.awareness import CAUSES, Awareness, ToolsOf, awareness
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.intervals import over_seeds, paired
from viper.evaluate.runs.files import write_whole
from viper.evaluate.workflows import Making, make_workflows
from viper.llm.gathered import BATCH, GatheredLLM
from viper.llm.transformers_llm import TransformersLLM
from viper.reasoner import Reasoner, RunOptions
from viper.reproduce.result import Entry, Gain
from viper.sandbox import Sandbox
from viper.strategies.base import Components
from viper.tuning.agent.masking import masked
from viper.tuning.agent.training import Tuned, TuneSettings, tune
from viper.tuning.agent.workflow import MANNERS, Workflow

ANSWERS = "answers in percent"


@dataclass(frozen=True)
class Agent:
    """A row of the table: what the agent was tuned on.

    Attributes:
        manner: of the workflows; "" for the agent as it came.
        variant: as :func:`viper.tuning.agent.masking.masked` takes it.
    """

    name: str
    manner: str = ""
    variant: str = ""


UNTUNED = Agent("not tuned")
MASKED = Agent("discrepancy-aware, instruct-masking", "discrepancy", "masking")
SFT = Agent("discrepancy-aware, SFT", "discrepancy", "sft")
RANDOM = Agent("discrepancy-aware, random masking", "discrepancy", "random")
RETHINK = Agent("discrepancy-aware, masking with rethink", "discrepancy", "rethink")
OTHERS = (
    Agent("standard, SFT", "standard", "sft"),
    Agent("standard, instruct-masking", "standard", "masking"),
    Agent("given answer, SFT", "given", "sft"),
    Agent("given answer, instruct-masking", "given", "masking"),
)

TEMPERATURE = 1.0
"""Of all agents: at 0 one without a preference would go the way that noise prefers, always."""

STUDY = "study.json"
"""Of the folder: what is studied."""

TABLE = "table 10"
CALLS_OF_TOOLS = "section 11: calls of tools by type of question"
RIGHT_OF_TOOLS = "section 11: answers from tools that were right"
AGENTS = (UNTUNED, *OTHERS, SFT, RANDOM, RETHINK, MASKED)
QUICK_AGENTS = (UNTUNED, SFT, MASKED)


@dataclass(frozen=True)
class Scale:
    """How much.

    Attributes:
        workflows: training samples, of each seed and manner.
        samples: answered by each agent, of each seed.
        settings: of every tuning; the seed is replaced by each seed.
    """

    workflows: int
    samples: int
    seeds: tuple[int, ...]
    settings: TuneSettings


@dataclass(frozen=True)
class Asked:
    """Which samples.

    Attributes:
        train: split that workflows are made of.
        test: split that is answered.
    """

    set_name: str = "world"
    root: Path | None = None
    train: str = "train:question"
    test: str = "val:question"


@dataclass
class Academy:
    """Makes, tunes and asks; all of it in one folder.

    Attributes:
        components: wired by the profile; their explorer is the agent that is not tuned.
        tuned: what that agent is, for tuning; and the style of its prompts.
        say: told what goes on.
    """

    components: Components
    tuned: Tuned
    style: str
    folder: Path
    asked: Asked
    scale: Scale
    workers: int = 8
    say: Callable[[str], None] = lambda text: None
    _known: dict[tuple[str, int], list[Workflow]] = field(default_factory=dict)

    def begin(self) -> None:
        """Notes in the folder what is studied.

        Raises:
            UsageError: it holds another study.
        """
        what = {
            "set": self.asked.set_name,
            "root": str(self.asked.root.resolve()) if self.asked.root else None,
            "splits": [self.asked.train, self.asked.test],
            "workflows": self.scale.workflows,
            "samples": self.scale.samples,
            "tuning": asdict(self.scale.settings),
            "agent": (self.components.explorer or self.components.llm).model_id,
            "style": self.style,
            "api": self.components.settings.api,
        }
        file = self.folder / STUDY
        if not file.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            write_whole(file, json.dumps(what, indent=2) + "\n")
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

    def made(self, seed: int, manner: str) -> list[Workflow]:
        """The workflows of a seed in a manner."""
        if (manner, seed) not in self._known:
            where = self.folder / f"seed-{seed}" / "made"
            self._known[manner, seed] = self._explored(
                self.components,
                self.asked.train,
                seed,
                manner,
                where,
                self.scale.workflows,
                f"seed {seed}, {manner} workflows",
            )
        return self._known[manner, seed]

    def answers(self, agent: Agent, seed: int) -> list[Workflow]:
        """What an agent makes of the samples of a seed; tunes it first where it is not tuned."""
        if (agent.name, seed) not in self._known:
            name = agent.name.replace(", ", "-").replace(" ", "-")
            where = self.folder / f"seed-{seed}" / name
            components = self.components
            if agent.manner:
                components = replace(components, explorer=self._tuned(agent, seed, where))
            self._known[agent.name, seed] = self._explored(
                components,
                self.asked.test,
                seed,
                "standard",
                where,
                self.scale.samples,
                f"seed {seed}, {agent.name}",
            )
        return self._known[agent.name, seed]

    def _explored(
        self,
        components: Components,
        split: str,
        seed: int,
        manner: str,
        where: Path,
        count: int,
        named: str,
    ) -> list[Workflow]:
        from viper.data.sample import Where

        evaluation = Evaluation(
            self.asked.set_name, Where(self.asked.root, split, seed), limit=count
        )
        making = Making(
            self.asked.set_name,
            manner,
            RunOptions(strategy="explore", temperature=TEMPERATURE),
            seed,
        )
        done = 0

        def tell(workflow: Workflow) -> None:
            nonlocal done
            done += 1
            if done % 20 == 0:
                self.say(f"{named}: {done} of at most {count}")

        return make_workflows(
            Reasoner(components, preload=False),
            evaluation.samples(),
            making,
            where,
            workers=self.workers,
            on_made=tell,
        )

    def _tuned(self, agent: Agent, seed: int, where: Path) -> GatheredLLM:
        model = where / "model"
        if not model.is_dir():
            found = [one for one in self.made(seed, agent.manner) if one.outcome == "right"]
            library = self.components.library.api_set(self.components.settings.api)
            texts = [
                text
                for one in found
                for text in masked(
                    one,
                    library.entries(one.query.task),
                    style=self.style,
                    variant=agent.variant,
                    seed=seed,
                )
            ]
            settings = replace(self.scale.settings, seed=seed)
            self.say(f"seed {seed}, {agent.name}: tuning on {len(texts)} actions")

            def tell(step: int, loss: float) -> None:
                if step % 50 == 0:
                    self.say(f"seed {seed}, {agent.name}: step {step} of {settings.steps}")

            tune(self.tuned, texts, settings, model, where / "work", tell)
        load = self.tuned.load
        llm = TransformersLLM(
            self.tuned.model,
            template=self.tuned.template,
            adapter=model if self.scale.settings.rank else None,
            device=load.device,
            dtype=load.dtype,
            local_only=load.local_only,
        )
        return GatheredLLM(llm, BATCH)


def utilisation_rows(academy: Academy, manners: Sequence[str] = MANNERS) -> Iterator[Entry]:
    """Data utilisation by manner; of given answers the copied part beside."""
    for manner in manners:
        by_seed = [academy.made(seed, manner) for seed in academy.scale.seeds]
        shares = [_share(made, "right") for made in by_seed]
        copied = over_seeds([_share(made, "copied") for made in by_seed])
        note = f"{100 * copied.mean:.1f} % more copied the answer" if copied.mean else ""
        count = sum(map(len, by_seed))
        yield Entry("data utilisation", manner, "all", over_seeds(shares), count, note)


def utilisation_gain(academy: Academy, before: str = "standard") -> Gain:
    """The discrepancy-aware manner beside another one, by sample."""
    pairs = [
        (old.outcome == "right", new.outcome == "right", f"{seed} {old.id}")
        for seed in academy.scale.seeds
        for old, new in zip(
            academy.made(seed, before), academy.made(seed, "discrepancy"), strict=True
        )
    ]
    return _gain("data utilisation", f"{before} -> discrepancy", pairs)


def answer_rows(academy: Academy, agents: Sequence[Agent]) -> Iterator[Entry]:
    """Right answers by agent."""
    for agent in agents:
        by_seed = [academy.answers(agent, seed) for seed in academy.scale.seeds]
        shares = [_share(each, "right", "copied") for each in by_seed]
        yield Entry(TABLE, agent.name, "all", over_seeds(shares), sum(map(len, by_seed)))


def answer_gain(academy: Academy, before: Agent, after: Agent) -> Gain:
    """One agent beside another, by sample."""
    pairs = [
        (_is_right(old), _is_right(new), f"{seed} {old.id}")
        for seed in academy.scale.seeds
        for old, new in zip(
            academy.answers(before, seed), academy.answers(after, seed), strict=True
        )
    ]
    return _gain(TABLE, f"{before.name} -> {after.name}", pairs)


def aware(academy: Academy, agent: Agent, tools_of: ToolsOf | None, sandbox: Sandbox) -> Awareness:
    """Section 11's figures of an agent, over all seeds."""
    answered = [one for seed in academy.scale.seeds for one in academy.answers(agent, seed)]
    return awareness(answered, tools_of, sandbox)


def awareness_rows(found: dict[str, Awareness]) -> Iterator[Entry]:
    """Sections 11 and 14: what a question costs, and why answers are wrong."""
    for name, one in found.items():
        for family, figure in (
            ("calls of tools", one.calls.value),
            ("turns", one.turns.value),
            ("tokens", one.tokens.value),
            ("seconds", one.seconds.value),
        ):
            yield Entry("sections 11 and 14: of a question", name, family,
                        over_seeds([figure]), one.samples, unit="a question")  # fmt: skip
        for cause in CAUSES if "not told" in one.causes else CAUSES[:-1]:
            if "not told" in one.causes and cause in ("wrong tool", "wrong logic"):
                continue
            yield Entry("section 11: wrong answers by cause", name, cause,
                        over_seeds([one.share_of(cause)]), one.samples)  # fmt: skip


def tool_rows(before: Awareness, after: Awareness) -> Iterator[Entry]:
    """Section 11 by tool and type of question, of the agent as it came and of the tuned one."""
    for family, found in (("not tuned", before), ("tuned", after)):
        for one in found.tools:
            name = f"{one.tool}: {one.kind}" if one.kind else one.tool
            calls = over_seeds([one.calls / max(1, found.samples)])
            yield Entry(CALLS_OF_TOOLS, name, family, calls, found.samples, unit="a question")
    for family, found in (("not tuned", before), ("tuned", after)):
        for one in found.tools:
            if one.answers:
                name = f"{one.tool}: {one.kind}" if one.kind else one.tool
                right = over_seeds([one.right.value])
                yield Entry(RIGHT_OF_TOOLS, name, family, right, one.answers)


def _share(made: Sequence[Workflow], *outcomes: str) -> float:
    return sum(one.outcome in outcomes for one in made) / max(1, len(made))


def _is_right(one: Workflow) -> bool:
    return one.outcome in ("right", "copied")


def _gain(table: str, name: str, pairs: Sequence[tuple[bool, bool, str]]) -> Gain:
    found = paired(
        [float(old) for old, _, _ in pairs],
        [float(new) for _, new, _ in pairs],
        [one for _, _, one in pairs],
    )
    return Gain(table, name, "all", found.difference)
