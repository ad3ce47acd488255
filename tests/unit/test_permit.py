"""What a permit in Python does where the contract's tests do not reach: forked, half made, at interpreter exit."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hardcap.amounts import Wanted
from hardcap.backend import choose
from hardcap.config import Config
from hardcap.connection import Connection
from hardcap.errors import ReleaseError
from hardcap.opening import open_limiter
from hardcap.permit import Permit
from hardcap.portable_limiter import PortableLimiter, PortablePermit

WANTED = ((0, 2), (1, 5))


@pytest.fixture
def connection(name: str, segment_dir: Path) -> Iterator[Connection]:
    config = Config(name, limits={"requests": 3, "tokens": 9}, directory=segment_dir, backend="atomics")
    connection = Connection(config, choose(config.backend, name), open_limiter)
    yield connection
    connection.close()


def admit(connection: Connection) -> Permit:
    """A permit that nobody else refers to."""
    return PortableLimiter(connection).admit(2, tokens=5)


def held(connection: Connection) -> int:
    return connection.live().held(0)


def test_its_text(connection: Connection) -> None:
    permit = admit(connection)
    assert repr(permit) == "<Permit {'requests': 2, 'tokens': 5}>"
    permit.release()
    assert repr(permit) == "<Permit {'requests': 2, 'tokens': 5} released>"


@pytest.mark.parametrize("tries", [True, False])
def test_inherited_by_a_fork_it_is_void_and_silent(connection: Connection, tries: bool) -> None:
    """As the fork hook leaves it in the child. A warning would be an error here."""
    permit, parents = admit(connection), connection.live()
    parents.disown()
    assert permit.released
    if tries:
        assert permit.release() is False
    del permit
    parents.closed = False
    assert held(connection) == 2


def test_forgotten_at_interpreter_exit_it_is_silent(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process holds comes back by its death."""
    permit = admit(connection)
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    del permit
    assert held(connection) == 2


def test_half_made_it_is_silent() -> None:
    with pytest.raises(TypeError):
        PortablePermit()  # type: ignore[call-arg]
    PortablePermit.__new__(PortablePermit)


def test_a_failed_release_is_told_once(connection: Connection) -> None:
    permit = admit(connection)
    connection.live().release(WANTED)
    with pytest.raises(ReleaseError):
        permit.release()
    assert permit.released
    assert permit.release() is False


def test_forgotten_it_warns_of_itself(connection: Connection) -> None:
    permit = admit(connection)
    with pytest.warns(ResourceWarning) as caught:
        del permit
    (warning,) = caught
    assert isinstance(warning.source, Permit)  # by which tracemalloc tells where it was taken
    assert (
        str(warning.message)
        == f"a permit for {{'requests': 2, 'tokens': 5}} of limiter '{connection.config.name}' was never released"
    )
    assert held(connection) == 0


def meanwhile(connection: Connection, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have another thread ``act`` once, right before an adjustment looks at what is held."""
    admission = connection.live()
    look = admission.check_held

    def check_held(wanted: Wanted) -> None:
        monkeypatch.undo()
        act()
        look(wanted)

    monkeypatch.setattr(admission, "check_held", check_held)


def test_adjusted_while_another_releases_it(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    permit = admit(connection)
    meanwhile(connection, monkeypatch, permit.release)
    assert permit.adjust(tokens=1) is False
    assert held(connection) == 0


def test_adjusted_while_another_adjusts_it(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    permit = admit(connection)
    meanwhile(connection, monkeypatch, lambda: permit.adjust(tokens=2))
    assert permit.adjust(tokens=1) is True
    assert permit.amounts == {"requests": 2, "tokens": 1}
    assert (held(connection), connection.live().held(1)) == (2, 1)
    permit.release()


def test_adjusted_once_a_bare_release_took_its_units(connection: Connection) -> None:
    permit = admit(connection)
    connection.live().release(WANTED)
    with pytest.raises(ReleaseError):
        permit.adjust(tokens=1)
    with pytest.raises(ReleaseError):
        permit.release()
