from viper.models.llm.scripted import ScriptedLLM
from viper_lab.recipes.writer_score import (
    CONDITIONS,
    Condition,
    draw_trials,
    evaluate,
    identifiers,
    same_program,
    score_condition,
    score_selection,
    string_literals,
)


def test_same_program_ignores_comments_and_layout_only() -> None:
    one = "def f(x):\n    # find: g\n    return g('a')"
    assert same_program(one, 'def f(x):\n    return g("a")')
    assert not same_program(one, "def f(x):\n    return g('b')")
    assert not same_program("def f(:", "def f(:")


def test_names_and_strings_of_a_program() -> None:
    program = "def f(x):\n    y = x.find('red dax')\n    return zorp(y, ' wug')"
    assert string_literals(program) == {"red dax", "wug"}
    assert identifiers(program)["find"] == identifiers(program)["zorp"] == 1
    assert string_literals("def f(") == set()


def test_trials_hold_the_invented_words_they_are_scored_on() -> None:
    nouns = [t for t in draw_trials(CONDITIONS["unseen_nouns"], 20, 0) if t.nouns]
    assert nouns
    assert all(noun.split()[-1] in t.prompt for t in nouns for noun in t.nouns)
    for trial in draw_trials(CONDITIONS["names_in_api_text"], 20, 0):
        assert trial.names
        assert all(f": {name}(" in trial.prompt for name in trial.names)
        assert trial.prompt.count("def execute_command") == 0
    for trial in draw_trials(CONDITIONS["names_in_examples"], 5, 0):
        shown = trial.prompt.partition("# task: ")[2]
        assert trial.prompt.count("def execute_command") == 4
        assert all(f"{name}(" in shown for name in trial.names)


def test_a_perfect_writer_scores_one_and_a_silent_one_zero() -> None:
    condition = Condition(made_up_names=True, made_up_nouns=True)
    answers = {t.prompt: t.program for t in draw_trials(condition, 8, 1)}
    perfect = score_condition(ScriptedLLM(answers.get), condition, 8, 1)
    assert perfect == {"exact": 1.0, "nouns": 1.0, "names": 1.0}
    silent = score_condition(ScriptedLLM(lambda prompt: ""), condition, 8, 1)
    assert silent == {"exact": 0.0, "nouns": 0.0, "names": 0.0}


def test_evaluate_reports_each_condition_and_selection() -> None:
    lines: list[str] = []
    llm = ScriptedLLM(lambda prompt: "")
    conditions = {"programs": Condition()}
    found = evaluate(llm, queries=2, seeds=(0,), conditions=conditions, report=lines.append)
    assert {"programs", "programs/exact", "programs/spread", "selection"} <= set(found)
    assert len(lines) == 2


def test_selection_takes_the_likeliest_option() -> None:
    class Copier(ScriptedLLM):
        def score(self, prompt: str, continuations: list[str]) -> list[float]:  # type: ignore[override]
            info = prompt.split("\n")[0]
            return [float(text.strip() in info) for text in continuations]

    assert score_selection(Copier(), 30, 0) > 0.9
