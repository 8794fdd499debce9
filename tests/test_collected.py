"""Every collected file is read as another reader reads it, or refused for a known reason."""

from __future__ import annotations

import pytest

from tests import collected


@pytest.fixture(scope="module")
def files(shared_folder):
    """Give every collected file."""
    return collected.collected()


def test_every_collected_file_belongs_to_a_case(files):
    taken = [file for case in collected.cases() for file in case.files]
    assert sorted(taken) == sorted(files)


def test_every_collected_file_agrees_with_another_reader_or_is_refused(files, memory):
    found = collected.rows(memory)
    print(f"\n{collected.table(found)}")
    wrong = [f"{row.case.name}: {row.verdict}" for row in found if not row.is_expected]
    assert not wrong, "\n".join(wrong)


def test_every_refusal_is_of_a_collected_file(files):
    names = [case.name for case in collected.cases()]
    for pattern in collected.REFUSED:
        assert any(collected.matches(name, pattern) for name in names), pattern
