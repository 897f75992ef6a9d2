"""Client of an OpenAI-compatible endpoint, with retries, a deadline and error messages.

The request runs in a thread of its own, and whoever asked waits for it no longer than the time limit: a time-out of a
socket starts anew with each byte, so a server that sends one now and then would never be given up. Nothing but what
was asked goes to the address that was named: no proxy of the environment, no redirection, no key, organisation or
project that other programs keep in the environment, and nothing of the machine it runs on. A parameter that a server
does not know is left out or renamed, once each, and the question sent again.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from ragcli.errors import LanguageModelAway, LanguageModelError
from ragcli.http_client import (
    MAX_CONNECT_SECONDS,
    ReplyRefused,
    bounded_transport,
    error_message_in,
    is_retryable_status,
    retry_after_seconds,
    shown_error_text,
)
from ragcli.llm.reply_parsing import Completion, collect_stream, strip_thinking, with_token_counts

if TYPE_CHECKING:
    import openai

    from ragcli.llm.usage_budget import LanguageModelSettings


_FIRST_RETRY_SECONDS: Final = 0.25
_MAX_RETRY_SECONDS: Final = 8.0


def retry_delay(error: Exception) -> float | None:
    """Seconds after which the question may be sent again, 0 where the server did not say; None: it is of no use."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        return None if _refused_reply(error) else 0.0
    if not isinstance(error, openai.APIStatusError):
        return None
    if error.status_code == 429 and "insufficient_quota" in str(error.code or ""):
        return None
    if not is_retryable_status(error.status_code):
        return None
    return retry_after_seconds(error.response.headers.get("retry-after"))


def is_server_failure(error: Exception) -> bool:
    """Is it the server that failed, so that it would fail another question for now, and not the question?"""
    import openai

    if isinstance(error, openai.APIStatusError):
        return retry_delay(error) is not None or error.status_code in (401, 403, 404, 429)
    return isinstance(error, openai.APIConnectionError)


def backoff_seconds(retries: int) -> float:
    """Seconds before the n-th retry where the server names none: doubling, and by chance a little more."""
    wait: float = min(_FIRST_RETRY_SECONDS * 2.0 ** (retries - 1), _MAX_RETRY_SECONDS)
    return wait * random.uniform(1.0, 1.5)  # noqa: S311


def without_rejected_parameter(parameters: Mapping[str, Any], error: Exception) -> dict[str, Any] | None:
    """The request without what this server complained about, or None if that is not what is wrong."""
    import openai

    if not isinstance(error, (openai.BadRequestError, openai.UnprocessableEntityError)):
        return None
    told = error.message.lower()
    if "max_tokens" in told and "max_tokens" in parameters and "max_completion_tokens" in told:
        changed = {key: value for key, value in parameters.items() if key != "max_tokens"}
        return changed | {"max_completion_tokens": parameters["max_tokens"]}
    for name in ("stream_options", "temperature"):
        if name in told and name in parameters:
            return {key: value for key, value in parameters.items() if key != name}
    return None


def error_reason(error: Exception, key: str) -> str:
    """Why there is no answer, as the end of a sentence, and without the key."""
    told = _error_text_of(error, key)
    return told.replace(key, "…") if key else told


def _error_text_of(error: Exception, key: str) -> str:
    import openai

    if isinstance(error, LanguageModelError):
        return str(error)
    if isinstance(error, openai.APITimeoutError):
        return "it took too long to answer"
    if (refused := _refused_reply(error)) is not None:
        return str(refused)
    if isinstance(error, openai.APIConnectionError):
        causes = list(_causes(error))
        reached = not any(type(each).__name__.startswith("Connect") for each in causes)
        failure = "the connection broke off" if reached else "it cannot be reached"
        return f"{failure} ({shown_error_text(str(causes[-1]), key)})"
    if isinstance(error, openai.APIStatusError):
        return _status_text(error.status_code, shown_error_text(error_message_in(error.body), key))
    if isinstance(error, openai.APIError):
        return f"it reports an error ({shown_error_text(error.message, key)})"
    if isinstance(error, (ValueError, TypeError, AttributeError, LookupError)):
        return "its answer does not keep to the protocol"
    return f"the answer broke off ({shown_error_text(str(error), key) or type(error).__name__})"


def _status_text(status: int, message: str) -> str:
    said = f" ({message})" if message else ""
    match status:
        case 401 | 403:
            return f"it refuses the key, or wants one{said}; [llm] api_key_env names the variable that holds it"
        case 404:
            return f"it knows no such model, or the address lacks its last part, often /v1{said}"
        case 429:
            return f"it is asked too often, or its quota is used up{said}"
        case _ if 300 <= status < 400:
            return "it redirects to another address, which is not followed; name that one if you trust it"
        case _:
            return f"it answers with the error {status}{said}"


def _refused_reply(error: Exception) -> ReplyRefused | None:
    return next((cause for cause in _causes(error) if isinstance(cause, ReplyRefused)), None)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


MAX_ATTEMPTS: Final = 4
"""How often one question is sent at most."""
_MAX_PARAMETER_CHANGES: Final = 3


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What is sent: messages as the protocol has them, and how long an answer may be."""

    messages: Sequence[Mapping[str, str]]
    max_tokens: int
    temperature: float


@dataclass(frozen=True, slots=True)
class _TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class _RetryNotice:
    text: str


_Event = _TextDelta | _RetryNotice | Completion | LanguageModelError


class OpenAIClient:
    """Where a model is asked. Connections are kept from answer to answer."""

    def __init__(self, settings: LanguageModelSettings, notify: Callable[[str], None] | None = None) -> None:
        self._settings = settings
        self._notify = notify
        self._client: openai.OpenAI | None = None

    def ask(self, request: CompletionRequest, on_text: Callable[[str], None] | None = None) -> Completion:
        """The whole answer; its parts go to `on_text` as they come, in the thread of the caller.

        Raises LanguageModelError when there is none, LanguageModelAway where it is of no use to ask something else.
        """
        client = self._opened()
        deadline = time.monotonic() + self._settings.timeout
        events: SimpleQueue[_Event] = SimpleQueue()
        # A daemon: a server that never answers must not keep the program from ending.
        threading.Thread(
            target=self._run, args=(client, request, on_text is not None, deadline, events), daemon=True
        ).start()
        try:
            while True:
                event = events.get(timeout=max(0.0, deadline - time.monotonic()))
                if isinstance(event, Completion):
                    return event
                if isinstance(event, LanguageModelError):
                    raise event
                if isinstance(event, _TextDelta) and on_text is not None:
                    on_text(event.text)
                elif isinstance(event, _RetryNotice) and self._notify is not None:
                    self._notify(event.text)
        except Empty:
            self._drop()
            raise self._failed(f"it took longer than {self._settings.timeout:g} s", LanguageModelAway) from None
        except LanguageModelError:
            raise
        except BaseException:
            self._drop()
            raise

    def _run(
        self,
        client: openai.OpenAI,
        request: CompletionRequest,
        stream: bool,
        deadline: float,
        events: SimpleQueue[_Event],
    ) -> None:
        """Ask until there is an answer, a reason to stop, or no time; whatever happens becomes an event."""
        try:
            events.put(self._asked(client, request, stream, deadline, events))
        except Exception as error:
            kind = LanguageModelAway if is_server_failure(error) else LanguageModelError
            events.put(self._failed(error_reason(error, self._key()), kind))

    def _asked(
        self,
        client: openai.OpenAI,
        request: CompletionRequest,
        stream: bool,
        deadline: float,
        events: SimpleQueue[_Event],
    ) -> Completion:
        import stamina

        told = _DeltaListener(events)
        parameters = self._parameters(request, stream)
        rewordings = 0

        def wait(error: Exception) -> float | bool:
            """Seconds until the question is sent again, or False where that would be of no use."""
            asked_for = retry_delay(error)
            if asked_for is None or told.anything:
                return False
            told.retries += 1
            seconds = asked_for if asked_for > 0 else backoff_seconds(told.retries)
            if time.monotonic() + seconds >= deadline:
                return False
            if told.retries < MAX_ATTEMPTS and seconds >= 1:
                events.put(_RetryNotice(f"{self._who()} gave no answer yet; asking again in {seconds:.0f} s."))
            return seconds

        for attempt in stamina.retry_context(on=wait, attempts=MAX_ATTEMPTS, timeout=None):
            with attempt:
                while True:
                    try:
                        return self._sent(client, parameters, deadline, told)
                    except Exception as error:
                        changed = without_rejected_parameter(parameters, error)
                        if changed is None or rewordings >= _MAX_PARAMETER_CHANGES:
                            raise
                        parameters, rewordings = changed, rewordings + 1
        raise AssertionError  # pragma: no cover (stamina raises the last error)

    def _sent(
        self, client: openai.OpenAI, parameters: Mapping[str, Any], deadline: float, told: _DeltaListener
    ) -> Completion:
        import openai

        left = max(0.05, deadline - time.monotonic())
        limits = openai.Timeout(left, connect=min(left, MAX_CONNECT_SECONDS))
        response: Any = client.chat.completions.create(**parameters, timeout=limits)
        reply = collect_stream(response, told.hear) if parameters.get("stream") else _read_unstreamed(response)
        if not reply.text:
            raise LanguageModelError("its answer is empty")
        return reply

    def _parameters(self, request: CompletionRequest, stream: bool) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "model": self._settings.model,
            "messages": list(request.messages),
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        }
        if stream:
            parameters |= {"stream": True, "stream_options": {"include_usage": True}}
        return parameters

    def _opened(self) -> openai.OpenAI:
        if self._client is None:
            key = self._key()
            if self._settings.api_key_env and not key:
                raise self._failed(
                    f"the environment variable {self._settings.api_key_env} holds no key", LanguageModelAway
                )
            self._client = _http_client(self._settings.base_url, key)
            # All libraries are loaded now, so that loading them is not counted as waiting for the server.
            import stamina

            # Without a handler, what stamina logs would go to stderr; the person is told by `notify`.
            logging.getLogger(stamina.__name__).addHandler(logging.NullHandler())
            _ = self._client.chat.completions
        return self._client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            # In its own thread, because closing may wait for the one that reads.
            threading.Thread(target=client.close, daemon=True).start()

    def _key(self) -> str:
        return os.environ.get(self._settings.api_key_env, "") if self._settings.api_key_env else ""

    def _who(self) -> str:
        return f"The language model {self._settings.model} at {self._settings.host}"

    def _failed(self, why: str, kind: type[LanguageModelError] = LanguageModelError) -> LanguageModelError:
        return kind(f"{self._who()} gave no answer: {why}.")


class _DeltaListener:
    """What has been told of an answer already; a question whose answer has begun is not sent again."""

    def __init__(self, events: SimpleQueue[_Event]) -> None:
        self.anything = False
        self.retries = 0
        self._events = events

    def hear(self, text: str) -> None:
        self.anything = True
        self._events.put(_TextDelta(text))


def _read_unstreamed(response: Any) -> Completion:
    """The answer of a server that was asked for all of it at once."""
    text = response.choices[0].message.content or ""
    if not isinstance(text, str):
        raise LanguageModelError("its answer is no text")
    return with_token_counts(strip_thinking(text), response.usage)


def _http_client(base_url: str, key: str) -> openai.OpenAI:
    import openai

    def bare(request: Any) -> None:
        """Take out of a request what says more than the question."""
        for name in list(request.headers):
            if name.lower().startswith(("x-stainless", "openai-")):
                del request.headers[name]
        request.headers["User-Agent"] = "ragcli"
        if not key:
            request.headers.pop("Authorization", None)

    http = openai.DefaultHttpxClient(
        follow_redirects=False, trust_env=False, transport=bounded_transport(), event_hooks={"request": [bare]}
    )
    return openai.OpenAI(base_url=base_url, api_key=key or "none", max_retries=0, http_client=http)
