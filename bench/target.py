"""The service to be measured: its name is looked up once, and judged by every address that it has."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

from yarl import URL

from bench.results import Unusable


@dataclass(frozen=True)
class Target:
    """A URL, and the addresses to which alone its requests go."""

    url: URL
    addresses: tuple[str, ...]


def look_up(text: str, allow_remote: bool) -> Target:
    """``Unusable`` unless it is an HTTP URL whose host can be resolved, to loopback alone if remote is not allowed."""
    url = _parsed(text)
    addresses = _addresses(url)
    for address in addresses:
        if not allow_remote and not ip_address(address.partition("%")[0]).is_loopback:
            raise Unusable(f"'{url.host}' is at {address}, allowed: loopback (anything with --allow-remote)")
    return Target(url, addresses)


def _parsed(text: str) -> URL:
    try:
        url = URL(text)
    except ValueError as error:
        raise Unusable(f"cannot read the URL {text!r}: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise Unusable(f"URL is {text!r}, allowed: http://HOST or https://HOST, with port and path")
    return url


def _addresses(url: URL) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise Unusable(f"cannot look up '{url.host}': {getattr(error, 'strerror', None) or error}") from error
    return tuple(dict.fromkeys(str(place[0]) for *_, place in found))
