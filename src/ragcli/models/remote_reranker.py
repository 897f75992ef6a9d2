"""Rerank through an HTTP `/rerank` endpoint as Cohere and Jina define it.

A question and passages go there as JSON, an index and a score for each come back; vLLM, llama.cpp, Infinity and
others speak it too. Nothing is sent unless the user names such a reranker, and it is sent nowhere but to the address
named: no redirect is followed. Whatever goes wrong is `RerankerUnavailable`, so that the search can go on with what
is on this machine.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import numpy as np

from ragcli.config.config_keys import COHERE_PREFIX, JINA_PREFIX
from ragcli.errors import RerankerUnavailable, UsageError
from ragcli.http_client import (
    MAX_CONNECT_SECONDS,
    bounded_transport,
    error_message_in,
    is_retryable_status,
    retry_after_seconds,
    shown_error_text,
    validate_endpoint_url,
)
from ragcli.models.engine_interface import FloatArray

if TYPE_CHECKING:
    import httpx2

RERANK_TIMEOUT_SECONDS: Final = 30.0
"""Seconds for the scores of one question, retries included."""
RERANK_ATTEMPTS: Final = 3
RERANK_BATCH_SIZE: Final = 64
"""Passages in one request; a server of one's own often takes no more."""

_RETRY_SECONDS: Final = 0.5
_KEY_VARIABLES: Final = {COHERE_PREFIX: "COHERE_API_KEY", JINA_PREFIX: "JINA_API_KEY"}
_ADDRESSES: Final = {COHERE_PREFIX: "https://api.cohere.com/v2/rerank", JINA_PREFIX: "https://api.jina.ai/v1/rerank"}


@dataclass(frozen=True, slots=True)
class RerankEndpoint:
    """Where passages are sent to be scored. `model` is None where the server has only one.

    `key_env` names the environment variable with the key, None for a server that asks for none.
    """

    address: str
    model: str | None = None
    key_env: str | None = None

    @property
    def host(self) -> str:
        """The machine that is asked, and its port where one is named."""
        return urlsplit(self.address).netloc


def rerank_endpoint(name: str, *, key_env: str | None = None) -> RerankEndpoint:
    """The endpoint that a reranker's name stands for: `cohere:MODEL`, `jina:MODEL`, or an address.

    An address may end in `#MODEL` for a server that has several. `key_env` names the variable with the key, where
    that is not `COHERE_API_KEY` or `JINA_API_KEY`. Raises UsageError for an address that can't be one.
    """
    service, _, model = name.partition(":")
    if service in _ADDRESSES:
        if not model.strip():
            raise UsageError(f"'{name}' names no model; write it like cohere:rerank-v3.5 or jina:MODEL.")
        return RerankEndpoint(_ADDRESSES[service], model.strip(), key_env or _KEY_VARIABLES[service])
    address, _, model = name.partition("#")
    validate_endpoint_url(address, what="The address of a reranker elsewhere", key_option="reranker_key_env")
    return RerankEndpoint(address, model.strip() or None, key_env)


@dataclass(slots=True)
class RemoteReranker:
    """A `/rerank` endpoint behind the protocol of all rerankers. `timeout` is for one question, retries included."""

    name: str
    endpoint: RerankEndpoint
    timeout: float = RERANK_TIMEOUT_SECONDS
    _client: httpx2.Client | None = field(default=None, repr=False)

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        """(n,) the endpoint's score of each text, higher is better. Raises RerankerUnavailable."""
        scores = np.empty(len(texts), dtype=np.float32)
        deadline = time.monotonic() + self.timeout
        for start in range(0, len(texts), RERANK_BATCH_SIZE):
            batch = texts[start : start + RERANK_BATCH_SIZE]
            scores[start : start + len(batch)] = self._scores(query, batch, deadline)
        return scores

    def _scores(self, query: str, texts: Sequence[str], deadline: float) -> FloatArray:
        body: dict[str, Any] = {"query": query, "documents": list(texts), "top_n": len(texts)}
        if self.endpoint.model is not None:
            body["model"] = self.endpoint.model
        if self.endpoint.address != _ADDRESSES[COHERE_PREFIX]:
            body["return_documents"] = False
        sent = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
        return _read_scores(self._send(sent, deadline), len(texts), self.endpoint.host)

    def _send(self, body: bytes, deadline: float) -> bytes:
        """The reply to a request. A thread of its own asks: one that never ends is left behind and not waited for."""
        headers = {"content-type": "application/json", "accept": "application/json", **self._authorization()}
        replies: SimpleQueue[bytes | RerankerUnavailable] = SimpleQueue()
        Thread(target=lambda: replies.put(self._answered(body, headers, deadline)), daemon=True).start()
        try:
            reply = replies.get(timeout=max(deadline - time.monotonic(), 0.0))
        except Empty:
            self._client = None
            raise RerankerUnavailable(
                f"The reranker at {self.endpoint.host} did not answer within {self.timeout:g} s."
            ) from None
        if isinstance(reply, RerankerUnavailable):
            raise reply
        return reply

    def _answered(self, body: bytes, headers: dict[str, str], deadline: float) -> bytes | RerankerUnavailable:
        """The reply, asked for again where that may help and time is left, or what is wrong."""
        try:
            import httpx2
            import stamina
        except ImportError:
            return RerankerUnavailable("A reranker elsewhere needs the extra 'llm': pip install 'ragcli[llm]'.")

        def worth_retrying(error: Exception) -> bool | float:
            wait = error.wait if isinstance(error, _HttpStatusError) else _RETRY_SECONDS
            again = error.again if isinstance(error, _HttpStatusError) else isinstance(error, httpx2.TransportError)
            # A wait that outlasts the time there is would only waste it.
            return wait if again and wait < deadline - time.monotonic() else False

        # Without a handler, what stamina logs of its retries would go to stderr.
        logging.getLogger("stamina").addHandler(logging.NullHandler())
        try:
            for attempt in stamina.retry_context(on=worth_retrying, attempts=RERANK_ATTEMPTS, timeout=None):
                with attempt:
                    return self._post(body, headers, deadline)
        except _HttpStatusError as error:
            said = shown_error_text(error.said, headers.get("authorization", "").removeprefix("Bearer "))
            detail = f" ({said})" if said else ""
            return RerankerUnavailable(f"The reranker at {self.endpoint.host} answered {error.status}{detail}.")
        except Exception as error:
            return RerankerUnavailable(f"The reranker at {self.endpoint.host} {_transport_error_text(error)}.")
        raise AssertionError

    def _authorization(self) -> dict[str, str]:
        variable = self.endpoint.key_env
        if variable is None:
            return {}
        key = os.environ.get(variable, "").strip()
        if not key:
            raise RerankerUnavailable(
                f"The reranker at {self.endpoint.host} wants a key, and the environment variable {variable} has none."
            )
        if not key.isascii() or not key.isprintable():
            raise RerankerUnavailable(f"What the environment variable {variable} holds is no key.")
        return {"authorization": f"Bearer {key}"}

    def _post(self, body: bytes, headers: dict[str, str], deadline: float) -> bytes:
        import httpx2

        if self._client is None:
            # Neither a proxy nor a .netrc of the environment's has a part in it.
            self._client = httpx2.Client(follow_redirects=False, trust_env=False, transport=bounded_transport())
        left = max(deadline - time.monotonic(), 0.05)
        limits = httpx2.Timeout(left, connect=min(left, MAX_CONNECT_SECONDS))
        with self._client.stream("POST", self.endpoint.address, content=body, headers=headers, timeout=limits) as reply:
            content = reply.read()
        if reply.status_code == 200:
            return content
        raise _HttpStatusError(reply.status_code, _error_detail(content), reply.headers.get("retry-after"))


class _HttpStatusError(Exception):
    """An answer that is not 200."""

    def __init__(self, status: int, said: str, retry_after: str | None) -> None:
        super().__init__(str(status))
        self.status = status
        self.said = said
        self.again = is_retryable_status(status)
        self.wait = retry_after_seconds(retry_after) if retry_after else _RETRY_SECONDS


def _read_scores(reply: bytes, count: int, host: str) -> FloatArray:
    """The scores in a reply, one for each passage. RerankerUnavailable for anything else."""
    scores = np.full(count, np.nan, dtype=np.float32)
    try:
        results = json.loads(reply)["results"]
        for each in results:
            index, score = each["index"], each["relevance_score"]
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < count:
                raise ValueError
            scores[index] = float(score)
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        raise RerankerUnavailable(f"The reranker at {host} sent something that is no list of scores.") from error
    if not np.isfinite(scores).all():
        raise RerankerUnavailable(f"The reranker at {host} gave no score for some of the passages.")
    return scores


def _error_detail(reply: bytes) -> str:
    """What a refusal says; it may be anything."""
    with suppress(ValueError, RecursionError):
        if message := error_message_in(json.loads(reply)):
            return message
    return reply[:4096].decode("utf-8", "replace")


def _transport_error_text(error: Exception) -> str:
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return "did not answer in time"
    if isinstance(error, httpx2.ConnectError):
        return "cannot be reached"
    if isinstance(error, (httpx2.InvalidURL, httpx2.UnsupportedProtocol)):
        return "has an address that cannot be asked"
    words = shown_error_text(str(error))
    return f"broke off ({words})" if words else "broke off"
