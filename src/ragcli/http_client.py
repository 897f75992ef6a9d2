"""What every client of a server shares: bounded replies, addresses, retries, and what is shown of an error.

A server is not trusted. Its reply is never decompressed (13 KB of nested gzip are 6 GB) and never longer than
`MAX_REPLY_BYTES`, which bounds a line of a stream too; no redirect is followed, and no proxy or .netrc of the
environment is asked, so that a key goes to the named address and nowhere else.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from ragcli.errors import UsageError
from ragcli.text.characters import truncate

if TYPE_CHECKING:
    import httpx2

MAX_REPLY_BYTES: Final = 16 << 20
MAX_CONNECT_SECONDS: Final = 10.0
_MAX_SHOWN_CHARS: Final = 200


class ReplyRefused(Exception):
    """A server sent more than is read of a reply, or a form that is not read at all."""


def validate_endpoint_url(url: str, *, what: str, key_option: str) -> None:
    """Raise UsageError unless the URL is http or https, and has neither a name nor a password in it.

    `what` begins the sentence ("The address of a language model"), `key_option` names where the key belongs.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or any(character.isspace() or not character.isprintable() for character in url):
        raise UsageError(f"{what} is an http or https one, such as http://localhost:11434/v1; {url!r} is none.")
    if parts.username is not None or parts.password is not None:
        raise UsageError(
            f"{what} has a password in it; put that in an environment variable and name the variable in {key_option}."
        )


def is_retryable_status(status: int) -> bool:
    """Whether a request that got this status may succeed when it is sent again."""
    return status in (408, 409, 425, 429) or status >= 500


def retry_after_seconds(header: str | None) -> float:
    """Seconds that a Retry-After header asks for, a number or a date (RFC 9110, 10.2.3); 0 where it says neither."""
    with suppress(ValueError, OverflowError):
        seconds = float(header or "")
        return max(seconds, 0.0) if math.isfinite(seconds) else 0.0
    with suppress(ValueError, TypeError, OverflowError):
        from email.utils import parsedate_to_datetime

        return max(parsedate_to_datetime(header or "").timestamp() - time.time(), 0.0)
    return 0.0


def error_message_in(body: object) -> str:
    """The message in the JSON body of an error, "" where it has none in one of the usual places."""
    if not isinstance(body, Mapping):
        return ""
    inner = body.get("message") or body.get("error") or body.get("detail")
    if isinstance(inner, Mapping):
        inner = inner.get("message")
    return inner if isinstance(inner, str) else ""


def shown_error_text(text: str, key: str = "") -> str:
    """What a server or a library says of an error, on one line, cut, and without the key."""
    words = " ".join(text.split()).rstrip(".")
    return truncate(words.replace(key, "…") if key else words, _MAX_SHOWN_CHARS)


def bounded_transport() -> httpx2.BaseTransport:
    """A transport that asks for uncompressed replies and refuses what is compressed or too long.

    Reading such a reply raises ReplyRefused.
    """
    import httpx2

    class BoundedStream(httpx2.SyncByteStream):
        def __init__(self, stream: httpx2.SyncByteStream) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            left = MAX_REPLY_BYTES
            for part in self._stream:
                left -= len(part)
                if left < 0:
                    raise ReplyRefused(f"it sent more than {MAX_REPLY_BYTES >> 20} MB")
                yield part

        def close(self) -> None:
            self._stream.close()

    class BoundedTransport(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            request.headers["accept-encoding"] = "identity"
            response = super().handle_request(request)
            if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
                response.close()
                raise ReplyRefused("its reply is compressed, though it was asked for a plain one")
            if isinstance(response.stream, httpx2.SyncByteStream):
                response.stream = BoundedStream(response.stream)
            return response

    return BoundedTransport(verify=_tls_verification(), trust_env=False)


def _tls_verification() -> Any:
    """The certificates that the system or the environment says to trust, else those of the library."""
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        return True
    import ssl

    return ssl.create_default_context()
