"""`Client`: requests over HTTP that are tried again while a server is busy, restarts or cannot be reached."""

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from fairspan.errors import EncodingError

_CONNECT_SECONDS = 10.0
# Where nothing has ever answered, the address is more likely wrong than the server busy.
_FIRST_TRIES = 3
_SHORTEST_WAIT, _LONGEST_WAIT = 0.25, 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said in the end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    secret: str = field(default="", repr=False)

    @property
    def json(self) -> Any:
        """What the body holds; None if it is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    @property
    def message(self) -> str:
        """What the server says about an error, in one line."""
        found = self.json
        # OpenAI has error.message, others error, message or detail.
        for name in ("error", "message", "detail"):
            if isinstance(found, dict) and found.get(name):
                found = found[name]
        return self.quoted(found if isinstance(found, str) else self.body.decode("utf-8", "replace"), 300)

    def quoted(self, text: str, most: int) -> str:
        """The server's words in one line, without the key, should it repeat it."""
        return " ".join((text.replace(self.secret, "…") if self.secret else text).split())[:most]


@dataclass(slots=True)
class Client:
    """Sends requests to one server.

    Attributes:
        secret: the key that is sent as a bearer token.
        patience: seconds after the first failure of a request in which it is tried again.
        sleep, now, jitter: how to wait, the time, and a number between 0 and 1 that spreads waiting clients.
    """

    url: str
    secret: str = field(default="", repr=False)
    connections: int = 4
    timeout: float = 120.0
    patience: float = 300.0
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.time
    jitter: Callable[[], float] = random.random
    answered: bool = field(default=False, init=False)
    _pool: urllib3.PoolManager = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._pool = _pool_of(self.url, self.connections)

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """The answer, unless it says that the server is busy or failed: then the request is sent again."""
        first, tries = None, 0
        while True:
            tries, asked = tries + 1, None
            try:
                answer = self.send_once(method, path, body)
                if answer.status not in (408, 425, 429) and answer.status < 500:
                    return answer
                reason, asked = f"{answer.status}: {answer.message}", _retry_after(answer.headers, self.now())
            except SSLError as error:
                raise EncodingError(f"{self.url} has no certificate that can be trusted: {_brief(error)}.") from None
            except HTTPError as error:
                reason = _brief(error)
                if not self.answered and tries >= _FIRST_TRIES:
                    raise EncodingError(f"{self.url} does not answer ({reason}): check the address.") from None
            first = self.now() if first is None else first
            backoff = min(_LONGEST_WAIT, 0.5 * 2 ** (tries - 1)) * (0.5 + self.jitter() / 2)
            wait = backoff if asked is None else max(asked, _SHORTEST_WAIT)
            left = self.patience - (self.now() - first)
            if wait > left:
                said = f", and asks to wait {asked:,.0f} s" if asked else ""
                took = self.now() - first
                raise EncodingError(
                    f"{self.url} failed {tries} times in {took:.0f} s ({reason}){said}: try again later."
                )
            self.sleep(wait)

    def send_once(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """The answer, whatever it says."""
        sent = None if body is None else json.dumps(body, allow_nan=False).encode()
        key = {"Authorization": f"Bearer {self.secret}"} if self.secret else {}
        response = self._pool.request(
            method,
            self.url + path,
            body=sent,
            headers={**key, "Accept": "application/json", "Content-Type": "application/json"},
            timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=self.timeout),
            retries=False,
            redirect=False,
        )
        self.answered = True
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status, headers, response.data, self.secret)


def _pool_of(url: str, connections: int) -> urllib3.PoolManager:
    """Through the proxy that the environment names for this address, if any, as other programs do."""
    parsed = urllib3.util.parse_url(url)
    proxy = getproxies().get(parsed.scheme or "")
    settings: dict[str, Any] = {"maxsize": connections, "block": False}
    if not proxy or proxy_bypass(parsed.netloc or ""):
        return urllib3.PoolManager(**settings)
    signed = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=signed) if signed else None
    return urllib3.ProxyManager(proxy, proxy_headers=headers, **settings)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, given as such or as the date until which to wait; None if nothing readable is given."""
    given = headers.get("retry-after", "").strip()
    try:
        return max(0.0, float(given))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - now)
    except ValueError:
        return None


def _brief(error: HTTPError) -> str:
    """Why there is no answer, without the words of the library."""
    match error:
        case NameResolutionError():
            return "there is no host of that name"
        case NewConnectionError():
            return "connection refused" if "refused" in str(error) else "no connection"
        case ConnectTimeoutError() | ReadTimeoutError():
            return "it took too long"
        case ProxyError():
            return "the proxy that the environment names does not work"
    return " ".join(str(error).split())[:200] or type(error).__name__
