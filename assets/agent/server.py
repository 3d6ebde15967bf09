"""A model folder behind OpenAI's chat completions, on this machine alone.

A chat becomes the prompt that the model was trained with: screenshots before the text, and a system line of this
project, brief or full, in the wording of the model's own training (see `prompts.reword`). So what a model answers here
is what it answers as a policy, token for token. Requests that arrive together are answered in one batch.

Left out on purpose: streaming, several answers to one request, tools, and everything else that would change an answer
and is not done here; a request that asks for it is refused rather than answered otherwise. Nothing is fetched:
pictures come as data: URLs.

    python -m assets.agent.server models/distilled --port 8000
"""

from __future__ import annotations

import argparse
import base64
import binascii
import io
import json
import queue
import re
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast, get_args
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from assets.agent import generation, prompts
from assets.agent.model import load_model
from assets.agent.parameters import AgentParameters
from assets.agent.prompts import Prompt, SystemPrompt
from assets.errors import HesperError, InputError, ParameterError
from assets.stage import load_section, project_root

HOST = "127.0.0.1"
PORT = 8000
MAX_NEW_TOKENS = 512
"""Tokens of an answer where the request does not say."""


@dataclass(frozen=True)
class Limits:
    """What a request may ask of this machine.

    Attributes:
        body: bytes of a request.
        images: pictures in it.
        image: bytes of a picture.
        pixels: width times height of a picture.
        waiting: requests that wait for the model at once; the next is told to come again.
        rows: requests that are answered in one batch.
        gather: seconds that a request waits for others to be answered with.
        silence: seconds that a client may take to go on with what it was saying.
    """

    body: int = 64 << 20
    images: int = 8
    image: int = 20 << 20
    pixels: int = 1 << 24
    waiting: int = 64
    rows: int = 32
    gather: float = 0.01
    silence: float = 60.0


class ModelServer:
    """Serves one model folder from the moment it is made until it is closed.

    Args:
        folder: a Hugging Face model folder.
        system_prompt: that of the model's training.
        port: on loopback; 0 takes a free one.
        name: what requests call the model; the folder's name by default.
        threads: of torch; what torch takes by itself without it.

    Raises:
        InputError: the folder holds no model.
        ParameterError: the port is taken.
    """

    def __init__(
        self,
        folder: Path,
        system_prompt: SystemPrompt,
        port: int = 0,
        name: str | None = None,
        max_new_tokens: int = MAX_NEW_TOKENS,
        threads: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        try:
            self._http = _Http((HOST, port), _Request)
        except (OSError, OverflowError) as error:
            raise ParameterError(f"port {port} can't be had: {error}") from None
        self.name = name or folder.resolve().name
        self._http.name = self.name
        self._http.begun = int(time.time())
        self._http.limits = limits or Limits()
        self._http.system_prompt = system_prompt
        self._http.max_new_tokens = max_new_tokens
        try:
            self._http.model = self._model = _Model(folder, self._http.limits, threads)
        except BaseException:
            self._http.server_close()
            raise
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), name="serve", daemon=True)
        self._model.start()
        self._thread.start()

    @property
    def address(self) -> str:
        """The base address, as an OpenAI client takes it."""
        return f"http://{HOST}:{self._http.server_port}/v1"

    @property
    def batches(self) -> tuple[int, ...]:
        """How many requests were answered together, batch by batch."""
        return tuple(self._model.batches)

    def close(self) -> None:
        """Stop; requests that wait are told so."""
        self._http.shutdown()
        self._thread.join()
        self._model.close()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def serve(
    folder: Path,
    system_prompt: SystemPrompt,
    port: int,
    name: str | None = None,
    max_new_tokens: int = MAX_NEW_TOKENS,
    threads: int | None = None,
    ready: Callable[[ModelServer], None] | None = None,
) -> None:
    """Serve until Ctrl-C or SIGTERM; `ready` is called when requests are taken. Arguments and errors: `ModelServer`."""
    done = threading.Event()
    before = {number: signal.signal(number, lambda *_: done.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with ModelServer(folder, system_prompt, port, name, max_new_tokens, threads) as server:
            if ready is not None:
                ready(server)
            while not done.wait(0.2):
                pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# --- requests --------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """A request that gets an error instead of an answer, in the form of the OpenAI API."""

    def __init__(self, message: str, status: int = HTTPStatus.BAD_REQUEST, param: str | None = None, code: str = ""):
        super().__init__(message)
        self.status = int(status)
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code or None}}


class _Url(BaseModel):
    url: str


class _TextPart(BaseModel):
    type: Literal["text"]
    text: str


class _ImagePart(BaseModel):
    type: Literal["image_url"]
    image_url: _Url


class _Message(BaseModel):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[Annotated[_TextPart | _ImagePart, Field(discriminator="type")]]

    @property
    def parts(self) -> list[_TextPart | _ImagePart]:
        """The content as parts."""
        return [_TextPart(type="text", text=self.content)] if isinstance(self.content, str) else list(self.content)


class _ChatRequest(BaseModel):
    """What is understood of a request; everything else is in `model_extra`."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[_Message] = Field(min_length=1)
    temperature: float = Field(1.0, ge=0, le=2)
    max_tokens: PositiveInt | None = None
    max_completion_tokens: PositiveInt | None = None
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 63)


_WITHOUT_EFFECT = frozenset({"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"})
"""Parameters that don't change an answer."""
_NEUTRAL: dict[str, Any] = {
    **{"n": 1, "stream": False, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "logprobs": False},
    **{"stop": [], "tools": [], "logit_bias": {}, "response_format": {"type": "text"}},
}
"""Parameters that are not supported -> the value that asks for nothing."""


@dataclass(frozen=True)
class Question:
    """A request as the model takes it: pictures in the order of the chat, and how to answer."""

    images: tuple[bytes, ...]
    chat: tuple[dict[str, Any], ...]
    temperature: float
    max_new_tokens: int
    seed: int | None


def read_request(body: bytes, name: str, system_prompt: SystemPrompt, max_new_tokens: int, limits: Limits) -> Question:
    """The question that the body of a chat completion asks of the model `name`.

    Raises:
        Refused: it is none, asks for what is not done here, or for more than the limits allow.
    """
    try:
        request = _ChatRequest.model_validate_json(body)
    except ValidationError as error:
        trouble = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, trouble["loc"]))
        param = str(trouble["loc"][0]) if trouble["loc"] else None
        raise Refused(f"{place}: {trouble['msg']}" if place else str(trouble["msg"]), param=param) from None
    if request.model != name:
        raise Refused(
            f"no model '{request.model[:100]}' here, only '{name}'", HTTPStatus.NOT_FOUND, "model", "model_not_found"
        )
    for key, value in (request.model_extra or {}).items():
        if key not in _WITHOUT_EFFECT and value is not None and value != _NEUTRAL.get(key, ...):
            raise Refused(f"'{key[:100]}' is not supported here", param=key[:100], code="unsupported_parameter")
    images = [part for message in request.messages for part in message.parts if isinstance(part, _ImagePart)]
    if not images:
        raise Refused("the model answers about a screenshot: send at least one image_url part", param="messages")
    if len(images) > limits.images:
        raise Refused(f"{len(images)} pictures, at most {limits.images} are taken", param="messages")
    return Question(
        images=tuple(_picture(part.image_url.url, limits) for part in images),
        chat=tuple(_chat(request.messages, system_prompt)),
        temperature=request.temperature,
        max_new_tokens=request.max_completion_tokens or request.max_tokens or max_new_tokens,
        seed=request.seed,
    )


def _chat(messages: Sequence[_Message], system_prompt: SystemPrompt) -> list[dict[str, Any]]:
    """The messages as the chat template takes them. Without a system line the model is asked as it is of a screen."""
    chat: list[dict[str, Any]] = []
    if messages[0].role not in ("system", "developer"):
        chat.append({"role": "system", "content": prompts.reword(prompts.SCREEN, system_prompt)})
    for message in messages:
        if message.role == "user":
            parts: list[dict[str, str]] = [
                {"type": "text", "text": prompts.plain(part.text)} if isinstance(part, _TextPart) else {"type": "image"}
                for part in message.parts
            ]
            chat.append({"role": "user", "content": parts})
            continue
        texts = [part.text for part in message.parts if isinstance(part, _TextPart)]
        if len(texts) < len(message.parts):
            raise Refused(f"pictures belong in messages of the user, not of the {message.role}", param="messages")
        if message.role == "assistant":
            chat.append({"role": "assistant", "content": prompts.plain("".join(texts))})
        else:
            chat.append({"role": "system", "content": prompts.reword("".join(texts), system_prompt)})
    return chat


_DATA_URL = re.compile(r"data:image/(png|jpeg|webp);base64,")


def _picture(url: str, limits: Limits) -> bytes:
    """The bytes of a picture, its sizes checked before anything is decoded."""
    from PIL import Image

    start = _DATA_URL.match(url[:64])
    if start is None:
        raise Refused(
            "a picture is a data: URL of a PNG, JPEG or WebP, in base64; nothing is fetched", param="messages"
        )
    if (len(url) - start.end()) * 3 // 4 > limits.image:
        raise Refused(f"a picture of more than {limits.image} bytes", param="messages")
    try:
        data = base64.b64decode(url[start.end() :], validate=True)
        with Image.open(io.BytesIO(data), formats=["PNG", "JPEG", "WEBP"]) as picture:
            pixels = picture.width * picture.height
    except (binascii.Error, ValueError):
        raise Refused("a picture whose base64 is broken", param="messages") from None
    except (OSError, SyntaxError, Image.DecompressionBombError):
        raise Refused("a picture that is no PNG, JPEG or WebP, or is too large", param="messages") from None
    if pixels > limits.pixels:
        raise Refused(f"a picture of {pixels} pixels, at most {limits.pixels} are taken", param="messages")
    return data


# --- the model at work -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answered:
    """The text of an answer and what it took; `ended` is False where the length ran out."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    ended: bool


class _Model(threading.Thread):
    """The thread that owns the model; questions wait in a queue, and those that wait together are answered together."""

    def __init__(self, folder: Path, limits: Limits, threads: int | None) -> None:
        import torch

        super().__init__(name="model", daemon=True)
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder")
        self.model, self.processor = load_model(folder)
        self.batches: list[int] = []
        self._limits = limits
        self._threads = threads
        self._generator = torch.Generator(self.model.device)
        self._generator.seed()
        self._context = int(self.model.config.get_text_config().max_position_embeddings)
        self._waiting: queue.Queue[tuple[Question, Future[Answered]]] = queue.Queue(limits.waiting)
        self._closed = threading.Event()

    def ask(self, question: Question) -> Answered:
        """The answer, when its turn has come. From any thread.

        Raises:
            Refused: too many wait, or it can't be answered.
        """
        answer: Future[Answered] = Future()
        try:
            self._waiting.put_nowait((question, answer))
        except queue.Full:
            raise Refused(f"{self._limits.waiting} requests wait already", HTTPStatus.SERVICE_UNAVAILABLE) from None
        while True:
            try:
                return answer.result(1.0)
            except TimeoutError:
                if self._closed.is_set() and not self.is_alive():
                    raise Refused("the server was closed", HTTPStatus.SERVICE_UNAVAILABLE) from None

    def close(self) -> None:
        """Finish the batch under way and stop."""
        self._closed.set()
        self.join()

    def run(self) -> None:
        """The thread."""
        import torch

        if self._threads is not None:
            torch.set_num_threads(self._threads)
        while not self._closed.is_set():
            together = self._together()
            if together:
                self._answer(together)

    def _together(self) -> list[tuple[Question, Future[Answered]]]:
        """The next question and those that arrive with it; none if there was none for a while."""
        try:
            found = [self._waiting.get(timeout=0.2)]
        except queue.Empty:
            return []
        deadline = time.monotonic() + self._limits.gather
        while len(found) < self._limits.rows:
            try:
                found.append(self._waiting.get(timeout=max(0.0, deadline - time.monotonic())))
            except queue.Empty:
                break
        return found

    def _answer(self, asked: Sequence[tuple[Question, Future[Answered]]]) -> None:
        groups: dict[tuple[object, ...], list[tuple[Question, Prompt, Future[Answered]]]] = {}
        for number, (question, answer) in enumerate(asked):
            try:
                prompt = self._prompt(question)
            except Refused as refusal:
                answer.set_exception(refusal)
            except InputError as error:
                answer.set_exception(Refused(str(error), param="messages"))
            except Exception as error:  # a picture may be broken in more ways than can be listed
                answer.set_exception(Refused(f"a picture that can't be read: {type(error).__name__}", param="messages"))
            else:
                # Draws of one batch share a generator: a seed of one's own needs a batch of one's own.
                alone = number if question.seed is not None and question.temperature > 0 else None
                key = (question.temperature, question.max_new_tokens, alone)
                groups.setdefault(key, []).append((question, prompt, answer))
        for members in groups.values():
            self._answer_alike(members)

    def _prompt(self, question: Question) -> Prompt:
        grids = [self.processor.patches(image).grid for image in question.images]
        if len(set(grids)) > 1:
            raise Refused("the pictures of one request must be of one size", param="messages")
        tokens = [self.processor.image_tokens(grid) for grid in grids]
        prompt = prompts.encode_chat(self.processor.tokenizer, tokens, question.chat)
        length = len(prompt.prefix) + len(prompt.suffix) + question.max_new_tokens
        if length > self._context:
            raise Refused(
                f"prompt and answer may be {length} tokens long, the model takes {self._context}",
                param="messages",
                code="context_length_exceeded",
            )
        return prompt

    def _answer_alike(self, members: Sequence[tuple[Question, Prompt, Future[Answered]]]) -> None:
        """Answer questions that are to be answered in one way, in one batch."""
        import torch

        first = members[0][0]
        generator = self._generator
        if first.seed is not None:
            generator = torch.Generator(self.model.device).manual_seed(first.seed)
        try:
            drawn = generation.sample(
                self.model,
                self.processor,
                [(question.images, prompt) for question, prompt, _ in members],
                temperature=first.temperature,
                max_new_tokens=first.max_new_tokens,
                generator=generator,
            )
        except Exception as error:
            traceback.print_exc()
            for _, _, answer in members:
                answer.set_exception(
                    Refused(f"the model failed: {type(error).__name__}", HTTPStatus.INTERNAL_SERVER_ERROR)
                )
            return
        self.batches.append(len(members))
        for (_, prompt, answer), (one,) in zip(members, drawn, strict=True):
            length = len(prompt.prefix) + len(prompt.suffix)
            answer.set_result(Answered(generation.decode(self.processor, one), length, len(one.ids), one.ended))


# --- HTTP ------------------------------------------------------------------------------------------------------------


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    name: str
    begun: int
    limits: Limits
    system_prompt: SystemPrompt
    max_new_tokens: int
    model: _Model


class _Request(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.settimeout(self.server.limits.silence)

    def do_GET(self) -> None:
        self._reply(self._models)

    def do_POST(self) -> None:
        self._reply(self._chat_completion)

    def _models(self) -> dict[str, Any]:
        one = {"id": self.server.name, "object": "model", "created": self.server.begun, "owned_by": "hesper"}
        if self.path == "/v1/models":
            return {"object": "list", "data": [one]}
        if unquote(self.path) == f"/v1/models/{self.server.name}":
            return one
        raise Refused("there are GET /v1/models and POST /v1/chat/completions", HTTPStatus.NOT_FOUND)

    def _chat_completion(self) -> dict[str, Any]:
        body = self._body()
        if self.path != "/v1/chat/completions":
            raise Refused("there are GET /v1/models and POST /v1/chat/completions", HTTPStatus.NOT_FOUND)
        server = self.server
        question = read_request(body, server.name, server.system_prompt, server.max_new_tokens, server.limits)
        answered = server.model.ask(question)
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": server.name,
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": answered.text},
                    "finish_reason": "stop" if answered.ended else "length",
                    "logprobs": None,
                }
            ],
            "usage": {
                "prompt_tokens": answered.prompt_tokens,
                "completion_tokens": answered.completion_tokens,
                "total_tokens": answered.prompt_tokens + answered.completion_tokens,
            },
        }

    def _body(self) -> bytes:
        """The body, once its size is known to be within the limit."""
        # Until the body was read, what follows can't be told from it.
        last, self.close_connection = self.close_connection, True
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"[0-9]{1,12}", length):
            raise Refused("a request needs a Content-Length", HTTPStatus.LENGTH_REQUIRED)
        if int(length) > self.server.limits.body:
            raise Refused(
                f"a request of more than {self.server.limits.body} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            )
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the client hung up")
        self.close_connection = last
        # A page in a browser can send this type to another origin only after asking, and it is never told yes.
        if self.headers.get_content_type() != "application/json":
            raise Refused("a request is application/json", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        return body

    def _reply(self, work: Callable[[], dict[str, Any]]) -> None:
        """Send what `work` gives, or the error it ends in."""
        try:
            host = self.headers.get("Host", "")
            if not re.fullmatch(rf"(127\.0\.0\.1|localhost)(:{self.server.server_port})?", host):
                self.close_connection = True
                raise Refused("this server answers to its own name alone", HTTPStatus.FORBIDDEN)
            self._send(HTTPStatus.OK, work())
        except Refused as refusal:
            self._send(refusal.status, refusal.body)
        except OSError:  # the client is gone, or silent for too long
            self.close_connection = True
        except Exception:
            traceback.print_exc()
            self.close_connection = True
            self._send(500, Refused("the server failed", HTTPStatus.INTERNAL_SERVER_ERROR).body)

    def _send(self, status: int, value: Mapping[str, Any]) -> None:
        body = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            if status == HTTPStatus.SERVICE_UNAVAILABLE:
                self.send_header("Retry-After", "1")
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        """Quiet: what is asked is nobody else's business."""


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m assets.agent.server", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="a Hugging Face model folder")
    parser.add_argument("--port", type=int, default=PORT, help="on loopback; 0: a free one")
    parser.add_argument("--name", help="what requests call the model; default: the folder's name")
    parser.add_argument("--max-new-tokens", type=int, default=MAX_NEW_TOKENS, help="where a request does not say")
    parser.add_argument("--threads", type=int, help="of torch")
    parser.add_argument(
        "--system-prompt",
        choices=get_args(SystemPrompt),
        help="that of the model's training; default: agent.system_prompt of params.yaml",
    )
    given = parser.parse_args()
    try:
        system_prompt = cast(SystemPrompt | None, given.system_prompt) or project_system_prompt(project_root())
        serve(
            given.folder,
            system_prompt,
            given.port,
            given.name,
            given.max_new_tokens,
            given.threads,
            lambda server: print(server.address, flush=True),
        )
    except HesperError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def project_system_prompt(root: Path) -> SystemPrompt:
    """What the models of a project are trained with."""
    return load_section(root / "params.yaml", "agent", AgentParameters).system_prompt


if __name__ == "__main__":
    sys.exit(main())
