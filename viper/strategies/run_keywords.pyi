"""The keywords of ``Reasoner.run``; written by ``python -m tests.docs.run_keywords``."""

# ruff: noqa: E501

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

class Keywords(TypedDict, total=False):
    """Keywords of a run. None keeps the profile's value; the default is that of a new profile."""

    task: str
    options: Sequence[str] | str
    sample_id: str | None
    like: Sequence[Sequence[float] | str]
    fields: Sequence[str] | str
    changes: Mapping[str, Any]
    strategy: str | None
    """Strategy that answers. Default: 'program'."""
    api: str | None
    """Functions that programs may call. Default: 'abstract+more'."""
    trials: int | None
    """Maximum number of programs to write, for each vote. Default: 3."""
    temperature: float | None
    """Temperature of the first program; 0 means greedy decoding. Default: 0.0."""
    retry_temperature: float | None
    """Minimum temperature of later votes and of later programs from scratch. Default: 0.4."""
    feedback: bool | None
    """Show the failed program and its error in the request for the next program. Default: False."""
    self_tune: bool | None
    """Lower the threshold at fault and run the same program again. Default: True."""
    tune_on_evidence: bool | None
    """Self-tune also if the program ran but its answer rests on what a threshold left out. Default: True."""
    on_misfit: str | None
    """An answer of another kind than the question asks for: ask once more and then accept it with a warning, refuse it, or accept it at once. Default: 'ask'."""
    votes: int | None
    """Answer up to N times, at most 25; the most frequent answer wins. Default: 1."""
    verify: bool | None
    """Write at least 3 programs, choose among them by their behaviour, and test the answer. Default: False."""
    checks: bool | None
    """Run the program that answered again on small changes of its input, until an answer differs; the result counts in the confidence. Default: False."""
    abstain: float | None
    """Give an answer only if the expected error of answers is at most RISK; 0 gives all. Default: 0.0."""
    examples: int | None
    """Maximum number of in-context examples in the prompt. Default: 4."""
    careful: bool | None
    """Let solved queries of this package count as examples where the bank has too few, in the style `chat`; they are not mined, so results with them are not zero-shot. Default: True."""
    retrieval: str | None
    """Choice of examples: fixed takes the first of the bank, the others the most similar. Default: 'fixed'."""
    example_order: str | None
    """Order of the examples; rising puts the best one last, next to the query. Default: 'rising'."""
    prompt_style: str | None
    """Style of the prompt; `compact` suits small program writers. Default: 'full'."""
    max_tokens: int | None
    """Maximum length of one program in tokens. Default: 512."""
    seed: int | None
    """Random seed for sampling. Default: 0."""
    reflector: str | None
    """Method by which `viper learn` finds the fault: intervention changes tool results, llm asks the language model. Default: 'intervention'."""
    usual_task: str | None
    """Task of a query without a task or options; auto reads it from words and media. Default: 'auto'."""
    list_api: bool | None
    """List the names of the API in the prompt; a writer that was trained on one API needs none. Default: True."""
    api_budget: int | None
    """Maximum number of tokens for the text of the API; a router then selects functions; 0 means no limit. Default: 0."""
    api_text: str | None
    """Text of the API in chat prompts: short, or whole with an example of each function. Default: 'short'."""
    router: str | None
    """Method by which the router ranks functions. Default: 'bm25'."""
    max_llm_calls: int | None
    """Maximum number of requests to language models for one query, those of tools included; 0 means no limit. Default: 0."""
    max_llm_tokens: int | None
    """Number of tokens for one query after which no language model gets a request; those under way may exceed it; 0 means no limit. Default: 0."""
    max_cost_usd: float | None
    """Cost of one query in US dollars after which no language model gets a request, if prices are known; those under way may exceed it; 0 means no limit. Default: 0.0."""
    max_seconds: float | None
    """Seconds for one query, from when its media are read; then the best answer so far counts, once a model at work has ended; 0 means no limit. Default: 0.0."""
    fallback: str | None
    """Source of the answer if every trial failed; such answers are marked. Default: 'none'."""
    average_box: tuple[float, ...] | None
    """Box that fallback `vipergpt` answers for task `ground`, in fractions of the image. Default: (0.0795, 0.2573, 0.7711, 0.9185)."""
    correct_demonstrations: int | None
    """plan: maximum number of correct demonstrations in the prompt. Default: 4."""
    incorrect_demonstrations: int | None
    """plan: maximum number of incorrect demonstrations, each with its critique. Default: 4."""
    graph: str | None
    """seek: transition graph: which action may follow which; every allows all actions. Default: 'avis'."""
    decisions: str | None
    """seek: decisions that the planner sees as examples: of `viper lab seek induce`, or the shipped ones, written. Default: ''."""
    worked_examples: bool | None
    """seek: show worked examples: split questions, good and bad verdicts, reasoning. --n-examples 0 shows neither these nor decisions. Default: True."""
    region_facts: bool | None
    """seek: begin with caption, text and similar pictures of the whole picture, and describe each object by all three, not by its caption alone. Default: False."""
    grounding: str | None
    """seek: accept a verdict if its words were found: exact ones, or other forms, abbreviations and number words, too; off accepts all. Default: 'tolerant'."""
    exhausted: str | None
    """seek: answer of a search that found none: unanswerable, or the language model's from memory. Default: 'unanswerable'."""
    max_steps: int | None
    """seek: maximum number of actions for one query. Default: 16."""
    without_actions: tuple[str, ...] | None
    """seek: leave out an action or a group of actions (seeing, object, search, llm). Default: ()."""
    max_turns: int | None
    """explore: maximum number of turns for one query; then the best answer so far counts. Default: 12."""
    max_pictures: int | None
    """look: maximum number of pictures that code may show. Default: 24."""
    keep_pictures: int | None
    """look: number of shown pictures that stay in the conversation, the newest ones. Default: 6."""
    picture_pixels: int | None
    """look: maximum number of pixels of a shown picture; larger ones are scaled down. Default: 1003520."""
