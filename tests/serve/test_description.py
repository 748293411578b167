"""The OpenAPI description: allowed requests are answered, others refused, and answers have the described fields."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from schemathesis.schemas import BaseSchema
from serving import BYTES, PIXELS, Client, Models, png
from starlette.types import Receive, Scope, Send

from deixis.serve.app import create_app
from deixis.serve.engine import Engine, Limits
from deixis.serve.guard import Hosts
from deixis.serve.upload import UploadLimits

PHOTOGRAPHS = [png(0, (8, 6)), png(1, (1, 1)), png(2, (20, 3))]
schemathesis.openapi.media_type("image/*", st.sampled_from(PHOTOGRAPHS))


@pytest.fixture(scope="module")
def api(models: Models) -> BaseSchema:
    engine = Engine([models.captioner, models.grounder], Limits(pixels=PIXELS, gather=0.0))
    app = create_app(engine, UploadLimits(bytes=BYTES), Hosts.of("testserver"))

    async def running(scope: Scope, receive: Receive, send: Send) -> None:
        """The application without a beginning and an end: the client would begin and end it with each request."""
        if scope["type"] == "http":
            await app(scope, receive, send)

    return schemathesis.openapi.from_asgi("/openapi.json", running)


ASKED = [("/v1/caption", "POST"), ("/v1/ground", "POST"), ("/v1/check", "POST")]
TOLD = [("/v1/models", "GET"), ("/healthz", "GET"), ("/metrics", "GET")]
GOOD, BAD = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


@pytest.mark.parametrize(
    ("path", "method", "mode"), [*((*one, GOOD) for one in (*ASKED, *TOLD)), *((*one, BAD) for one in ASKED)]
)
def test_the_interface_does_what_it_says(api: BaseSchema, path: str, method: str, mode: GenerationMode) -> None:
    @given(case=api[path][method].as_strategy(generation_mode=mode))
    @settings(max_examples=15, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    def ask(case: Case) -> None:
        case.call_and_validate()

    ask()


def test_every_route_is_tried(api: BaseSchema) -> None:
    described = {(one.ok().path, one.ok().method.upper()) for one in api.get_all_operations()}
    assert described == {*ASKED, *TOLD}


@pytest.mark.parametrize(
    "query",
    ["/v1/caption", "/v1/caption?steps=true", "/v1/ground?phrase=a+dog", "/v1/check?caption=a+dog+runs", "/v1/models"],
)
def test_the_fields_of_answers_are_the_described_ones(server: Client, query: str) -> None:
    described = server.ask("GET", "/openapi.json").json()
    path = query.partition("?")[0]
    method = "get" if path == "/v1/models" else "post"
    answer = server.ask("GET", query) if method == "get" else server.photo(query, png())
    schema = described["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"]
    compare(answer.json(), schema, described["components"]["schemas"], path)


def compare(value: Any, schema: dict[str, Any], known: dict[str, Any], path: str) -> None:
    """Every object has all required fields of its schema, and no field that the schema does not have."""
    while "$ref" in schema:
        schema = known[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if each.get("type") != "null"]
        if value is not None:
            compare(value, kinds[0], known, path)
    elif isinstance(value, dict):
        assert set(schema["required"]) <= set(value) <= set(schema["properties"]), path
        for name, each in value.items():
            compare(each, schema["properties"][name], known, f"{path}.{name}")
    elif isinstance(value, list):
        for each in value:
            compare(each, schema["items"], known, f"{path}[]")
