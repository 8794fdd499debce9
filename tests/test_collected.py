"""Every collected file is read as another reader reads it, or refused for a known reason."""

from __future__ import annotations

import bz2
import re

import pytest

from mmprep import run_convert
from mmprep.manifest.codec import read_manifest
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


SALVAGED = [  # the rows that are left, and those that are not
    ("made/E_nul/nul_run_and_cut.csv", 130, 1),
    ("made/E_repeat/repeated_header.csv", 4, 3),
    ("tsv/csvkit_bad.csv", 1, 2),
    ("tsv/csvkit_bad_skip_lines.csv", 1, 2),
    ("tsv/csvkit_mac_newlines.csv", 1, 2),
    ("tsv/csvparser_more_columns.csv", 2, 1),
    ("tsv/datatable_530_fread.txt", 0, 49),
    ("tsv/datatable_fread_line_error.csv.bz2", 59, 10),
    ("tsv/duckdb_evil_nullpadding.csv", 1, 3),
    ("tsv/duckdb_nullbyte.csv", 0, 1),
    ("tsv/duckdb_rejects-frankstein-nightmare.csv", 45, 2),
    ("tsv/duckdb_unquoted_escape-human_eval.tsv", 170, 158),
    ("tsv/frictionless_issue-1066-smallcellsize.csv", 11, 9),
    ("tsv/spectrum_quotes_and_newlines.csv", 1, 3),
]


@pytest.mark.parametrize(("name", "n_rows", "n_bad"), SALVAGED)
def test_table_with_bad_rows_is_salvaged_and_nothing_is_lost(shared, memory, name, n_rows, n_bad):
    path = shared(name)
    (case,) = (case for case in collected.cases() if case.name == name)
    found = {}
    for policy in ("skip", "null"):
        out = memory / policy
        options = {**case.options, "on_bad_row": policy, "engine": "serial"}
        run_convert(path, output=out, **options)
        (record,) = read_manifest(out / "manifest.jsonl")
        (stream,) = record.streams.values()
        (rejects,) = (out / "rejects").rglob("*.tsv")
        found[policy] = stream.n_rows, rejects.read_bytes()
    assert (found["skip"][0], found["null"][0]) == (n_rows, n_rows + n_bad)
    assert found["skip"][1] == found["null"][1]
    content = path.read_bytes()
    content = bz2.decompress(content) if path.suffix == ".bz2" else content
    lines = re.split(rb"\r\n|\r|\n", content)
    listed = [line.split(b"\t") for line in found["skip"][1].split(b"\n")[1:-1]]
    assert len(listed) == n_bad
    for number, _, raw in listed:
        escaped = raw.decode("utf-8").encode("latin-1", "backslashreplace")
        known = re.sub(rb"\\x([0-9a-f]{2})", lambda m: bytes([int(m[1], 16)]), escaped)
        for mark, byte in ((b"\\t", b"\t"), (b"\\0", b"\0"), (b"\\\\", b"\\")):
            known = known.replace(mark, byte)
        assert known == lines[int(number) - 1]
