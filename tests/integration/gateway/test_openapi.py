"""The document of the API says what the gateway does."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from control_plane.contracts.errors import InvalidRequest
from control_plane.contracts.model_routes import ModelRoute, ModelRoutes
from control_plane.gateway.schema.conversations import ADDED, CHANGED, NEW
from control_plane.gateway.schema.generation import CHAT, COMPLETION, read_chat, read_completion
from control_plane.gateway.schema.page_query import PAGE, PageQuery, read_page_query
from control_plane.gateway.schema.responses import RESPONSE, read_response
from control_plane.gateway.schema.route import ROUTE
from control_plane.gateway.schema.table import Table
from control_plane.gateway.schema.tokens import DETOKENIZE, TOKENIZE
from tests.integration.gateway.rig import CHAT as CHAT_PATH
from tests.integration.gateway.rig import COMPLETIONS, KEY, MODEL, Rig, chat_body, request


async def document(rig: Rig) -> dict[str, Any]:
    found: dict[str, Any] = (await rig.get("/openapi.json")).json
    return found


async def test_the_document_needs_no_key_and_holds_no_secret(rig: Rig) -> None:
    rig.http.headers.pop("authorization")
    answer = await rig.get("/openapi.json")
    assert answer.status == 200
    assert answer.json["openapi"] == "3.1.0"
    assert KEY.encode() not in answer.body


async def test_every_path_of_the_document_is_there_and_needs_a_key_where_it_says_so(rig: Rig) -> None:
    for path, operations in (await document(rig))["paths"].items():
        for method, operation in operations.items():
            client = await rig.connect()
            client.send(request(path.replace("{model}", MODEL), method=method.upper(), key=None))
            answer = await client.answer()
            assert answer.status == (401 if operation["security"] else 200 if method == "get" else 415), path
            assert str(answer.status) in operation["responses"]


async def test_every_method_that_a_path_takes_is_in_the_document(rig: Rig) -> None:
    for path, operations in (await document(rig))["paths"].items():
        client = await rig.connect()
        client.send(request(path.replace("{model}", MODEL), method="PATCH", key=None))
        allowed = set((await client.answer()).headers["allow"].split(", "))
        assert allowed - {"HEAD"} == {method.upper() for method in operations}


async def test_every_schema_of_the_document_is_one(rig: Rig) -> None:
    found = await document(rig)
    for operations in found["paths"].values():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                Draft202012Validator.check_schema(parameter["schema"])
            contents = [operation.get("requestBody", {"content": {}})["content"]]
            contents += [response.get("content", {}) for response in operation["responses"].values()]
            for content in contents:
                for media in content.values():
                    Draft202012Validator.check_schema(media["schema"])
    for response in found["components"]["responses"].values():
        Draft202012Validator.check_schema(response["content"]["application/json"]["schema"])


async def test_answers_are_as_the_document_has_them(rig: Rig) -> None:
    found = await document(rig)

    def check(answer: Any, path: str, method: str) -> None:
        response = found["paths"][path][method]["responses"][str(answer.status)]
        if "$ref" in response:
            response = found["components"]["responses"]["Error"]
        Draft202012Validator(response["content"]["application/json"]["schema"]).validate(answer.json)

    check(await rig.chat(), CHAT_PATH, "post")
    check(await rig.chat(n=2, logprobs=True, stop=["x"]), CHAT_PATH, "post")
    check(await rig.chat(temperature=9), CHAT_PATH, "post")
    check(await rig.complete(echo=True), COMPLETIONS, "post")
    check(await rig.get("/v1/models"), "/v1/models", "get")
    check(await rig.get(f"/v1/models/{MODEL}"), "/v1/models/{model}", "get")
    check(await rig.get("/v1/models/nope"), "/v1/models/{model}", "get")
    rig.router.leading = ModelRoutes({"auto": ModelRoute(small=MODEL, large=MODEL)})
    for name in (MODEL, "auto", "nope"):
        check(await rig.post("/v1/route", {"model": name, "prompt": "hi"}), "/v1/route", "post")
    check(await rig.post("/v1/route", {"model": MODEL}), "/v1/route", "post")
    check(await rig.get("/health"), "/health", "get")
    check(await rig.get("/ready"), "/ready", "get")
    rig.router.is_ready = False
    check(await rig.get("/ready"), "/ready", "get")


async def test_each_method_says_what_it_does_and_each_post_what_it_takes(rig: Rig) -> None:
    operations = [
        (method, operation) for found in (await document(rig))["paths"].values() for method, operation in found.items()
    ]
    assert len({operation["summary"] for _, operation in operations}) == len(operations)
    for method, operation in operations:
        assert ("requestBody" in operation) == (method == "post")
        for media in operation.get("requestBody", {"content": {}})["content"].values():
            assert "example" in media or media["schema"] == {}
            if "example" in media:
                Draft202012Validator(media["schema"]).validate(media["example"])


FULL: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": "b", "name": "ann"},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "annotations": [],
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "c", "tool_call_id": "1"},
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}},
    "stop": ["a"],
    "logit_bias": {"5": 1},
    "best_of": 1,
    "store": False,
    "temperature": 1,
}


@pytest.mark.parametrize("change", [{}, {"tools": []}, {"stop": None}, {"stop": "x"}, {"response_format": None}])
def test_the_document_takes_what_the_gateway_takes(change: dict[str, Any]) -> None:
    body = chat_body() | FULL | change
    Draft202012Validator(CHAT.schema()).validate(body)
    read_chat(body)
    for prompt in ("a", [1], ["a"], [[1]]):
        body = {"model": MODEL, "prompt": prompt, "echo": True, "max_tokens": 0}
        Draft202012Validator(COMPLETION.schema()).validate(body)
        read_completion(body)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"stream": True, "stream_options": {"include_obfuscation": False}, "store": False},
        {
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}], "id": "x", "status": "completed"}
            ]
        },
        {"conversation": {"id": "conv_1"}, "metadata": {"a": "b"}, "truncation": "disabled", "user": None},
        {"text": {"format": {"type": "json_schema", "name": "x", "schema": {}, "strict": None}, "verbosity": "medium"}},
        {"text": {"format": None}, "tools": [], "reasoning": {}, "parallel_tool_calls": False, "prompt": None},
    ],
)
def test_the_document_takes_the_responses_that_the_gateway_takes(change: dict[str, Any]) -> None:
    body = {"model": MODEL, "input": "a"} | change
    Draft202012Validator(RESPONSE.schema()).validate(body)
    read_response(body)


@pytest.mark.parametrize(
    ("table", "body"),
    [
        (RESPONSE, {"model": MODEL}),
        (RESPONSE, {"model": MODEL, "input": []}),
        (RESPONSE, {"model": MODEL, "input": None}),
        (RESPONSE, {"model": MODEL, "input": [{"role": "tool", "content": "a"}]}),
        (RESPONSE, {"model": MODEL, "input": "a", "truncation": "auto"}),
        (RESPONSE, {"model": MODEL, "input": "a", "text": {"format": {"type": "json_schema", "name": "x"}}}),
        (RESPONSE, {"model": MODEL, "input": "a", "seed": 1}),
        (NEW, {"items": [{"role": "user", "content": "a"}] * 21}),
        (NEW, {"metadata": {"a": 1}}),
        (CHANGED, {}),
        (CHANGED, {"metadata": {str(number): "" for number in range(17)}}),
        (ADDED, {"items": []}),
        (ADDED, {"items": [{"role": "user", "content": [{"type": "text"}]}]}),
        (TOKENIZE, {"model": MODEL, "prompt": "a", "add_special_tokens": False}),
        (DETOKENIZE, {"model": MODEL, "tokens": [-1]}),
        (DETOKENIZE, {"model": MODEL}),
        (ROUTE, {"prompt": "a"}),
        (ROUTE, {"model": MODEL, "prompt": "a", "max_tokens": 0}),
        (ROUTE, {"model": MODEL, "messages": []}),
        (ROUTE, {"model": MODEL, "prompt": ["a"]}),
    ],
)
def test_every_document_refuses_what_its_table_refuses(table: Table, body: dict[str, Any]) -> None:
    assert not Draft202012Validator(table.schema()).is_valid(body)
    with pytest.raises(InvalidRequest):
        (read_response if table is RESPONSE else table.read)(body)


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": "a", "x": 1}]},
        {"messages": [{"role": "user", "content": "a", "tool_calls": [{}]}]},
        {"model": ""},
        {"model": None},
        {"stop": ["a"] * 5},
        {"stop": ""},
        {"logit_bias": {"a": 1}},
        {"temperature": 2.1},
        {"top_p": 0},
        {"store": True},
        {"x": 1},
        {"tools": [{"type": "custom"}]},
        {"tool_choice": "required"},
        {"response_format": {"type": "xml"}},
        {"stream_options": {"include_obfuscation": True}},
        {"chat_template": "x"},
    ],
)
def test_the_document_refuses_what_the_gateway_refuses(change: dict[str, Any]) -> None:
    assert not Draft202012Validator(CHAT.schema()).is_valid(chat_body() | FULL | change)


async def test_the_parameters_of_a_query_are_those_that_are_read(rig: Rig) -> None:
    paths = (await document(rig))["paths"]

    def told(path: str, method: str) -> dict[str, Any]:
        return {each["name"]: each for each in paths[path][method].get("parameters", ()) if each["in"] == "query"}

    conversation, response = "/v1/conversations/{conversation_id}", "/v1/responses/{response_id}"
    for path in ("/v1/conversations", f"{conversation}/items", f"{response}/input_items"):
        page = told(path, "get")
        assert set(page) == {"after", "include", "limit", "order"}
        assert page["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
        assert page["order"]["schema"] == {"enum": ["asc", "desc"], "default": "desc"}
        assert not any(each["required"] for each in page.values())
    assert set(told(response, "get")) == {"include", "stream"}
    assert (
        set(told(f"{conversation}/items", "post"))
        == set(told(f"{conversation}/items/{{item_id}}", "get"))
        == {"include"}
    )
    assert told(CHAT_PATH, "post") == told("/v1/conversations", "post") == {}


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ([], {}),
        ([("limit", "7"), ("order", "asc"), ("after", "x")], {"limit": 7, "order": "asc", "after": "x"}),
        ([("limit", "7"), ("limit", "8")], {"limit": 8}),
        ([("include[]", "reasoning.encrypted_content")], {"include": "reasoning.encrypted_content"}),
    ],
)
def test_a_query_is_read_by_its_table(query: list[tuple[str, str]], values: dict[str, Any]) -> None:
    assert PAGE.read(query) == values
    assert read_page_query(query) == PageQuery(**{name: values[name] for name in values if name != "include"})


@pytest.mark.parametrize(
    ("pair", "code"),
    [
        (("limit", "0"), "integer_below_min_value"),
        (("limit", "101"), "integer_above_max_value"),
        (("limit", "x"), "invalid_type"),
        (("limit", "1" * 10), "invalid_type"),
        (("order", "up"), "invalid_value"),
        (("after", ""), "empty_string"),
        (("after", "x" * 65), "string_above_max_length"),
        (("include", "x"), "invalid_value"),
        (("include[]", "x"), "invalid_value"),
        (("x" * 99, "1"), "unknown_parameter"),
    ],
)
def test_a_query_is_refused_by_the_name_of_what_is_wrong(pair: tuple[str, str], code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        PAGE.read([pair, ("limit", "5")])
    assert (refused.value.code, refused.value.param) == (code, pair[0].removesuffix("[]")[:64])
