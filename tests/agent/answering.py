"""A real HTTP server that speaks the chat completions of the OpenAI API; a function stands in for the model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class AnsweringModel:
    """Answers by what the text of a question says, with a text or an HTTP status; keeps the parts of each question.

    Args:
        tokens: of every question and of every answer, for the usage that is reported.
    """

    def __init__(self, tokens: tuple[int, int]) -> None:
        self.answer: Callable[[str], str | int] = lambda text: "{}"
        self.asked: list[list[dict[str, Any]]] = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"][0]["content"]
                parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
                model.asked.append(parts)
                answer = model.answer("\n".join(part["text"] for part in parts if part["type"] == "text"))
                message = {"role": "assistant", "content": answer}
                reply = {
                    **{"id": "1", "object": "chat.completion", "created": 0, "model": "answering"},
                    "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
                    "usage": dict(zip(("prompt_tokens", "completion_tokens"), tokens, strict=True))
                    | {"total_tokens": sum(tokens)},
                }
                data = json.dumps(reply).encode()
                self.send_response(answer if isinstance(answer, int) else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"

    def close(self) -> None:
        """Answer no more."""
        self.server.shutdown()
        self.server.server_close()
