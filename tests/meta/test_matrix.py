"""The README's table of servers and ways to end is what the tests run."""

from __future__ import annotations

from tests.servers import test_asgi_matrix as tests
from tests.support import matrix


def test_the_readme_says_that_all_of_it_passes() -> None:
    readme = matrix.README.read_text()
    assert matrix.written(readme, matrix.EVERY) == readme
    assert readme.count(matrix.table(matrix.EVERY)) == 1


def test_what_has_not_passed_is_no() -> None:
    broken = ("killed", "granian")
    before, after = (matrix.table(passed).splitlines() for passed in (matrix.EVERY, matrix.EVERY - {broken}))
    ((was, is_now),) = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert was.startswith("| the worker is killed |")
    assert (was.count("yes"), is_now.count("yes"), is_now.count(" no ")) == (6, 5, 1)


def test_every_ending_of_the_table_is_tested() -> None:
    assert list(tests.WAYS) == list(matrix.ENDINGS)
