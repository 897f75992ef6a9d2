"""One answer from an OpenAI-compatible endpoint: asked, asked again where that helps, and always over in time.

The request runs in a thread of its own, and whoever asked waits for it no longer than the time limit: a time-out of
a socket starts anew with each byte, so a server that sends one now and then would never be given up. What the model
writes is handed on where it was asked for, so a reader that stops listening stops there.

Nothing but what was asked goes to the address that was named: no proxy of the environment, no redirection, no key,
organisation or project that other programs keep in the environment, and nothing of the machine it runs on.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from ragcli.errors import LanguageModelAway, LanguageModelError
from ragcli.llm.complaints import away, backoff, complaint, in_other_words, retry_after
from ragcli.llm.streaming import Reply, Thoughtless, collect, counted

if TYPE_CHECKING:
    import openai

    from ragcli.llm.settings import LanguageModelSettings

ATTEMPTS: Final = 4
"""How often one question is sent at most."""
_LONGEST_CONNECT: Final = 10.0
_REWORDINGS: Final = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent: messages as the protocol has them, and how long an answer may be."""

    messages: Sequence[Mapping[str, str]]
    max_tokens: int
    temperature: float


@dataclass(frozen=True, slots=True)
class _Part:
    text: str


@dataclass(frozen=True, slots=True)
class _Notice:
    text: str


_Event = _Part | _Notice | Reply | LanguageModelError


class Endpoint:
    """Where a model is asked. Connections are kept from answer to answer."""

    def __init__(self, settings: LanguageModelSettings, notify: Callable[[str], None] | None = None) -> None:
        self._settings = settings
        self._notify = notify
        self._client: openai.OpenAI | None = None

    def ask(self, request: Request, on_text: Callable[[str], None] | None = None) -> Reply:
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
                if isinstance(event, Reply):
                    return event
                if isinstance(event, LanguageModelError):
                    raise event
                if isinstance(event, _Part) and on_text is not None:
                    on_text(event.text)
                elif isinstance(event, _Notice) and self._notify is not None:
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
        self, client: openai.OpenAI, request: Request, stream: bool, deadline: float, events: SimpleQueue[_Event]
    ) -> None:
        """Ask until there is an answer, a reason to stop, or no time; whatever happens becomes an event."""
        try:
            events.put(self._asked(client, request, stream, deadline, events))
        except Exception as error:
            kind = LanguageModelAway if away(error) else LanguageModelError
            events.put(self._failed(complaint(error, self._key()), kind))

    def _asked(
        self, client: openai.OpenAI, request: Request, stream: bool, deadline: float, events: SimpleQueue[_Event]
    ) -> Reply:
        import stamina

        told = _Told(events)
        parameters = self._parameters(request, stream)
        rewordings = 0

        def wait(error: Exception) -> float | bool:
            """Seconds until the question is sent again, or False where that would be of no use."""
            asked_for = retry_after(error)
            if asked_for is None or told.anything:
                return False
            told.retries += 1
            seconds = asked_for if asked_for > 0 else backoff(told.retries)
            if time.monotonic() + seconds >= deadline:
                return False
            if told.retries < ATTEMPTS and seconds >= 1:
                events.put(_Notice(f"{self._who()} gave no answer yet; asking again in {seconds:.0f} s."))
            return seconds

        for attempt in stamina.retry_context(on=wait, attempts=ATTEMPTS, timeout=None):
            with attempt:
                while True:
                    try:
                        return self._sent(client, parameters, deadline, told)
                    except Exception as error:
                        changed = in_other_words(parameters, error)
                        if changed is None or rewordings >= _REWORDINGS:
                            raise
                        parameters, rewordings = changed, rewordings + 1
        raise AssertionError  # pragma: no cover (stamina raises the last error)

    def _sent(self, client: openai.OpenAI, parameters: Mapping[str, Any], deadline: float, told: _Told) -> Reply:
        import openai

        left = max(0.05, deadline - time.monotonic())
        limits = openai.Timeout(left, connect=min(left, _LONGEST_CONNECT))
        response: Any = client.chat.completions.create(**parameters, timeout=limits)
        reply = collect(response, told.hear) if parameters.get("stream") else _whole(response)
        if not reply.text:
            raise LanguageModelError("its answer is empty")
        return reply

    def _parameters(self, request: Request, stream: bool) -> dict[str, Any]:
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
            self._client = _client(self._settings.base_url, key)
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


class _Told:
    """What has been told of an answer already; a question whose answer has begun is not sent again."""

    def __init__(self, events: SimpleQueue[_Event]) -> None:
        self.anything = False
        self.retries = 0
        self._events = events

    def hear(self, text: str) -> None:
        self.anything = True
        self._events.put(_Part(text))


def _whole(response: Any) -> Reply:
    """The answer of a server that was asked for all of it at once."""
    thoughtless = Thoughtless()
    text = response.choices[0].message.content or ""
    if not isinstance(text, str):
        raise LanguageModelError("its answer is no text")
    said = (thoughtless.feed(text) + thoughtless.rest()).strip()
    return counted(said, response.usage)


def _client(base_url: str, key: str) -> openai.OpenAI:
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
        follow_redirects=False, trust_env=False, verify=_certificates(), event_hooks={"request": [bare]}
    )
    return openai.OpenAI(base_url=base_url, api_key=key or "none", max_retries=0, http_client=http)


def _certificates() -> Any:
    """The certificates that the system or the environment says to trust, else those of the library."""
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        return True
    import ssl

    return ssl.create_default_context()
