"""The OpenAPI document says what the server does: requests made from it prove it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve.bench import Served, served, stored_fields
from viper.record import RunRecord
from viper.schema import EXAMPLE_ORDERS, RETRIEVALS, ToolCall, Trial
from viper.strategies.settings import all_settings

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 25


@pytest.fixture(scope="module")
def open_server() -> Iterator[Served]:
    with served(allow_exec=True, max_upload_mb=0.25, workers=2, queue=2) as server:
        yield server


@pytest.mark.parametrize(
    ("path", "method", "mode"),
    [
        ("/v1/run", "POST", GenerationMode.POSITIVE),
        ("/v1/run", "POST", GenerationMode.NEGATIVE),
        ("/v1/exec", "POST", GenerationMode.POSITIVE),
        ("/v1/exec", "POST", GenerationMode.NEGATIVE),
        ("/healthz", "GET", GenerationMode.POSITIVE),
        ("/readyz", "GET", GenerationMode.POSITIVE),
        ("/metrics", "GET", GenerationMode.POSITIVE),
    ],
)
def test_answers_are_as_described(
    open_server: Served, path: str, method: str, mode: GenerationMode
) -> None:
    api = schemathesis.openapi.from_url(f"{open_server.url}/openapi.json")
    operation = api[path][method]
    seen: set[int] = set()

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES if method == "POST" else 3,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: schemathesis.Case) -> None:
        seen.add(case.call_and_validate(checks=CHECKS).status_code)

    ask()
    assert seen & ({400} if mode.is_negative else {200, 400, 422}), seen


def test_every_endpoint_and_error_is_described(open_server: Served) -> None:
    document = open_server.client.get("/openapi.json").json()
    assert set(document["paths"]) == {"/v1/run", "/v1/exec", "/healthz", "/readyz", "/metrics"}
    run = document["paths"]["/v1/run"]["post"]
    assert set(run["responses"]) == {
        *("200", "400", "401", "403", "413", "415", "422", "429", "500", "503", "504")
    }
    assert set(run["responses"]["200"]["content"]) == {"application/json", "text/event-stream"}
    content = run["requestBody"]["content"]
    fields, texts = (
        content[kind]["schema"]["properties"]
        for kind in ("multipart/form-data", "application/json")
    )
    assert {**texts, "media": fields["media"]} == fields
    assert texts["media"]["items"] == {"type": "string", "format": "byte"}
    choices = {name: fields[name]["anyOf"][0]["enum"] for name in ("retrieval", "example_order")}
    assert choices == {"retrieval": list(RETRIEVALS), "example_order": list(EXAMPLE_ORDERS)}
    assert set(fields) == {
        *("media", "path", "query", "task", "options", "like", "fields"),
        *("api", "strategy", "trials", "temperature", "seed"),
        *("feedback", "self_tune", "tune_on_evidence", "votes", "verify", "checks", "abstain"),
        "on_misfit",
        *("examples", "retrieval", "example_order"),
        *("max_llm_calls", "max_llm_tokens", "max_cost_usd", "max_steps", "without_actions"),
        *("worked_examples", "region_facts", "grounding", "exhausted"),
        *("max_turns", "max_seconds", "fallback"),
        *("max_pictures", "keep_pictures", "picture_pixels"),
        *("correct_demonstrations", "incorrect_demonstrations"),
    }
    assert fields["max_llm_calls"]["anyOf"][0]["minimum"] == 0
    paths = {one.name for one in all_settings().values() if one.declaration.is_path}
    assert paths and not paths & set(fields)


def test_every_field_of_a_record_is_described(open_server: Served) -> None:
    document = open_server.client.get("/openapi.json").json()
    answer = document["paths"]["/v1/run"]["post"]["responses"]["200"]["content"]
    assert answer["application/json"]["schema"] == {"$ref": "#/components/schemas/RunRecord"}
    for kind in (RunRecord, Trial, ToolCall):
        described = document["components"]["schemas"][kind.__name__]
        assert set(described["properties"]) == stored_fields(kind)
