"""Records as rows of CSV."""

from __future__ import annotations

import csv as reader
import io

from mmprep.exporters import csv
from mmprep.exporters.base import fields_of
from mmprep.manifest.model import Record, shard_ref


def _record(**changes):
    plain = {"id": "a", "session": "s", "begin_s": 0.0, "duration_s": 1.0, "streams": {}}
    return Record(**(plain | changes))


def _read(*records):
    rows = [csv.row_of(fields_of(one), one, dict.fromkeys(one.streams, "x")) for one in records]
    return list(reader.DictReader(io.StringIO(csv.encode(rows).decode(), newline="")))


def test_row_says_where_the_rows_are():
    eeg = shard_ref("eeg/shard-00000.npy", (3, 4), rate_hz=128.0)
    (row,) = _read(_record(streams={"eeg": eeg}, valid={"eeg": 0.5}, bound_s={"eeg": 4.1e-06}))
    assert (row["eeg.file"], row["eeg.begin"], row["eeg.end"]) == ("x", "3", "4")
    assert (row["eeg.rate_hz"], row["eeg.valid"], float(row["eeg.bound_s"])) == (
        "128.0",
        "0.5",
        4.1e-06,
    )


def test_text_survives_commas_quotes_and_newlines():
    text = '今天, "a"\r\nb'
    (row,) = _read(_record(text=text, id="s 4/a.b=c"))
    assert (row["text"], row["id"]) == (text, "s 4/a.b=c")


def test_what_a_record_lacks_is_an_empty_cell():
    first, second = _read(_record(labels={"v": 1, "w": True}), _record(id="b"))
    assert (first["labels.v"], first["labels.w"]) == ("1", "true")
    assert (second["labels.v"], second["labels.w"], second["label"]) == ("", "", "")
