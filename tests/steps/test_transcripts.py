"""Transcripts, plain and of LRS."""

from __future__ import annotations

import shutil

import pytest

from mmprep import DataError, run_convert
from mmprep.manifest.codec import read_manifest
from mmprep.steps.intake import transcripts
from tests.conftest import ROOT

LRS = """Text:  WHEN YOU'RE COOKING
Conf:  4

WORD START END ASDSCORE
WHEN 0.00 0.23 8.4
YOU'RE 0.23 0.44 9.0
COOKING 0.44 0.91 7.1
"""


def _read(tmp_path, text):
    (tmp_path / "t.txt").write_text(text, encoding="utf-8")
    return transcripts.read(tmp_path / "t.txt")


def test_plain_text_is_folded_to_one_line(tmp_path):
    assert _read(tmp_path, "\ufeff会议 今天\n在京\t召开\n") == ("会议 今天 在京 召开", None)


def test_lrs_text_is_its_first_line_and_the_table_its_words(tmp_path):
    text, words = _read(tmp_path, LRS)
    assert text == "WHEN YOU'RE COOKING"
    assert words == (("WHEN", 0.0, 0.23), ("YOU'RE", 0.23, 0.44), ("COOKING", 0.44, 0.91))


def test_lrs_without_a_table_has_no_words(tmp_path):
    assert _read(tmp_path, "Text:  HELLO\nConf:  5\n") == ("HELLO", None)


def test_word_without_its_times_is_located(tmp_path):
    with pytest.raises(DataError, match=r"t\.txt:3: 'HELLO x 1' is no word"):
        _read(tmp_path, "Text:  HELLO\nWORD START END ASDSCORE\nHELLO x 1\n")


def test_transcript_that_is_not_utf8_is_refused(tmp_path):
    (tmp_path / "t.txt").write_bytes("会".encode("gb18030"))
    with pytest.raises(DataError, match="not UTF-8"):
        transcripts.read(tmp_path / "t.txt")


def test_lrs_layout_gives_subject_part_text_and_words(tmp_path):
    folder = tmp_path / "lrs/trainval/0Fi83BHQsMA"
    folder.mkdir(parents=True)
    clip = next((ROOT / "sample_data/cmlr/video").rglob("*.mp4"))
    shutil.copy(clip, folder / "00002.mp4")
    (folder / "00002.txt").write_text(LRS)
    run_convert(tmp_path / "lrs", output=tmp_path / "out", layout="lrs", engine="serial")
    (record,) = read_manifest(tmp_path / "out/manifest.jsonl")
    assert record.id == "trainval/0Fi83BHQsMA/00002"
    assert (record.subject, record.extra["part"]) == ("0Fi83BHQsMA", "trainval")
    assert record.text == "WHEN YOU'RE COOKING"
    assert record.words[2] == ("COOKING", 0.44, 0.91)
