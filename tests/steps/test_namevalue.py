"""Files with settings behind them, as options have them."""

from __future__ import annotations

import pytest

from mmprep.errors import UsageError
from mmprep.steps.namevalue import located

FILES = ("a.tsv", "a,b.tsv", "a,b=c.tsv", "a#1.edf", 'a"b.tsv')


@pytest.fixture
def here(tmp_path, monkeypatch):
    for name in FILES:
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("text", "path", "part", "settings"),
    [
        *((name, name, "", {}) for name in FILES),
        ("a.tsv,rate=4", "a.tsv", "", {"rate": "4"}),
        ("a,b.tsv,rate=4,time=a, b", "a,b.tsv", "", {"rate": "4", "time": "a, b"}),
        ("a,b=c.tsv,unit=ms", "a,b=c.tsv", "", {"unit": "ms"}),
        ("a,b=c.tsv#x,y,unit=ms", "a,b=c.tsv", "x,y", {"unit": "ms"}),
        ("a#1.edf#EEG#2,rate=4", "a#1.edf", "EEG#2", {"rate": "4"}),
        ('"a,b.tsv"', "a,b.tsv", "", {}),
        ('"a,b=c.tsv"#x,unit=ms', "a,b=c.tsv", "x", {"unit": "ms"}),
    ],
)
@pytest.mark.usefixtures("here")
def test_what_exists_is_the_file_and_the_rest_are_settings(text, path, part, settings):
    assert located(text, "--stream") == (path, part, settings)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("text", "where"),
    [("b,c.tsv,rate=4", "b,c.tsv"), ('"b,c.tsv",rate=4', "b,c.tsv"), ("a.tsv,4", "a.tsv,4")],
)
def test_what_does_not_exist_is_named_whole(text, where):
    with pytest.raises(UsageError, match=f"^{where}: does not exist"):
        located(text, "--stream")
