"""What went wrong with a request: said to a person, and whether sending it again may help.

Servers that speak the same protocol differ in what they refuse. A parameter that one of them does not know is left
out or renamed, once each, and the question sent again.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from ragcli.errors import LanguageModelError

_LONGEST: Final = 200
_FIRST_WAIT: Final = 0.25
_LONGEST_WAIT: Final = 8.0


def retry_after(error: Exception) -> float | None:
    """Seconds after which the question may be sent again, 0 where the server did not say; None: it is of no use."""
    import openai

    if isinstance(error, openai.APIConnectionError):
        return 0.0
    if not isinstance(error, openai.APIStatusError):
        return None
    if error.status_code == 429 and "insufficient_quota" in str(error.code or ""):
        return None
    if error.status_code not in (408, 409, 425, 429) and error.status_code < 500:
        return None
    return _seconds(error.response.headers.get("retry-after", ""))


def away(error: Exception) -> bool:
    """Is it the server that failed, so that it would fail another question for now, and not the question?"""
    import openai

    if isinstance(error, openai.APIStatusError):
        return retry_after(error) is not None or error.status_code in (401, 403, 404, 429)
    return isinstance(error, openai.APIConnectionError)


def backoff(retries: int) -> float:
    """Seconds before the n-th retry where the server names none: doubling, and by chance a little more."""
    wait: float = min(_FIRST_WAIT * 2.0 ** (retries - 1), _LONGEST_WAIT)
    return wait * random.uniform(1.0, 1.5)  # noqa: S311


def in_other_words(parameters: Mapping[str, Any], error: Exception) -> dict[str, Any] | None:
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


def complaint(error: Exception, key: str) -> str:
    """Why there is no answer, as the end of a sentence, and without the key."""
    told = _told(error)
    return told.replace(key, "…") if key else told


def _told(error: Exception) -> str:
    import openai

    if isinstance(error, LanguageModelError):
        return str(error)
    if isinstance(error, openai.APITimeoutError):
        return "it took too long to answer"
    if isinstance(error, openai.APIConnectionError):
        causes = list(_causes(error))
        reached = not any(type(each).__name__.startswith("Connect") for each in causes)
        return f"{'the connection broke off' if reached else 'it cannot be reached'} ({_short(str(causes[-1]))})"
    if isinstance(error, openai.APIStatusError):
        return _of_status(error.status_code, _message(error))
    if isinstance(error, openai.APIError):
        return f"it reports an error ({_short(error.message)})"
    if isinstance(error, (ValueError, TypeError, AttributeError, LookupError)):
        return "its answer does not keep to the protocol"
    return f"the answer broke off ({_short(str(error)) or type(error).__name__})"


def _of_status(status: int, message: str) -> str:
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


def _message(error: Any) -> str:
    body = error.body
    if isinstance(body, Mapping):
        inner = body.get("message") or body.get("error") or body.get("detail")
        if isinstance(inner, Mapping):
            inner = inner.get("message")
        return _short(inner) if isinstance(inner, str) else ""
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _short(text: str) -> str:
    words = " ".join(text.split()).rstrip(".")
    return words if len(words) <= _LONGEST else words[:_LONGEST] + "…"


def _seconds(header: str) -> float:
    with suppress(ValueError):
        seconds = float(header)
        return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
    with suppress(ValueError, TypeError, OverflowError):
        from email.utils import parsedate_to_datetime

        return max(parsedate_to_datetime(header).timestamp() - time.time(), 0.0)
    return 0.0
