"""Asking an endpoint: a real HTTP server that answers, fails, is slow, talks nonsense or sends elsewhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from assets.agent import endpoint as module
from assets.agent.endpoint import Endpoint, EndpointError, EndpointParameters, image_part, text_part
from assets.agent.endpoint_policy import EndpointPolicy
from assets.agent.observation import Observation
from assets.agent.prompts import messages
from assets.errors import ParameterError

KEY = "sk-a-key-that-nobody-may-see"
QUESTION = [{"role": "user", "content": [text_part("What is the secret of the request?"), image_part(b"png")]}]


class Server(ThreadingHTTPServer):
    """Answers each request with the next of its scripts; the last one goes on for ever."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Callable[[Handler], None]] = [says("hello")]
        self.asked: list[dict[str, Any]] = []
        self.headers: list[Mapping[str, str]] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: object) -> None:
        """A client that gave up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append(body)
            self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
            script = self.server.script
            answer = script.pop(0) if len(script) > 1 else script[0]
        answer(self)

    def send(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


Answer = Callable[[Handler], None]


def says(text: str | None, usage: bool = True) -> Answer:
    answer: dict[str, Any] = {"choices": [{"message": {"role": "assistant", "content": text}}]}
    if usage:
        answer["usage"] = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
    return lambda handler: handler.send(json.dumps(answer).encode())


def fails(status: int) -> Answer:
    """An error that tells everything that it was told, as careless servers do."""

    def answer(handler: Handler) -> None:
        told = json.dumps({"error": {"message": f"{dict(handler.headers)} {handler.server.asked[-1]}"}}).encode()
        handler.send(told, status, retry_after_ms="1")

    return answer


def sends(body: bytes) -> Answer:
    return lambda handler: handler.send(body)


def waits(seconds: float) -> Answer:
    def answer(handler: Handler) -> None:
        time.sleep(seconds)
        says("late")(handler)

    return answer


def never_ends(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(0.05)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")  # this machine is reached without one
    running = Server()
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


def endpoint(server: Server, **values: Any) -> Endpoint:
    given = {"url": server.url, "model": "some-model", "key_variable": "TEST_KEY", "seconds": 5, "retries": 1}
    return Endpoint(EndpointParameters.model_validate({**given, **values}))


def error_of(asked: Endpoint) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        asked.ask(QUESTION)
    error = caught.value
    for secret in (KEY, "secret of the request", "png"):
        assert secret not in f"{error!r} {error}"
    assert error.__cause__ is None
    assert error.__context__ is None
    return error


def test_an_answer_and_what_it_cost(server: Server) -> None:
    asked = endpoint(server, prices={"input": 2.0, "output": 5.0}, temperature=0.5, max_new_tokens=7)
    assert asked.ask(QUESTION) == "hello"
    assert server.asked == [{"model": "some-model", "messages": QUESTION, "temperature": 0.5, "max_tokens": 7}]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    usage = asked.usage
    assert (usage.requests, usage.failures, usage.input_tokens, usage.output_tokens) == (1, 0, 10, 3)
    assert usage.cost == pytest.approx(35e-6)


def test_a_server_that_fails_once_is_asked_again(server: Server) -> None:
    server.script = [fails(500), says("hello")]
    asked = endpoint(server)
    assert asked.ask(QUESTION) == "hello"
    assert len(server.asked) == 2
    assert (asked.usage.requests, asked.usage.failures) == (1, 0)


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_an_error_says_where_and_which_and_nothing_of_key_or_request(server: Server, status: int) -> None:
    server.script = [fails(status)]
    asked = endpoint(server)
    text = str(error_of(asked))
    assert server.url in text
    assert f"HTTP {status}" in text
    assert len(server.asked) == (2 if status in (429, 500) else 1)
    assert (asked.usage.requests, asked.usage.failures) == (1, 1)


def test_slow_answers_are_failures(server: Server) -> None:
    server.script = [waits(1.0)]
    begun = time.monotonic()
    assert "Timeout" in str(error_of(endpoint(server, seconds=0.2, retries=0)))
    server.script = [never_ends]
    assert "Timeout" in str(error_of(endpoint(server, seconds=0.3, retries=0)))
    assert time.monotonic() - begun < 4


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>404</html>", b"\xff\xfe", b"[]", b"null", b'"text"', b'{"choices": []}', b'{"choices": [{}]}']
    + [b'{"choices": [{"message": {"content": %s}}]}' % content for content in (b"null", b"7", b'["a"]', b'{"a": 1}')]
    + [b'{"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": "many"}}'],
)
def test_nonsense_is_no_answer(server: Server, body: bytes) -> None:
    server.script = [sends(body)]
    asked = endpoint(server)
    assert "sent something that is no answer" in str(error_of(asked))
    assert (asked.usage.requests, asked.usage.failures) == (1, 1)


def test_an_answer_without_usage_is_an_answer(server: Server) -> None:
    server.script = [says("hello", usage=False)]
    asked = endpoint(server)
    assert asked.ask(QUESTION) == "hello"
    assert asked.usage.output_tokens == 0


def test_an_endless_answer_is_cut(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    server.script = [says("x" * 2000)]
    assert "OverflowError" in str(error_of(endpoint(server)))


def test_a_request_goes_nowhere_else(server: Server) -> None:
    server.script = [lambda handler: handler.send(b"{}", 307, Location=f"{server.url}/elsewhere"), says("elsewhere")]
    assert "HTTP 307" in str(error_of(endpoint(server)))
    assert len(server.asked) == 1


def test_nobody_listens() -> None:
    asked = Endpoint(EndpointParameters(url="http://127.0.0.1:9/v1", model="m", retries=0, key_variable="NO_KEY"))
    assert "APIConnectionError" in str(error_of(asked))


def test_many_are_asked_side_by_side_each_in_its_place(server: Server) -> None:
    busy: list[int] = []
    most_busy = 0

    def answers(handler: Handler) -> None:
        nonlocal most_busy
        with server.lock:
            busy.append(1)
            most_busy = max(most_busy, len(busy))
        time.sleep(0.1)
        with server.lock:  # before the answer is sent: a client that has it may ask the next at once
            busy.pop()
        long = int(handler.headers["Content-Length"]) > 1000
        (fails(400) if long else says("fine"))(handler)

    server.script = [answers]
    asked = endpoint(server, concurrent=4)
    found = asked.ask_all([[{"role": "user", "content": "x" * (2000 if place == 3 else 1)}] for place in range(8)])
    assert [isinstance(answer, EndpointError) for answer in found] == [place == 3 for place in range(8)]
    assert 1 < most_busy <= 4
    assert (asked.usage.requests, asked.usage.failures) == (8, 1)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"url": ""}, "is no address such as"),
        ({"url": "file:///etc/passwd"}, "is no address such as"),
        ({"url": f"https://user:{KEY}@models.test/v1"}, "a key belongs in the variable"),
        ({"url": f"https://models.test/v1?key={KEY}"}, "a key belongs in the variable"),
        ({"model": ""}, "which of the models"),
        ({"url": "https://models.test/v1", "key_variable": "NO_SUCH_KEY"}, "expected in the variable NO_SUCH_KEY"),
        ({"key_variable": KEY}, "never the key itself"),
    ],
)
def test_a_wrong_endpoint_is_said_without_telling_the_key(values: dict[str, str], said: str) -> None:
    given = {"url": "http://127.0.0.1:8000/v1", "model": "m", **values}
    with pytest.raises(ParameterError, match=said) as caught:
        Endpoint(EndpointParameters.model_validate(given))
    assert KEY not in str(caught.value)


# --- as a policy -----------------------------------------------------------------------------------------------------

SEEN = [
    Observation(b"now", 64, 64, "mobile", "Save", ("first", "second"), "a note", (b"before", b"then")),
    Observation(b"now", 64, 64, "web", "Open"),
]


def test_the_chat_of_a_turn_is_that_of_training_with_the_screenshots_in_their_places(server: Server) -> None:
    policy = EndpointPolicy(endpoint(server, concurrent=1), screenshots=2)
    assert policy.name == "some-model"
    assert policy.respond(SEEN) == ["hello", "hello"]
    chats = [body["messages"] for body in server.asked]
    words = messages("mobile", "Save", ("first", "second", "a note"), "full", images=2)
    assert chats[0][0] == words[0]
    assert chats[0][1]["content"] == [image_part(b"then"), image_part(b"now"), words[1]["content"][-1]]
    assert chats[1][1]["content"] == [image_part(b"now"), text_part("Open")]


def test_an_answer_that_is_missing_is_an_error_in_its_place(server: Server) -> None:
    server.script = [fails(400), says("hello")]
    first, second = EndpointPolicy(endpoint(server, concurrent=1)).respond(SEEN)
    assert isinstance(first, EndpointError)
    assert second == "hello"
