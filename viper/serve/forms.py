"""The fields of the requests, checked; also what the OpenAPI document says of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.datastructures import FormData, UploadFile

from viper.errors import UsageError
from viper.reasoner import MAX_QUERY_CHARACTERS, RunOptions
from viper.schema import MAX_VOTES, Task
from viper.serve.settings import ServeSettings
from viper.serve.uploads import Intake, under_roots

MAX_SEED = 2**31 - 1
MAX_BOUND = 2**31 - 1
MAX_OPTIONS = 64
MAX_EXAMPLES = 1_000
MAX_PROGRAM_CHARACTERS = 64 * 1024

_REPEATABLE = frozenset({"options", "path"})

Option = Annotated[str, Field(min_length=1, max_length=500)]
RootPath = Annotated[str, Field(min_length=1, max_length=1000)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str
    task: Task = Field("auto", description="What must come out.")
    options: list[Option] = Field(
        [], max_length=MAX_OPTIONS, description="Candidate answers, one a field."
    )
    path: list[RootPath] = Field(
        [], description="Files under a media root of the server, in place of uploads."
    )


class RunForm(_Form):
    """Fields of ``POST /v1/run``, files left out."""

    query: str = Field(
        min_length=1,
        max_length=MAX_QUERY_CHARACTERS,
        pattern=r"\S",
        description="The question, or what to find.",
    )
    api: str | None = Field(None, max_length=200, description="Names listed in the prompt.")
    strategy: str = Field("program", max_length=50, description="How to go about it.")
    trials: int | None = Field(None, ge=1, le=50, description="Programs written at most.")
    temperature: float | None = Field(
        None, ge=0, le=2, allow_inf_nan=False, description="Of the first program."
    )
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="Of sampling.")
    feedback: bool | None = Field(
        None, description="Show the failed program and its error when asking for another."
    )
    self_tune: bool | None = Field(
        None, description="Lower a threshold that is to blame and run the same program again."
    )
    votes: int | None = Field(
        None, ge=1, le=MAX_VOTES, description="Answer so often at most; the commonest counts."
    )
    examples: int | None = Field(
        None, ge=0, le=MAX_EXAMPLES, description="In-context examples shown at most."
    )
    retrieval: Literal["fixed", "bm25", "embeddings"] | None = Field(
        None, description="Examples: the bank's first, or those most like the query."
    )
    example_order: Literal["rising", "falling"] | None = Field(
        None, description="rising: the best example stands last, next to the query."
    )
    max_llm_calls: int | None = Field(
        None, ge=1, le=MAX_BOUND, description="Requests to the program writer at most."
    )
    max_llm_tokens: int | None = Field(
        None, ge=1, le=MAX_BOUND, description="Its tokens, after which it is asked no more."
    )
    max_steps: int | None = Field(
        None, ge=1, le=1_000, description="Actions of strategy seek at most."
    )
    max_turns: int | None = Field(
        None, ge=1, le=1_000, description="Turns of strategy explore at most."
    )
    max_seconds: float | None = Field(
        None, gt=0, le=86_400, description="After which strategy explore takes no further turn."
    )
    fallback: Literal["none", "vipergpt"] | None = Field(
        None, description="What answers when every trial failed."
    )

    def run_options(self) -> RunOptions:
        """As the Reasoner takes them."""
        return RunOptions(
            task=self.task,
            options=tuple(self.options),
            api=self.api,
            strategy=self.strategy,
            trials=self.trials,
            temperature=self.temperature,
            seed=self.seed,
            feedback=self.feedback,
            self_tune=self.self_tune,
            votes=self.votes,
            examples=self.examples,
            retrieval=self.retrieval,
            example_order=self.example_order,
            max_llm_calls=self.max_llm_calls,
            max_llm_tokens=self.max_llm_tokens,
            max_steps=self.max_steps,
            max_turns=self.max_turns,
            max_seconds=self.max_seconds,
            fallback=self.fallback,
        )


class ExecForm(_Form):
    """Fields of ``POST /v1/exec``, files left out."""

    program: str = Field(
        min_length=1, max_length=MAX_PROGRAM_CHARACTERS, description="Python against the API."
    )
    query: str = Field(
        "", max_length=MAX_QUERY_CHARACTERS, description="What the program gets as its question."
    )

    def run_options(self) -> RunOptions:
        """As the Reasoner takes them."""
        return RunOptions(task=self.task, options=tuple(self.options))


Form = TypeVar("Form", bound=_Form)


def checked_form(model: type[Form], form: FormData) -> Form:
    """The text fields of a form.

    Raises:
        UsageError: a field is missing, unknown, out of range, or there twice.
    """
    values: dict[str, Any] = {}
    for name, value in form.multi_items():
        if name == "media":
            continue
        if isinstance(value, UploadFile):
            raise UsageError(f"{name[:50]}: a file; only media are sent as files")
        if name in _REPEATABLE:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise UsageError(f"{name[:50]}: given twice; expected once")
        else:
            values[name] = value
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UsageError(_in_one_line(error)) from None


def media_of(form: FormData, paths: list[str], settings: ServeSettings) -> Intake:
    """The media of a form, uploads or paths.

    Raises:
        UsageError: none, both, too many, or a medium that is no file.
        MediaError: a path that names no file under a media root.
    """
    uploads = form.getlist("media")
    if bool(uploads) == bool(paths):
        seen = "both uploads and paths" if uploads else "no media"
        raise UsageError(f"{seen}; expected files as `media`, or names of files as `path`")
    if len(uploads) + len(paths) > settings.max_files:
        raise UsageError(
            f"{len(uploads) + len(paths)} media; at most {settings.max_files} are taken"
        )
    files = [upload for upload in uploads if isinstance(upload, UploadFile)]
    if len(files) < len(uploads):
        raise UsageError("media: text; expected a file (a part with a filename)")
    found = [under_roots(path, settings.media_roots) for path in paths]
    return Intake(tuple(files), tuple(found), tuple(paths))


def request_body(model: type[_Form], settings: ServeSettings) -> dict[str, Any]:
    """The OpenAPI description of a form with its files."""
    schema = model.model_json_schema()
    schema["properties"]["media"] = {
        "type": "array",
        "items": {"type": "string", "format": "binary"},
        "maxItems": settings.max_files,
        "description": "Pictures, or one video.",
    }
    schema["properties"]["path"]["maxItems"] = settings.max_files
    content = {"multipart/form-data": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def _in_one_line(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, item['loc']))[:50]}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return "; ".join(problems[:5])
