"""A model that answers elsewhere, behind an OpenAI-compatible endpoint: for policies, researchers and judges."""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, PositiveInt

from assets.errors import InfrastructureError, ParameterError
from assets.stage import StageParameters

Message = Mapping[str, Any]
"""`{"role": ..., "content": text or parts}` as the chat completions of the OpenAI API take it."""


class Prices(StageParameters):
    """What a million tokens cost, in whatever currency the bill is in."""

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)


class EndpointParameters(StageParameters):
    """Where a model answers.

    Attributes:
        url: base address, such as `http://127.0.0.1:8000/v1`, without credentials; empty for none.
        model: the name it goes by there.
        key_variable: environment variable that holds the key. One that is not set is an error, but for this machine.
        seconds: for one answer to begin, and again for all of it to arrive; then it counts as a failure.
        retries: of a request that failed before an answer began, each after a longer pause.
        concurrent: requests under way at once.
        temperature: of the sampling.
        max_new_tokens: of one answer.
        prices: of tokens, for the cost that is reported.
    """

    url: str = ""
    model: str = ""
    key_variable: str = "OPENAI_API_KEY"
    seconds: PositiveFloat = 60.0
    retries: int = Field(default=2, ge=0)
    concurrent: PositiveInt = 4
    temperature: float = Field(default=0.0, ge=0)
    max_new_tokens: PositiveInt = 512
    prices: Prices = Prices()


class EndpointError(InfrastructureError):
    """The endpoint did not answer, or not with a text. Never a failure of the model it was asked about."""


@dataclass(frozen=True)
class Usage:
    """What was asked so far."""

    requests: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prices: Prices = field(default_factory=Prices)

    @property
    def cost(self) -> float:
        """In the currency of the prices."""
        return (self.input_tokens * self.prices.input + self.output_tokens * self.prices.output) / 1e6

    def plus(self, other: Usage, sign: int = 1) -> Usage:
        """What was asked here and there; with `sign` -1 what was asked since the other."""
        names = ("requests", "failures", "input_tokens", "output_tokens")
        return replace(self, **{name: getattr(self, name) + sign * getattr(other, name) for name in names})


MOST_BYTES = 16 << 20
"""Largest answer that is read."""

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Endpoint:
    """Asks one model. Safe to use from several threads.

    It follows no redirection (screenshots go where they were sent, or nowhere), and reaches this machine without a
    proxy.

    Raises:
        ParameterError: the address is no http(s) one or holds credentials, or the key is missing.
    """

    def __init__(self, parameters: EndpointParameters) -> None:
        from openai import DefaultHttpxClient, OpenAI

        host = _host(parameters.url)
        if not parameters.model:
            raise ParameterError(f"endpoint.model: which of the models at {parameters.url}?")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", parameters.key_variable):
            raise ParameterError("endpoint.key_variable is the name of an environment variable, never the key itself")
        key = os.environ.get(parameters.key_variable, "")
        if not key and host not in _LOOPBACK:
            raise ParameterError(f"the key of {host} is expected in the variable {parameters.key_variable}")
        self.parameters = parameters
        self.usage = Usage(prices=parameters.prices)
        self._counting = threading.Lock()
        self._client = OpenAI(
            base_url=parameters.url,
            api_key=key or "none",
            timeout=parameters.seconds,
            max_retries=parameters.retries,
            http_client=DefaultHttpxClient(follow_redirects=False, trust_env=host not in _LOOPBACK),
        )

    def ask(self, messages: Sequence[Message]) -> str:
        """The answer to one conversation.

        Raises:
            EndpointError: there is none after all retries.
        """
        trouble = ""
        try:
            answer = json.loads(self._body(messages))
            text = answer["choices"][0]["message"]["content"]
            if not isinstance(text, str):
                raise TypeError("an answer without text")
            spent = answer.get("usage") or {}
            counts = {
                "input_tokens": int(spent.get("prompt_tokens") or 0),
                "output_tokens": int(spent.get("completion_tokens") or 0),
            }
        except (LookupError, TypeError, ValueError, AttributeError):
            trouble = "it sent something that is no answer"
        except Exception as error:
            # What an endpoint sends back may hold anything, the request's headers too: only the kind is said.
            status = getattr(error, "status_code", None)
            trouble = type(error).__name__ + (f" (HTTP {status})" if status else "")
        if trouble:  # raised out here, so that no traceback leads to the request
            self._count(failures=1)
            raise EndpointError(f"{self.parameters.model} at {self.parameters.url} did not answer: {trouble}")
        self._count(**counts)
        return text

    def _body(self, messages: Sequence[Message]) -> bytes:
        """The answer as it was sent."""
        asked = self._client.chat.completions.with_streaming_response.create(
            model=self.parameters.model,
            messages=list(messages),  # type: ignore[arg-type]
            temperature=self.parameters.temperature,
            max_tokens=self.parameters.max_new_tokens,
        )
        body = bytearray()
        with asked as response:
            deadline = time.monotonic() + self.parameters.seconds
            for piece in response.iter_bytes():
                body += piece
                if len(body) > MOST_BYTES:
                    raise OverflowError(f"more than {MOST_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise TimeoutError("an answer without end")
        return bytes(body)

    def ask_all(self, conversations: Sequence[Sequence[Message]]) -> list[str | EndpointError]:
        """The answers to several conversations, asked side by side, each in its place."""

        def one(messages: Sequence[Message]) -> str | EndpointError:
            try:
                return self.ask(messages)
            except EndpointError as error:
                return error

        with ThreadPoolExecutor(self.parameters.concurrent) as pool:
            return list(pool.map(one, conversations))

    def _count(self, failures: int = 0, input_tokens: int = 0, output_tokens: int = 0) -> None:
        asked = Usage(1, failures, input_tokens, output_tokens)
        with self._counting:
            self.usage = self.usage.plus(asked)


def _host(url: str) -> str:
    """The machine that an address names.

    Raises:
        ParameterError: it is no http(s) address, or it holds credentials.
    """
    address = urlsplit(url)
    if address.username or address.password or address.query or address.fragment:
        raise ParameterError(
            "endpoint.url is more than an address: a key belongs in the variable that key_variable names"
        )
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ParameterError(f"endpoint.url: '{url}' is no address such as http://127.0.0.1:8000/v1")
    return address.hostname


def text_part(text: str) -> dict[str, Any]:
    """Text as part of a message."""
    return {"type": "text", "text": text}


def image_part(png: bytes) -> dict[str, Any]:
    """A PNG as part of a message."""
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()}}
