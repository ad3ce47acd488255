"""What can go wrong: one tree, every error with its data, every error picklable.

A message says what was found, what was expected, and what to do.
"""

from __future__ import annotations


def _shown(value: object) -> str:
    """Its repr; an int that Python will not write out is told by its size."""
    try:
        return repr(value)
    except ValueError:
        return f"an int of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"


class HardcapError(Exception):
    """Base of every error raised by hardcap.

    The constructor arguments are kept in ``args``, so each error survives pickling to another process.

    >>> try:
    ...     hardcap.open("web", limit="many")
    ... except hardcap.HardcapError as error:
    ...     print(error.args[0], "is wrong")
    limit is wrong
    """


class CapExceeded(HardcapError):
    """The cap leaves no room for this reservation. Amounts are units of ``resource``; ``headroom`` was to stay free.

    >>> limiter = hardcap.open("web", limits={"requests": 2, "tokens": 100})
    >>> limiter.admit(tokens=101)
    Traceback (most recent call last):
    hardcap.errors.CapExceeded: limiter 'web' has no room: 0 of 100 tokens in flight, 101 requested, which never fit ...
    """

    def __init__(self, name: str, resource: str, limit: int, in_flight: int, requested: int, headroom: int = 0) -> None:
        super().__init__(name, resource, limit, in_flight, requested, headroom)
        self.name = name
        self.resource = resource
        self.limit = limit
        self.in_flight = in_flight
        self.requested = requested
        self.headroom = headroom

    def __str__(self) -> str:
        spare = f" with {self.headroom} to stay free" if self.headroom else ""
        used = f"{self.in_flight} of {self.limit} {self.resource} in flight"
        if self.requested + self.headroom > self.limit:
            never = f"{self.requested} requested{spare}, which never fit while the limit is {self.limit}"
            return f"limiter '{self.name}' has no room: {used}, {never}"
        asked = f", {self.requested} more requested{spare}" if self.requested > 1 or spare else ""
        return f"limiter '{self.name}' is full: {used}{asked}"


class ReleaseError(HardcapError, ValueError):
    """More units of ``resource`` were to be released than this limiter holds. Nothing changed.

    >>> hardcap.open("web", limit=2).release()
    Traceback (most recent call last):
    hardcap.errors.ReleaseError: limiter 'web' cannot release 1 requests: this limiter holds 0, release each ...
    """

    def __init__(self, name: str, resource: str, held: int, requested: int) -> None:
        super().__init__(name, resource, held, requested)
        self.name = name
        self.resource = resource
        self.held = held
        self.requested = requested

    def __str__(self) -> str:
        return (
            f"limiter '{self.name}' cannot release {self.requested} {self.resource}: "
            f"this limiter holds {self.held}, release each reservation once"
        )


class ConfigError(HardcapError, ValueError):
    """A setting or an argument is not what it may be: ``key`` is ``value``, ``allowed`` says what may be.

    Raised before any file is touched, unless the file is what it contradicts. It is a ``ValueError`` too.

    >>> hardcap.open("web", limit=-1)
    Traceback (most recent call last):
    hardcap.errors.ConfigError: limit is -1, allowed: an integer from 0 to 2147483647, or for each resource ...
    """

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(key, value, allowed)
        self.key = key
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.key} is {_shown(self.value)}, allowed: {self.allowed}"


class SegmentError(HardcapError):
    """The shared segment cannot be used: ``segment`` is its path. What was ``found``, ``expected``, and what to do.

    >>> hardcap.inspect("wbe")
    Traceback (most recent call last):
    hardcap.errors.SegmentError: segment '...wbe': found nothing, expected a segment; check the name and the directory
    """

    def __init__(self, segment: str, found: str, expected: str, remedy: str = "") -> None:
        super().__init__(segment, found, expected, remedy)
        self.segment = segment
        self.found = found
        self.expected = expected
        self.remedy = remedy

    def __str__(self) -> str:
        text = f"segment '{self.segment}': found {self.found}, expected {self.expected}"
        return f"{text}; {self.remedy}" if self.remedy else text


class LayoutMismatch(SegmentError):
    """The segment has another memory layout, or a damaged header; somebody is attached, or no limit was given.

    >>> error = hardcap.LayoutMismatch("/dev/shm/hardcap-1000/web", "layout version 2", "version 1", "stop them")
    >>> print(error)
    segment '/dev/shm/hardcap-1000/web': found layout version 2, expected version 1; stop them
    """


class ModeMismatch(SegmentError):
    """The segment runs in the other mode, and somebody is attached to it.

    >>> limiter = hardcap.open("web", limit=2)
    >>> hardcap.open("web", mode="approximate")
    Traceback (most recent call last):
    hardcap.errors.ModeMismatch: segment '...web': found mode strict, expected mode approximate; stop all ...
    """


class SlotsExhausted(SegmentError):
    """Every slot of the segment belongs to a live process.

    >>> limiter = hardcap.open("web", limit=2, max_processes=1)
    >>> hardcap.open("web")
    Traceback (most recent call last):
    hardcap.errors.SlotsExhausted: segment '...web': found slot table full, 1 live, expected a free slot; raise ...
    """


class SegmentRetired(SegmentError):
    """The segment was removed by force, or its file removed or replaced. Open the name again for a new one.

    >>> limiter = hardcap.open("web", limit=2)
    >>> hardcap.unlink("web", force=True)
    >>> limiter.reserve()
    Traceback (most recent call last):
    hardcap.errors.SegmentRetired: segment '...web': found it retired by unlink --force, expected a segment in use; ...
    """


class SegmentClosed(SegmentError):
    """This limiter is closed.

    >>> with hardcap.open("web", limit=2) as limiter:
    ...     pass
    >>> limiter.in_flight
    Traceback (most recent call last):
    hardcap.errors.SegmentClosed: segment '...web': found this limiter closed, expected an open one; open the name again
    """


class BackendUnavailable(SegmentError):
    """The words backend asked for cannot be used here. There is never a silent fallback to a weaker mode.

    >>> error = hardcap.BackendUnavailable("/dev/shm/hardcap-1000/web", "no native core", "backend 'native'")
    >>> print(error)
    segment '/dev/shm/hardcap-1000/web': found no native core, expected backend 'native'
    """
