"""The WSGI middleware, driven by the standard library's server side: from when until when a request counts."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.util import FileWrapper
from wsgiref.validate import validator

import pytest

import hardcap
from hardcap.wsgi import HardcapMiddleware
from tests.support.wsgi import PLAIN, App, Body, Environ, answers, call, serve


@pytest.fixture
def limiter(name: str, segment_dir: Path) -> Iterator[hardcap.Limiter]:
    with hardcap.open(name, limit=1, directory=segment_dir) as limiter:
        yield limiter


# --- B28: the answer is the application's, to the byte ---------------------------------------------------------------


def streams(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", list(PLAIN))
    yield from (b"one", b"two", b"three")


def writes(environ: Environ, start_response: Any) -> Iterable[bytes]:
    write = start_response("200 OK", list(PLAIN))
    write(b"written, ")
    return [b"and returned"]


def changes_its_mind(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", list(PLAIN))
    try:
        raise LookupError("before anything was sent")
    except LookupError:
        start_response("500 Internal Server Error", list(PLAIN), sys.exc_info())
    return [b"sorry"]


def sends_a_file(environ: Environ, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", list(PLAIN))
    made: Iterable[bytes] = environ["wsgi.file_wrapper"](io.BytesIO(bytes(100_000)))
    return made


APPS: dict[str, App] = {
    "a list of one": answers(b"whole"),
    "a list of three": answers(b"one", b"two", b"three"),
    "an empty list": answers(),
    "a generator": streams,
    "write": writes,
    "exc_info": changes_its_mind,
    "a file": sends_a_file,
}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("kind", APPS)
def test_b28_the_answer_is_that_of_the_bare_app_and_both_sides_keep_to_the_rules(
    limiter: hardcap.Limiter, kind: str, method: str
) -> None:
    bare = APPS[kind]
    assert serve(HardcapMiddleware(bare, limiter), method=method).sent == serve(bare, method=method).sent
    checked = validator(HardcapMiddleware(validator(bare), limiter))
    assert serve(checked, method=method).body == serve(validator(bare), method=method).body
    assert limiter.in_flight == 0
    assert limiter.snapshot().totals.admitted == 2


def test_b28_the_validator_would_see_a_response_that_is_not_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "unraisablehook", lambda raised: None)

    class Forgetful:
        def __init__(self, app: App) -> None:
            self._app = app

        def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
            yield from self._app(environ, start_response)

    serve(Forgetful(validator(answers(b"x"))))
    assert "without being closed" in capsys.readouterr().err


# --- B03: held until the response is closed --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in APPS if kind != "an empty list"])
def test_b03_the_unit_is_held_until_the_server_closes_the_response(limiter: hardcap.Limiter, kind: str) -> None:
    app = HardcapMiddleware(APPS[kind], limiter)
    response = call(app, FileWrapper)
    seen = [limiter.in_flight for _ in response]
    assert seen and set(seen) == {1}
    assert limiter.in_flight == 1
    assert serve(app).status == 503
    response.close()
    assert limiter.in_flight == 0
    response.close()
    assert limiter.in_flight == 0


def test_the_server_iterates_the_applications_own_iterator(limiter: hardcap.Limiter) -> None:
    body = Body(b"one", b"two")
    response = call(HardcapMiddleware(lambda environ, start_response: body, limiter))
    assert iter(response) is iter(body)
    response.close()
    assert (body.closed, limiter.in_flight) == (1, 0)


@pytest.mark.parametrize("chunks", [[], [b"one"], [b"one", b"two"]])
def test_a_response_has_a_length_where_the_applications_has_one(limiter: hardcap.Limiter, chunks: list[bytes]) -> None:
    response = call(HardcapMiddleware(answers(*chunks), limiter))
    assert len(response) == len(chunks)
    response.close()
    response = call(HardcapMiddleware(streams, limiter))
    assert not hasattr(response, "__len__") and response
    response.close()


def test_a_response_that_is_dropped_unclosed_gives_back_its_unit(limiter: hardcap.Limiter) -> None:
    response = call(HardcapMiddleware(answers(b"x"), limiter))
    assert limiter.in_flight == 1
    with pytest.warns(ResourceWarning, match="never released"):
        del response
    assert limiter.in_flight == 0


# --- the server's own file wrapper -----------------------------------------------------------------------------------


class SlottedWrapper:
    """A file wrapper, as some are written in C, whose instances take no attribute."""

    __slots__ = ("_file", "closed")

    def __init__(self, file: io.BytesIO) -> None:
        self._file = file
        self.closed = False

    def __iter__(self) -> Iterator[bytes]:
        return iter(lambda: self._file.read(10), b"")

    def close(self) -> None:
        self.closed = True


def unknown_to_the_server(file: io.BytesIO) -> FileWrapper:
    return FileWrapper(file)


@pytest.mark.parametrize(
    ("wrapper", "handed_on"), [(FileWrapper, True), (SlottedWrapper, False), (unknown_to_the_server, False)]
)
def test_a_file_is_handed_on_as_it_is(limiter: hardcap.Limiter, wrapper: Callable[..., Any], handed_on: bool) -> None:
    """The same object where it can be made to tell of its close; else one that is served like any other."""
    file = io.BytesIO(bytes(25))
    made = wrapper(file)
    response = call(HardcapMiddleware(lambda environ, start_response: made, limiter), wrapper)
    assert (response is made) is handed_on
    assert b"".join(response) == bytes(25)
    assert limiter.in_flight == 1
    response.close()
    assert limiter.in_flight == 0
    assert made.closed if wrapper is SlottedWrapper else file.closed


# --- B22: whatever raises, the unit is back once, and the error goes its way -----------------------------------------


class Cleanup(Exception): ...


ERRORS = [LookupError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), ExceptionGroup("x", [OSError()])]


class Fails(Body):
    def __init__(self, where: str, error: BaseException) -> None:
        super().__init__(b"one")
        self._where, self._error = where, error

    def __iter__(self) -> Iterator[bytes]:
        if self._where == "iter":
            raise self._error
        return self._items()

    def _items(self) -> Iterator[bytes]:
        yield b"one"
        if self._where == "next":
            raise self._error

    def close(self) -> None:
        super().close()
        if self._where == "close":
            raise self._error


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["call", "iter", "next", "close"])
def test_b22_whatever_raises_the_unit_is_back(limiter: hardcap.Limiter, where: str, error: BaseException) -> None:
    body = Fails(where, error)
    held: list[int] = []

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        held.append(limiter.in_flight)
        start_response("200 OK", list(PLAIN))
        if where == "call":
            raise error
        return body

    with pytest.raises(type(error)) as raised:
        serve(HardcapMiddleware(app, limiter))
    assert raised.value is error
    assert held == [1] and limiter.in_flight == 0
    assert (body.closed > 0) is (where != "call")
    assert serve(HardcapMiddleware(answers(b"x"), limiter)).status == 200


def test_b22_a_close_that_raises_after_the_body_did(limiter: hardcap.Limiter) -> None:
    class Both(Fails):
        def close(self) -> None:
            raise Cleanup

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", list(PLAIN))
        return Both("next", LookupError("x"))

    with pytest.raises(Cleanup):
        serve(HardcapMiddleware(app, limiter))
    assert limiter.in_flight == 0


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_b22_a_client_that_has_gone(limiter: hardcap.Limiter, error: type[OSError]) -> None:
    class Gone(io.BytesIO):
        def write(self, data: Any) -> int:
            if b"two" in bytes(data):
                raise error
            return super().write(data)

    body = Body(b"one", b"two", b"three")

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", list(PLAIN))
        return body

    output = Gone()
    serve(HardcapMiddleware(app, limiter), output=output)
    assert output.getvalue().endswith(b"one")
    assert (body.closed, limiter.in_flight) == (1, 0)


# --- several middlewares ---------------------------------------------------------------------------------------------


def test_nested_middlewares_of_one_name_count_once(
    limiter: hardcap.Limiter, name: str, segment_dir: Path, tmp_path: Path
) -> None:
    """By whatever path."""
    seen: list[int] = []
    (tmp_path / "link").symlink_to(segment_dir)

    def app(environ: Environ, start_response: Any) -> Iterable[bytes]:
        seen.append(limiter.in_flight)
        return answers(b"x")(environ, start_response)

    config = hardcap.Config(name, directory=tmp_path / "link")
    assert serve(HardcapMiddleware(HardcapMiddleware(app, config=config), limiter)).status == 200
    assert serve(HardcapMiddleware(HardcapMiddleware(app, limiter), config=config)).status == 200
    assert seen == [1, 1]
    assert limiter.in_flight == 0


def test_nested_middlewares_of_two_names_count_in_both(limiter: hardcap.Limiter, name: str, segment_dir: Path) -> None:
    with hardcap.open(f"{name}-other", limit=0, directory=segment_dir) as other:
        app = HardcapMiddleware(HardcapMiddleware(answers(b"x"), other), limiter)
        assert serve(app).status == 503
        assert limiter.in_flight == 0
        other.set_limit(1)
        assert serve(app).status == 200
        assert other.snapshot().totals.admitted == 1 and limiter.snapshot().totals.admitted == 2
