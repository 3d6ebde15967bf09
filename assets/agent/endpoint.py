"""A model that answers elsewhere, behind an OpenAI-compatible endpoint: for policies, researchers and judges."""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, PositiveInt

from assets.errors import InfrastructureError, ParameterError
from assets.stage import StageParameters

Message = Mapping[str, Any]
"""`{"role": ..., "content": text or parts}` as the chat completions of the OpenAI API take it."""


class Prices(StageParameters):
    """What a million tokens cost, in whatever currency the bill is in."""

    input: float = Field(0.0, ge=0)
    output: float = Field(0.0, ge=0)


class EndpointParameters(StageParameters):
    """Where a model answers.

    Attributes:
        url: base address, such as `http://127.0.0.1:8000/v1`; empty for none.
        model: the name it goes by there.
        key_variable: environment variable that holds the key. One that is not set is an error, but for this machine.
        seconds: for one answer; then it counts as a failure.
        retries: of a request that failed, each after a longer pause.
        concurrent: requests under way at once.
        temperature: of the sampling.
        max_new_tokens: of one answer.
        prices: of tokens, for the cost that is reported.
    """

    url: str = ""
    model: str = ""
    key_variable: str = "OPENAI_API_KEY"
    seconds: PositiveFloat = 60.0
    retries: int = Field(2, ge=0)
    concurrent: PositiveInt = 4
    temperature: float = Field(0.0, ge=0)
    max_new_tokens: PositiveInt = 512
    prices: Prices = Prices()


class EndpointError(InfrastructureError):
    """The endpoint did not answer, or not with a text. Never a failure of the model it was asked about."""


@dataclass
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


class Endpoint:
    """Asks one model. Safe to use from several threads.

    Raises:
        ParameterError: the address is no http(s) one, or the key is missing.
    """

    def __init__(self, parameters: EndpointParameters) -> None:
        from openai import OpenAI

        address = urlsplit(parameters.url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ParameterError(f"endpoint.url: '{parameters.url}' is no address such as http://127.0.0.1:8000/v1")
        if not parameters.model:
            raise ParameterError(f"endpoint.model: which of the models at {parameters.url}?")
        key = os.environ.get(parameters.key_variable, "")
        if not key and address.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ParameterError(f"the key of {address.hostname} is expected in the variable {parameters.key_variable}")
        self.parameters = parameters
        self.usage = Usage(prices=parameters.prices)
        self._counting = threading.Lock()
        self._client = OpenAI(
            base_url=parameters.url,
            api_key=key or "none",
            timeout=parameters.seconds,
            max_retries=parameters.retries,
        )

    def ask(self, messages: Sequence[Message]) -> str:
        """The answer to one conversation.

        Raises:
            EndpointError: there is none after all retries.
        """
        from openai import OpenAIError

        try:
            answer = self._client.chat.completions.create(
                model=self.parameters.model,
                messages=list(messages),  # type: ignore[arg-type]
                temperature=self.parameters.temperature,
                max_tokens=self.parameters.max_new_tokens,
            )
            text = answer.choices[0].message.content
        except (OpenAIError, ValueError, LookupError, AttributeError, TypeError) as error:
            # What an endpoint sends back may hold anything, the request's headers too: only the kind is said.
            status = getattr(error, "status_code", None)
            reason = type(error).__name__ + (f" (HTTP {status})" if status else "")
            self._count(failures=1)
            raise EndpointError(f"{self.parameters.model} at {self.parameters.url}: {reason}") from None
        spent = answer.usage
        self._count(
            input_tokens=spent.prompt_tokens if spent else 0, output_tokens=spent.completion_tokens if spent else 0
        )
        if not isinstance(text, str):
            raise EndpointError(f"{self.parameters.model} at {self.parameters.url}: an answer without text")
        return text

    def ask_all(self, conversations: Sequence[Sequence[Message]]) -> list[str | EndpointError]:
        """The answers to several conversations, asked side by side, each in its place."""

        def one(messages: Sequence[Message]) -> str | EndpointError:
            try:
                return self.ask(messages)
            except EndpointError as error:
                return error

        with ThreadPoolExecutor(self.parameters.concurrent) as pool:
            return list(pool.map(one, conversations))

    def _count(self, **counts: int) -> None:
        with self._counting:
            self.usage.requests += 1
            for name, count in counts.items():
                setattr(self.usage, name, getattr(self.usage, name) + count)


def text_part(text: str) -> dict[str, Any]:
    """Text as part of a message."""
    return {"type": "text", "text": text}


def image_part(png: bytes) -> dict[str, Any]:
    """A PNG as part of a message."""
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(png).decode()}}
