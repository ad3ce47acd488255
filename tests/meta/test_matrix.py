"""The README's table of servers and ways to end is what the tests run."""

from __future__ import annotations

from tests.servers import test_asgi_matrix as tests
from tests.support import matrix
from tests.support.processes import ROOT


def test_the_readme_has_the_table() -> None:
    readme = (ROOT / "README.md").read_text()
    assert matrix.table() in readme
    assert matrix.written(readme) == readme


def test_every_ending_of_the_table_is_tested() -> None:
    assert list(tests.WAYS) == list(matrix.ENDINGS)
    assert set(tests.LIFE) < set(matrix.ENDINGS)


def test_a_table_that_is_out_of_date_is_seen() -> None:
    readme = (ROOT / "README.md").read_text()
    assert matrix.written(readme.replace("| granian |", "| gramian |")) == readme
    assert matrix.table() not in readme.replace("| granian |", "| gramian |")
