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
    """


class CapExceeded(HardcapError):
    """The cap leaves no room for this reservation. Amounts are units of ``resource``; ``headroom`` was to stay free."""

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
    """More was to be released than this limiter holds. Nothing changed."""

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
    """A setting is not what it may be. Raised before any file is touched, unless the file is what it contradicts."""

    def __init__(self, key: str, value: object, allowed: str) -> None:
        super().__init__(key, value, allowed)
        self.key = key
        self.value = value
        self.allowed = allowed

    def __str__(self) -> str:
        return f"{self.key} is {_shown(self.value)}, allowed: {self.allowed}"


class SegmentError(HardcapError):
    """The shared segment cannot be used: ``segment`` is its path."""

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
    """The segment was written by a hardcap with another memory layout, and somebody is attached to it."""


class ModeMismatch(SegmentError):
    """The segment runs in the other mode, and somebody is attached to it."""


class SlotsExhausted(SegmentError):
    """Every slot of the segment belongs to a live process."""


class SegmentRetired(SegmentError):
    """The segment was removed by force, or its file removed or replaced. Open the name again for a new one."""


class SegmentClosed(SegmentError):
    """This limiter is closed."""


class BackendUnavailable(SegmentError):
    """The words backend asked for cannot be used here. There is never a silent fallback to a weaker mode."""
