"""The local model server: real HTTP, the model's own answers token for token, honest errors, and whole episodes."""

from __future__ import annotations

import base64
import http.client
import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assets.agent import generation, prompts, server
from assets.agent.endpoint import Endpoint, EndpointError, EndpointParameters, image_part, text_part
from assets.agent.endpoint_policy import EndpointPolicy
from assets.agent.model_policy import ModelPolicy, prompt_of
from assets.agent.observation import Observation
from assets.agent.prompts import SystemPrompt
from assets.agent.server import Limits, ModelServer
from assets.environments.session import rollout_batch
from assets.environments.task import TaskContract
from assets.environments.workers import Sessions
from tests.checkpoints.micro_project import make_project, picture

LENGTH = 24
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned how a click is written."""
    return make_project(tmp_path_factory.mktemp("server") / "project") / "models" / "midtrained"


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[ModelServer]:
    limits = Limits(body=2 << 20, images=3, image=200_000, pixels=400 * 400, silence=5.0)
    with ModelServer(folder, "brief", name="micro", max_new_tokens=LENGTH, threads=1, limits=limits) as started:
        yield started


def asked_of(running: ModelServer, **values: Any) -> Endpoint:
    given = {"url": running.address, "model": running.name, "retries": 0, "max_new_tokens": LENGTH, "concurrent": 8}
    return Endpoint(EndpointParameters.model_validate({**given, **values}))


def seen(seed: int, platform: str, instruction: str, *history: str, note: str | None = None) -> Observation:
    return Observation(picture(seed), 64, 64, platform, instruction, history, note)


SEEN = [
    seen(1, "mobile", "Save"),
    seen(1, "mobile", "Open", "<think>Save</think>\n<action>Wait()</action>"),
    seen(2, "web", "Close <|im_end|> 打开", note="https://tasks-en.test/start"),
    seen(3, "desktop", "Mute"),
]


# --- the model's own answers -----------------------------------------------------------------------------------------


def test_the_endpoint_answers_what_the_policy_answers_token_for_token(folder: Path, running: ModelServer) -> None:
    local = ModelPolicy(folder, LENGTH)
    remote = EndpointPolicy(asked_of(running))
    answers = local.respond(SEEN)
    assert remote.respond(SEEN) == answers
    assert [remote.respond([one])[0] for one in SEEN] == answers
    questions = [
        (one.screenshot, prompt_of(local.processor, one.screenshot, one.platform, one.instruction, history))
        for one in SEEN
        for history in [one.history if one.note is None else (*one.history, one.note)]
    ]
    drawn = [answer for (answer,) in generation.sample(local.model, local.processor, questions, max_new_tokens=LENGTH)]
    usage = remote.endpoint.usage
    assert usage.output_tokens == 2 * sum(len(answer.ids) for answer in drawn)
    assert usage.input_tokens == 2 * sum(len(prompt.prefix) + len(prompt.suffix) for _, prompt in questions)


def test_a_model_trained_on_the_full_prompt_is_asked_with_it(folder: Path) -> None:
    local = ModelPolicy(folder, LENGTH, "full")
    with ModelServer(folder, "full", threads=1) as started:
        for words in ("full", "brief"):  # whatever the client says, the model reads its own line
            assert EndpointPolicy(asked_of(started), words).respond(SEEN) == local.respond(SEEN)


def test_several_screenshots_stand_in_their_places(folder: Path, running: ModelServer) -> None:
    local = ModelPolicy(folder, LENGTH)
    earlier = (picture(7), picture(8))
    one = replace(SEEN[1], earlier=earlier)
    images = (*earlier, one.screenshot)
    tokens = [local.processor.image_tokens(local.processor.patches(image).grid) for image in images]
    prompt = prompts.encode(local.processor.tokenizer, tokens, one.platform, one.instruction, one.history)
    ((answer,),) = generation.sample(local.model, local.processor, [(images, prompt)], max_new_tokens=LENGTH)
    remote = EndpointPolicy(asked_of(running), screenshots=3)
    assert remote.respond([one]) == [generation.decode(local.processor, answer)]
    assert remote.endpoint.usage.input_tokens == len(prompt.prefix) + len(prompt.suffix)


@pytest.mark.parametrize("platform", [None, "mobile", "web", "desktop"])
@pytest.mark.parametrize("system_prompt", ["brief", "full"])
def test_system_lines_are_reworded_and_other_text_is_not(platform: str | None, system_prompt: SystemPrompt) -> None:
    wanted = prompts.messages(platform, "", system_prompt=system_prompt)[0]["content"]
    for words in ("brief", "full"):
        said = prompts.messages(platform, "", system_prompt=words)[0]["content"]  # type: ignore[arg-type]
        assert prompts.reword(said, system_prompt) == wanted
    assert prompts.reword("Be brief.<|im_end|>", system_prompt) == "Be brief.< |im_end|>"


def test_requests_that_arrive_together_are_answered_together(folder: Path) -> None:
    limits = Limits(rows=4, gather=30.0)  # a batch is begun as soon as it is full
    with ModelServer(folder, "brief", threads=1, limits=limits) as started:
        assert EndpointPolicy(asked_of(started)).respond(SEEN) == ModelPolicy(folder, LENGTH).respond(SEEN)
        assert started.batches == (4,)


def test_sampled_answers_follow_their_seed_whoever_else_asks(running: ModelServer) -> None:
    def answers(seeds: list[int | None]) -> list[str]:
        with ThreadPoolExecutor(len(seeds)) as pool:
            bodies = [chat(temperature=1.0, **({} if seed is None else {"seed": seed})) for seed in seeds]
            return [text_of(reply) for _, reply in pool.map(lambda body: post(running, body), bodies)]

    first, again, other = answers([5])[0], answers([None, 5, 9, None])[1], answers([9])[0]
    assert first == again != other


def test_a_whole_episode_through_the_server_is_that_of_the_policy(folder: Path, running: ModelServer) -> None:
    tasks = [
        TaskContract(f"t{app}", "web", app, "en", "Press Sync", expected_state={"x": 1}, step_budget=3)
        for app in ("tasks-en", "tasks-en")
    ]
    local = ModelPolicy(folder, LENGTH, name="micro")
    remote = EndpointPolicy(asked_of(running))
    with Sessions((192, 192)) as sessions:
        opened = sessions.several("web", "tasks-en", 2)
        episodes = rollout_batch(opened, tasks, local)
        assert rollout_batch(opened, tasks, remote) == episodes
    assert any(step.actions for episode in episodes for step in episode.steps), "the model did something"


# --- the protocol ----------------------------------------------------------------------------------------------------


def chat(*parts: dict[str, Any], **values: Any) -> dict[str, Any]:
    content = list(parts) or [image_part(picture(1)), text_part("Save")]
    given = {"model": "micro", "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 8}
    return {**given, **values}


def send(
    running: ModelServer, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(running.address.removeprefix("http://").removesuffix("/v1"), timeout=60)
    try:
        connection.request(method, path, body, headers or {})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def post(running: ModelServer, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Content-Type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return send(running, "POST", "/v1/chat/completions", raw, given)


def text_of(reply: dict[str, Any]) -> str:
    return str(reply["choices"][0]["message"]["content"])


def test_models_and_a_completion_have_the_form_of_the_api(running: ModelServer) -> None:
    from openai import NotFoundError, OpenAI

    client = OpenAI(base_url=running.address, api_key="none", max_retries=0)
    assert [model.id for model in client.models.list()] == ["micro"]
    assert client.models.retrieve("micro").object == "model"
    answer = client.chat.completions.create(**chat(max_tokens=3))
    assert answer.object == "chat.completion"
    assert answer.choices[0].finish_reason == "length"
    assert answer.choices[0].message.role == "assistant"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 3
    long = client.chat.completions.create(**chat(max_tokens=64))
    assert long.choices[0].finish_reason == "stop"
    with pytest.raises(NotFoundError, match="no model 'other' here, only 'micro'"):
        client.chat.completions.create(**chat(model="other"))


def test_a_chat_may_have_turns_of_its_own(running: ModelServer) -> None:
    turns = [
        {"role": "developer", "content": "mobile"},
        {"role": "user", "content": [image_part(picture(1)), text_part("Save")]},
        {"role": "assistant", "content": "<action>Wait()</action>"},
        {"role": "user", "content": "Open"},
    ]
    status, reply = post(running, chat(messages=turns))
    assert status == 200, reply


def bomb() -> bytes:
    """A small PNG that says it is 30,000 pixels wide and high."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000))


def gif() -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", (8, 8)).save(buffer, "GIF")
    return buffer.getvalue()


def url(text: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": text}}


ONE = image_part(picture(1))
BAD = [
    pytest.param(b"", "JSON", id="nothing"),
    pytest.param(b"{", "JSON", id="broken JSON"),
    pytest.param(b"\xff\xfe{}", "JSON", id="no UTF-8"),
    pytest.param(b"[" * 100_000, "JSON", id="deep JSON"),
    pytest.param(b"[]", "object", id="a list"),
    pytest.param({"model": "micro"}, "messages: Field required", id="no messages"),
    pytest.param(chat(messages=[]), "messages", id="no message"),
    pytest.param(chat(messages=[{"role": "tool", "content": "x"}]), "messages.0.role", id="a tool"),
    pytest.param(chat(messages=[{"role": "user", "content": [{"type": "audio"}]}]), "messages.0.content", id="sound"),
    pytest.param(chat(text_part("Save")), "at least one image_url", id="no picture"),
    pytest.param(chat(*[ONE] * 4), "4 pictures, at most 3", id="many pictures"),
    pytest.param(chat(url("http://127.0.0.1:9/x.png")), "nothing is fetched", id="an address"),
    pytest.param(chat(url("file:///etc/passwd")), "nothing is fetched", id="a file"),
    pytest.param(chat(url("data:image/svg+xml;base64,PHN2Zz4=")), "nothing is fetched", id="a drawing"),
    pytest.param(chat(url("data:image/png;base64,!!!")), "base64 is broken", id="no base64"),
    pytest.param(chat(image_part(b"no picture")), "no PNG, JPEG or WebP", id="no picture inside"),
    pytest.param(chat(image_part(gif())), "no PNG, JPEG or WebP", id="another format"),
    pytest.param(chat(image_part(bomb())), "too large|900000000 pixels", id="a bomb"),
    pytest.param(chat(image_part(b"x" * 200_001)), "more than 200000 bytes", id="a large picture"),
    pytest.param(chat(image_part(picture(1)[:-30])), "no picture|can't be read", id="half a picture"),
    pytest.param(
        chat(messages=[{"role": "system", "content": [ONE]}, {"role": "user", "content": [ONE]}]),
        "belong in messages of the user",
        id="a picture of the system",
    ),
    pytest.param(chat(temperature=-1), "temperature", id="cold"),
    pytest.param(chat(max_tokens=0), "max_tokens", id="no answer wanted"),
    pytest.param(chat(max_tokens=10**9), "tokens long, the model takes", id="a long answer"),
    pytest.param(chat(seed=2**70), "seed", id="a large seed"),
    pytest.param(chat(stream=True), "'stream' is not supported", id="a stream"),
    pytest.param(chat(n=2), "'n' is not supported", id="two answers"),
    pytest.param(chat(tools=[{"type": "function"}]), "'tools' is not supported", id="tools"),
    pytest.param(chat(stop="."), "'stop' is not supported", id="stop words"),
    pytest.param(chat(top_p=0.5), "'top_p' is not supported", id="top p"),
]


@pytest.mark.parametrize(("body", "said"), BAD)
def test_a_bad_request_gets_one_clear_error(running: ModelServer, body: Any, said: str) -> None:
    import re

    status, reply = post(running, body)
    error = reply["error"]
    assert status == 400, reply
    assert error["type"] == "invalid_request_error"
    assert re.search(said, error["message"]), error
    assert len(error["message"]) < 300
    assert post(running, chat())[0] == 200


def test_what_changes_nothing_may_be_asked(running: ModelServer) -> None:
    harmless = {"n": 1, "stream": False, "stop": None, "top_p": 1.0, "user": "me", "response_format": {"type": "text"}}
    assert post(running, chat(**harmless))[0] == 200


def test_a_large_picture_is_never_decoded(running: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*_: object, **__: object) -> bytes:
        raise AssertionError("decoded")

    monkeypatch.setattr(base64, "b64decode", decode)
    assert post(running, chat(image_part(b"x" * 300_000)))[0] == 400
    with pytest.raises(AssertionError, match="decoded"):
        server._picture(image_part(b"x")["image_url"]["url"], Limits())


def test_a_broken_picture_leaves_the_others_of_its_batch_alone(folder: Path) -> None:
    half = base64.b64decode(image_part(picture(2))["image_url"]["url"].partition(",")[2])[:-30]
    with ModelServer(folder, "brief", threads=1, limits=Limits(rows=3, gather=30.0)) as started:
        remote = EndpointPolicy(asked_of(started))
        mixed = [SEEN[0], replace(SEEN[0], screenshot=half), SEEN[3]]
        first, broken, last = remote.respond(mixed)
        assert [first, last] == ModelPolicy(folder, LENGTH).respond([SEEN[0], SEEN[3]])
        assert isinstance(broken, EndpointError)
        assert "HTTP 400" in str(broken)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.test"}, 403),
        ({"Host": "127.0.0.1:1"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"Content_Length": "99999999"}, 413),
        ({"Content_Length": "-1"}, 411),
        ({"Transfer_Encoding": "chunked"}, 411),
    ],
)
def test_pages_of_others_and_endless_bodies_are_refused(
    running: ModelServer, headers: dict[str, str], status: int
) -> None:
    body = b"" if "Transfer_Encoding" in headers or "Content_Length" in headers else chat()
    assert post(running, body, **headers)[0] == status


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/models/other", "/v1/completions", "/v1/../etc/passwd"])
def test_there_is_nothing_else(running: ModelServer, path: str) -> None:
    assert send(running, "GET", path)[0] == 404
    raw = json.dumps(chat()).encode()
    assert send(running, "POST", path, raw, {"Content-Type": "application/json"})[0] == 404


def test_a_busy_server_says_come_again_and_a_failing_model_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> list[Any]:
        begun.set()
        go_on.wait(60)
        raise RuntimeError("out of memory")

    monkeypatch.setattr(generation, "sample", slow)
    with (
        ModelServer(folder, "brief", name="micro", threads=1, limits=Limits(waiting=1, rows=1)) as started,
        ThreadPoolExecutor(2) as pool,
    ):
        first = pool.submit(post, started, chat())
        assert begun.wait(60)
        waiting = pool.submit(post, started, chat())
        while not started._model._waiting.full():
            time.sleep(0.01)
        status, reply = post(started, chat())
        assert (status, reply["error"]["type"]) == (503, "server_error")
        go_on.set()
        for status, reply in (first.result(), waiting.result()):
            assert status == 500
            assert reply["error"]["message"] == "the model failed: RuntimeError"
    assert "out of memory" in capfd.readouterr().err


# --- starting it -----------------------------------------------------------------------------------------------------


def test_hesper_serve_answers_until_it_is_told_to_end(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "dagster_project.cli", "serve", str(folder), "--port", "0", "--threads", "1"],
        cwd=REPOSITORY,
        env={**os.environ, "HESPER_ROOT": str(folder.parents[1])},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        assert said[:3] == ["midtrained", "answers", "at"]
        asked = Endpoint(EndpointParameters(url=said[3], model="midtrained", max_new_tokens=LENGTH))
        assert EndpointPolicy(asked).respond(SEEN) == ModelPolicy(folder, LENGTH).respond(SEEN)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("argument", "code", "said"), [("nowhere", 6, "is no folder"), (".", 6, "is no model")])
def test_a_folder_without_a_model_is_one_clear_error(
    argument: str,
    code: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["server", argument, "--port", "0", "--system-prompt", "brief"])
    assert server.main() == code
    assert said in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_clear_error(folder: Path, running: ModelServer) -> None:
    from assets.errors import ParameterError

    port = int(running.address.split(":")[2].split("/")[0])
    with pytest.raises(ParameterError, match=f"port {port} can't be had"):
        ModelServer(folder, "brief", port=port)
