"""Names that a format can hold, and back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.errors import DataError
from mmprep.exporters.base import PORTABLE, escape, unescape

quick = settings(deadline=None, max_examples=60)


@quick
@given(st.text(), st.sampled_from([PORTABLE, re.compile(r"[^ /]"), re.compile(r"[a-z=]")]))
def test_unescape_gives_back_what_was_escaped(name, allowed):
    assert unescape(escape(name, allowed)) == name


@quick
@given(st.lists(st.text(), unique=True, max_size=20))
def test_escape_gives_different_names_to_different_ids(names):
    assert len({escape(name) for name in names}) == len(names)


@quick
@given(st.text())
def test_escape_leaves_only_what_is_allowed(name):
    assert re.fullmatch(r"[A-Za-z0-9_=-]*", escape(name))


def test_escape_writes_each_byte_of_a_refused_character():
    assert escape("s4/今 a=b") == "s4=2F=E4=BB=8A=20a=3Db"


@pytest.mark.parametrize("name", ["a=", "=2", "=2f", "=GG", "==3D", "=FF"])
def test_unescape_when_escape_cannot_have_written_it_then_an_error(name):
    with pytest.raises(DataError, match="is no escaped name"):
        unescape(name)
