"""All that is wrong with a data set, as values."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.errors import DataError, UsageError
from mmprep.manifest import codec, validate
from mmprep.manifest.model import (
    Dataset,
    FileEntry,
    LabelCount,
    Modality,
    Record,
    Session,
    ShardEntry,
    Totals,
    shard_ref,
    table_ref,
)
from mmprep.manifest.validate import Finding, Header

quick = settings(deadline=None, max_examples=60)

SHARD = "eeg/shard-00000.npy"
TABLE = "tables/gsr/x.parquet"


@dataclass
class Held:
    """Files in memory; `outside` are links that lead out, `broken` cannot be parsed."""

    data: dict[str, bytes]
    headers: dict[str, Header] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)

    def names(self):
        return list(self.data)

    def is_inside(self, name):
        return name not in self.outside

    def n_bytes(self, name):
        return len(self.data[name]) if name in self.data else None

    def sha256(self, name):
        return hashlib.sha256(self.data[name]).hexdigest()

    def header(self, name):
        if name not in self.headers:
            raise DataError("is no shard", where=name)
        return self.headers[name]

    def table_rows(self, name):
        if not self.data[name].startswith(b"PAR1"):
            raise DataError("is no table", where=name)
        return len(self.data[name]) - 4

    def n_lines(self, name):
        return self.data[name].count(b"\n")


def _record(number=0, **changes):
    fields = {
        "id": f"s/{number}",
        "session": "s",
        "begin_s": float(number),
        "duration_s": 1.0,
        "label": "fear",
        "split": "train",
        "streams": {
            "eeg": shard_ref(SHARD, (number, number + 1), rate_hz=4.0),
            "gsr": table_ref(TABLE, (0, 3), rate_hz=None, clock="gsr"),
        },
        "valid": {"eeg": 0.5},
        "bound_s": {"eeg": None},
    }
    return Record(**(fields | changes))


def _entry(data):
    return FileEntry(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())


@dataclass
class Set:
    """A sound data set of two windows, to be spoilt."""

    records: list[Record] = field(default_factory=lambda: [_record(0), _record(1)])
    changes: dict[str, object] = field(default_factory=dict)

    def __post_init__(self):
        self.files = Held({SHARD: b"shard", TABLE: b"PAR1rows"})
        self.files.headers[SHARD] = Header("<f4", (2, 4))
        self.write()

    def write(self):
        lines = b"".join(codec.encode_records(self.records))
        self.files.data["manifest.jsonl"] = lines
        listed = {
            name: _entry(data)
            for name, data in self.files.data.items()
            if name not in {SHARD, "dataset.json"}
        }
        self.files.data["dataset.json"] = codec.encode_dataset(self.dataset(listed))

    def dataset(self, listed):
        shard = ShardEntry(
            path=SHARD,
            rows=2,
            bytes=5,
            sha256=hashlib.sha256(b"shard").hexdigest(),
            row_shape=(4,),
        )
        fields = {
            "mmprep_version": "0",
            "step": "align",
            "step_version": 1,
            "modalities": {"eeg": Modality(dtype="float32", shards=(shard,))},
            "sessions": {"s": Session()},
            "labels": {"fear": LabelCount(count=len(self.records))},
            "splits": {"train": {"records": len(self.records)}},
            "totals": Totals(
                records=len(self.records),
                seconds=float(len(self.records)),
                bytes=5 + sum(entry.bytes for entry in listed.values()),
            ),
            "files": listed,
        }
        return Dataset(**(fields | self.changes))

    def check(self, **options):
        lines = [
            codec.decode_record(line) for line in self.files.data["manifest.jsonl"].splitlines()
        ]
        return validate.validate(self.files.data["dataset.json"], lines, self.files, **options)


def _found(spoilt, **options):
    return [str(finding) for finding in spoilt.check(**options).findings]


def _of(*records, **changes):
    return Set(list(records), changes)


# Soundness


def test_validate_of_a_sound_data_set_finds_nothing():
    checked = Set().check(checksums=True)
    assert checked.findings == ()
    assert (checked.n_records, checked.n_files) == (2, 3)


def test_validate_counts_every_byte_when_it_hashes_all():
    checked = Set().check(checksums=True)
    assert checked.n_bytes_hashed == checked.n_bytes


def test_validate_without_checksums_hashes_nothing():
    assert Set().check().n_bytes_hashed == 0


def test_subsets_together_hash_every_file_once():
    parts = [Set().check(checksums=True, subset=(k, 2)).n_bytes_hashed for k in (1, 2)]
    assert sum(parts) == Set().check().n_bytes
    assert all(parts)


def test_validate_finds_many_things_at_once():
    spoilt = _of(_record(0, id="x", session="t", source="../x"), _record(1, id="x"))
    assert len(_found(spoilt)) == 3


# Lines


def test_validate_when_a_line_is_bad_then_goes_on_after_it():
    good = Set()
    lines = [DataError("not JSON", where="manifest.jsonl:1"), _record(1)]
    checked = validate.validate(good.files.data["dataset.json"], lines, good.files)
    assert Finding("manifest.jsonl:1", "not JSON") in checked.findings
    assert checked.n_records == 1


def test_validate_when_an_id_stands_twice_then_names_both_lines():
    assert _found(_of(_record(0), _record(1, id="s/0"))) == [
        "manifest.jsonl:2: id 's/0' stands at manifest.jsonl:1 already"
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"valid": {"eeg": 1.5}}, "valid.eeg is 1.5, not between 0 and 1"),
        ({"bound_s": {"eeg": -1e-6}}, "bound_s.eeg is -1e-06, below 0"),
        ({"valid": {"ecg": 0.5}}, "bound of 'ecg', which is none of its streams"),
        ({"source": "/etc/passwd"}, "source '/etc/passwd' is not below the input root"),
        ({"words": (("a", 2.0, 1.0),)}, "word 'a' ends at 1.0 s, before it begins"),
        ({"session": "t"}, "session 't' is not in dataset.json"),
        ({"streams": {"eeg": shard_ref(SHARD, (1, 3), rate_hz=4.0)}}, "go beyond the 2 of"),
        ({"streams": {"eeg": shard_ref(SHARD, (2, 1), rate_hz=4.0)}}, "run backwards"),
        ({"streams": {"eeg": shard_ref(SHARD, (0, 1), rate_hz=-4.0)}}, "-4.0 Hz is not positive"),
        ({"streams": {"ecg": shard_ref(SHARD, (0, 1), rate_hz=4.0)}}, "is no shard of 'ecg'"),
        ({"streams": {"eeg": shard_ref("../x.npy", (0, 1), rate_hz=4.0)}}, "climbs out with .."),
        (
            {"streams": {"g": table_ref("t.parquet", (0, 1), rate_hz=None, clock=None)}},
            "table 't.parquet' is not in dataset.json",
        ),
    ],
)
def test_validate_when_a_record_is_wrong_then_says_so(changes, message):
    spoilt = _of(_record(0, **({"valid": None, "bound_s": None} | changes)))
    found = [text for text in _found(spoilt) if message in text]
    assert len(found) == 1
    assert found[0].startswith("manifest.jsonl:1: ")


def test_validate_when_rows_go_beyond_a_table_then_says_so():
    ref = table_ref(TABLE, (0, 9), rate_hz=None, clock=None)
    assert _found(_of(_record(0, streams={"gsr": ref}, valid=None, bound_s=None))) == [
        f"{TABLE}: has 4 rows, the manifest names 9"
    ]


# dataset.json


def test_validate_when_dataset_json_was_edited_then_says_so():
    spoilt = Set()
    data = spoilt.files.data
    data["dataset.json"] = data["dataset.json"].replace(b'"step": "align"', b'"step": "slign"')
    assert "dataset.json: was changed after it was written" in _found(spoilt)[0]


def test_validate_when_dataset_json_cannot_be_read_then_still_checks_the_lines():
    spoilt = _of(_record(0, valid={"eeg": 2.0}))
    spoilt.files.data["dataset.json"] = b"{"
    found = _found(spoilt)
    assert found[0].startswith("dataset.json: not JSON")
    assert found[1].startswith("manifest.jsonl:1: valid.eeg")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": {"joy": LabelCount(count=1)}}, "labels.fear counts 0, the manifest has 2"),
        ({"splits": {"train": 1}}, "splits.train counts 1, the manifest has 2"),
        ({"totals": Totals(records=3)}, "totals.records is 3, the manifest has 2 lines"),
        ({"totals": Totals(seconds=7.0)}, "totals.seconds is 7.0, the records add up to 2.0"),
        ({"totals": Totals(bytes=1)}, "totals.bytes is 1, the files add up to"),
        ({"totals": Totals(failures=1)}, "totals.failures is 1, failures.jsonl has 0 lines"),
    ],
)
def test_validate_when_a_sum_is_wrong_then_says_so(changes, message):
    assert any(message in text for text in _found(Set(changes=changes)))


# Files


def test_validate_when_a_file_is_missing_then_says_so():
    spoilt = Set()
    del spoilt.files.data[SHARD]
    assert _found(spoilt) == [f"{SHARD}: is missing or no regular file"]


def test_validate_when_a_file_has_another_size_then_says_so():
    spoilt = Set()
    spoilt.files.data[SHARD] += b"x"
    assert _found(spoilt) == [f"{SHARD}: has 6 bytes, recorded 5"]


def test_validate_when_a_byte_changed_then_only_checksums_find_it():
    spoilt = Set()
    spoilt.files.data[SHARD] = b"sharD"
    assert _found(spoilt) == []
    assert _found(spoilt, checksums=True)[0].startswith(f"{SHARD}: has sha256 ")


def test_validate_when_a_link_leads_out_then_it_is_not_read():
    spoilt = Set()
    spoilt.files.outside.add(SHARD)
    assert _found(spoilt, checksums=True) == [f"{SHARD}: leads out of the data set through a link"]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (Header("<f4", (3, 4)), "has the shape (3, 4), recorded (2, 4)"),
        (Header("<f4", (2, 5)), "has the shape (2, 5), recorded (2, 4)"),
        (Header(">f4", (2, 4)), "holds >f4, recorded float32"),
        (None, "is no shard"),
    ],
)
def test_validate_when_a_shard_is_not_what_is_recorded_then_says_so(header, message):
    spoilt = Set()
    spoilt.files.headers = {SHARD: header} if header else {}
    assert _found(spoilt) == [f"{SHARD}: {message}"]


def test_validate_when_a_table_cannot_be_read_then_says_so():
    spoilt = Set()
    spoilt.files.data[TABLE] = b"PAR0rows"
    assert _found(spoilt) == [f"{TABLE}: is no table"]


def test_validate_when_a_file_is_not_listed_then_warns():
    spoilt = Set()
    spoilt.files.data |= {"notes.txt": b"", ".mmprep/run.json": b""}
    checked = spoilt.check()
    assert checked.findings == (Finding("notes.txt", "is not listed in dataset.json", "warning"),)
    assert checked.n_errors == 0


@pytest.mark.parametrize("names", [("a.tsv", "A.tsv"), ("e\u0301.tsv", "\u00e9.tsv")])
def test_validate_when_names_differ_only_in_form_then_warns(names):
    spoilt = Set()
    spoilt.files.data |= dict.fromkeys(names, b"")
    spoilt.write()
    assert [f.severity for f in spoilt.check().findings] == ["warning", "warning"]


def test_validate_when_windows_cannot_name_a_file_then_warns():
    spoilt = Set()
    spoilt.files.data["sync/aux.json"] = b""
    spoilt.write()
    assert _found(spoilt) == ["sync/aux.json: cannot be named so on Windows"]


# Leakage


def test_validate_when_windows_of_two_splits_overlap_then_says_so():
    spoilt = _of(_record(0), _record(1, begin_s=0.5, split="test"))
    spoilt.changes["splits"] = {"train": 1, "test": 1}
    spoilt.write()
    assert _found(spoilt) == [
        "manifest.jsonl: session 's': records of splits train and test overlap at 0.5 s"
    ]


def test_validate_when_windows_only_touch_then_no_finding():
    spoilt = _of(_record(0), _record(1, split="test"))
    spoilt.changes["splits"] = {"train": 1, "test": 1}
    spoilt.write()
    assert _found(spoilt) == []


def test_validate_when_overlapping_records_have_other_sources_then_no_finding():
    spoilt = _of(_record(0, source="a"), _record(1, begin_s=0.0, source="b", split="test"))
    spoilt.changes["splits"] = {"train": 1, "test": 1}
    spoilt.write()
    assert _found(spoilt) == []


@quick
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.booleans()), max_size=8))
def test_overlap_is_found_exactly_where_a_pairwise_look_finds_one(spans):
    records = [
        _record(k, begin_s=float(b), duration_s=float(d), split="ab"[s])
        for k, (b, d, s) in enumerate(spans)
    ]
    tally = validate._Tally(None, None)
    for k, record in enumerate(records):
        tally.take(str(k), record)
    expected = any(
        p.split != q.split and max(p.begin_s, q.begin_s) < min(p.end_s, q.end_s)
        for p in records
        for q in records
    )
    assert bool(tally.end()) == expected


def test_leakage_names_each_group_that_is_in_two_splits():
    records = [
        _record(0, subject="p1"),
        _record(1, subject="p1", split="test"),
        _record(2, subject="p2", split="test", streams={}, valid=None, bound_s=None),
    ]
    spoilt = _of(*records, splits={"train": 1, "test": 2})
    assert _found(spoilt, leakage="subject") == [
        "manifest.jsonl: subject 'p1' is in splits test, train"
    ]


def test_leakage_when_a_record_has_no_group_then_says_so():
    assert _found(Set(), leakage="subject")[0] == (
        "manifest.jsonl:1: has no subject, so leakage cannot be ruled out"
    )


# Names and options


@pytest.mark.parametrize(
    "name",
    ["", "/a", "~/a", "~a", "a/../b", "..", "a//b", "./a", "a/.", "s3://a", "C:/a", "a\\b", "a\0"],
)
def test_path_fault_when_a_name_may_leave_the_root_then_says_why(name):
    assert validate.path_fault(name)


@pytest.mark.parametrize("name", ["a", "a/b.wav", "今/天.npy", "a b", "..a", "a..b", "a~", "a\nb"])
def test_path_fault_of_a_name_below_the_root_is_none(name):
    assert validate.path_fault(name) is None


def test_parse_subset_reads_a_part():
    assert validate.parse_subset("2/5") == (2, 5)


@pytest.mark.parametrize("text", ["", "0/5", "6/5", "1/0", "1", "a/b", "-1/5", "1/5/9"])
def test_parse_subset_when_it_is_no_part_then_refused(text):
    with pytest.raises(UsageError, match="is no part of the files"):
        validate.parse_subset(text)
