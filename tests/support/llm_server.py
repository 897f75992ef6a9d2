"""A real HTTP server on the loopback that speaks the protocols of language models and rerankers, faults included.

    with llm_server(lambda request: "An answer [1].") as server:
        settings = LanguageModelSettings(server.base_url, "test")

`respond` is given what was sent, as JSON, and answers with a text or a `Fault`; a list is taken one by one, and its
last entry stays. `/v1/chat/completions` answers whole or streamed, as asked, a word at a time. `/rerank` and
`/v1/rerank` answer with a score for each document by `score`, by default the share of the question's words in it.
`requests` has what was sent, in order, with headers.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal


@dataclass(frozen=True)
class Fault:
    """What a server may do instead of answering.

    `status` refuses, with `headers` and the JSON `body` (or `raw` bytes). `hang` says nothing for so many seconds;
    `trickle` sends the headers and then a blank every tenth of a second, for ever. `malformed` is an answer that is no
    JSON, `odd` JSON that is no answer. `cut` breaks off after so many parts of a stream, or in the middle of a whole
    answer; `unfinished` ends a stream properly, but before the answer ends. `refuse` closes the connection unanswered.
    """

    kind: Literal["status", "hang", "trickle", "malformed", "odd", "cut", "unfinished", "refuse"] = "status"
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    raw: bytes | None = None
    seconds: float = 30.0
    parts: int = 1
    text: str = "one two three"


Answer = str | Fault
Respond = Callable[[dict[str, Any]], Answer]


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    path: str
    headers: HTTPMessage
    body: dict[str, Any]


@dataclass
class LlmServer:
    """The running server: its addresses, and what it was asked."""

    url: str
    requests: list[Received] = field(default_factory=list)
    usage: bool | Mapping[str, object] = True

    @property
    def base_url(self) -> str:
        """For chat: what stands before `/chat/completions`."""
        return f"{self.url}/v1"

    @property
    def rerank_url(self) -> str:
        """The whole address of the reranker."""
        return f"{self.url}/rerank"

    @property
    def prompts(self) -> list[str]:
        """The last message of every conversation, in the order they came."""
        return [each.body["messages"][-1]["content"] for each in self.requests if "messages" in each.body]


def shared_words(query: str, document: str) -> float:
    """The share of the query's words that stand in the document."""
    words = set(query.lower().split())
    return len(words & set(document.lower().split())) / max(len(words), 1)


@contextmanager
def llm_server(
    respond: Respond | Answer | Sequence[Answer] = "An answer.",
    *,
    score: Callable[[str, str], float] = shared_words,
    rerank_fault: Fault | None = None,
    usage: bool | Mapping[str, object] = True,
) -> Iterator[LlmServer]:
    """A server for the block, on a free port of the loopback.

    `usage` is what it says of the tokens it took: their number, nothing, or what is given.
    """
    script = _script(respond)
    over = threading.Event()

    class Handler(_Handler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length) or b"{}")
            state.requests.append(Received(self.path, self.headers, body))
            with suppress(BrokenPipeError, ConnectionResetError):
                if self.path.endswith("/rerank"):
                    self.rerank(body, rerank_fault, score, over)
                else:
                    self.chat(body, script(body), over, usage=state.usage)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = LlmServer(f"http://127.0.0.1:{server.server_port}", usage=usage)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _script(respond: Respond | Answer | Sequence[Answer]) -> Respond:
    if callable(respond):
        return respond
    answers = [respond] if isinstance(respond, (str, Fault)) else list(respond)
    lock = threading.Lock()

    def following(_: dict[str, Any]) -> Answer:
        with lock:
            return answers.pop(0) if len(answers) > 1 else answers[0]

    return following


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def chat(
        self, body: dict[str, Any], answer: Answer, over: threading.Event, *, usage: bool | Mapping[str, object]
    ) -> None:
        text = answer.text if isinstance(answer, Fault) else answer
        if isinstance(answer, Fault) and self.fault(answer, over):
            return
        told = _usage(body, text) if usage is True else usage or None
        if body.get("stream"):
            self.stream(text, answer if isinstance(answer, Fault) else None, told)
            return
        whole = {
            "id": "test",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body.get("model", ""),
            "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        }
        data = json.dumps(whole | ({"usage": told} if told else {})).encode()
        if isinstance(answer, Fault):  # cut or unfinished: more is announced than comes
            self.reply(200, data[: len(data) // 2], length=len(data))
            self.close_connection = True
        else:
            self.reply(200, data)

    def fault(self, fault: Fault, over: threading.Event) -> bool:
        """Whether the fault was all there is to say."""
        match fault.kind:
            case "status":
                body = fault.raw if fault.raw is not None else json.dumps(fault.body or {"error": "no"}).encode()
                self.reply(fault.status, body, headers=fault.headers)
            case "hang":
                over.wait(fault.seconds)
                self.close_connection = True
            case "trickle":
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                stop = time.monotonic() + fault.seconds
                while time.monotonic() < stop and not over.wait(0.1):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                self.close_connection = True
            case "malformed":
                self.reply(200, b'{"choices": [')
            case "odd":
                self.reply(200, json.dumps({"nothing": "here"} if fault.body is None else fault.body).encode())
            case "refuse":
                self.close_connection = True
            case "cut" | "unfinished":
                return False
        return True

    def stream(self, text: str, fault: Fault | None, usage: Mapping[str, object] | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        words = text.split(" ")
        parts = [word if number == 0 else f" {word}" for number, word in enumerate(words)]
        for part in parts if fault is None else parts[: fault.parts]:
            self.event({"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]})
        if fault is not None and fault.kind == "cut":
            self.close_connection = True
            return
        if fault is None:
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            if usage is not None:
                self.event({"choices": [], "usage": usage})
            self.piece(b"data: [DONE]\n\n")
        self.piece(b"")

    def event(self, value: dict[str, Any]) -> None:
        chunk = {"id": "test", "object": "chat.completion.chunk", "created": 0, "model": "test", **value}
        self.piece(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def piece(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def rerank(
        self,
        body: dict[str, Any],
        fault: Fault | None,
        score: Callable[[str, str], float],
        over: threading.Event,
    ) -> None:
        if fault is not None and self.fault(fault, over):
            return
        texts = [each["text"] if isinstance(each, dict) else each for each in body["documents"]]
        scores = [(number, score(body["query"], text)) for number, text in enumerate(texts)]
        scores.sort(key=lambda each: -each[1])
        results = [{"index": number, "relevance_score": value} for number, value in scores[: body.get("top_n")]]
        self.reply(200, json.dumps({"id": "test", "results": results}).encode())

    def reply(
        self, status: int, data: bytes, *, headers: Mapping[str, str] | None = None, length: int | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data) if length is None else length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def _usage(body: dict[str, Any], text: str) -> dict[str, int]:
    asked = sum(len(each["content"].split()) for each in body.get("messages", ()))
    answered = len(text.split())
    return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
