"""OpenBCI: text of the GUI, old and new, and rows of BrainFlow."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from mmprep import align, tables
from mmprep.errors import DataError
from mmprep.sources import openbci
from mmprep.sources.base import TextOptions

START = 1_621_881_537
OLD = (
    "%OpenBCI Raw EEG Data\n%Number of channels = 4\n%Sample Rate = 200.0 Hz\n"
    "%First Column = SampleIndex\n"
)
NEW = (
    "%OpenBCI Raw EXG Data\n%Number of channels = 2\n%Sample Rate = 250 Hz\n"
    "%Board = OpenBCI_GUI$BoardCytonSerial\n"
    "Sample Index, EXG Channel 0, EXG Channel 1, Accel Channel 0, Other, Other, Timestamp,"
    " Marker Channel, Timestamp (Formatted)\n"
)


def new_rows(kept):
    for k in kept:
        stamp = START + k / 250
        yield f"{k % 256}.0, {k}.5, -2.25, 0.1, 192.0, 0.0, {stamp:.6f}, 0.0, 2021-05-24 18:38:57\n"


def new(folder, kept=range(600)):
    (folder / "raw.txt").write_text(NEW + "".join(new_rows(kept)))
    return folder / "raw.txt"


def brainflow(folder, n_cells=24, *, delimiter="\t", rate=250, kept=range(600)):
    lines = []
    for k in kept:
        cells = [k % 256, *range(1, n_cells - 2), START + k / rate, 0]
        lines.append(delimiter.join(f"{cell:.6f}" for cell in cells))
    (folder / "BrainFlow-RAW.csv").write_text("\n".join(lines) + "\n")
    return folder / "BrainFlow-RAW.csv"


def claims(path):
    return openbci.claim("", [path.name], path.parent)


def convert(path, out, **options):
    settings = TextOptions(**options)
    (claim,) = claims(path)
    ((stream, schema),) = openbci.probe(claim, path.parent, settings).items()
    target = out / "o.parquet"
    facts = openbci.write(
        claim, path.parent, stream, schema, tables.Target(target, "P"), options=settings
    )
    return facts, pq.read_table(target)


def test_new_text_has_the_names_of_its_header(tmp_path):
    facts, table = convert(new(tmp_path), tmp_path)
    assert table.column_names[2:] == [
        "Sample Index",
        "EXG Channel 0",
        "EXG Channel 1",
        "Accel Channel 0",
        "Other",
        "Other 1",
        "Marker Channel",
    ]
    assert table["EXG Channel 0"].to_pylist()[:2] == [0.5, 1.5]
    assert table.schema.field("EXG Channel 1").metadata[b"unit"] == b"uV"
    assert (facts.rate_hz, facts.start_ns, facts.absolute) == (250, START * 10**9, True)


def test_lost_packets_are_said_and_stamps_kept(tmp_path):
    kept = [k for k in range(600) if not 300 <= k < 304]
    facts, _ = convert(new(tmp_path, kept), tmp_path)
    assert "at least 4 packets lost in 1 places; the stamps are those" in facts.notes[0]
    assert tables.read_stream(tmp_path / "o.parquet", "o").stamps_ns[300] == (
        START * 10**9 + 304 * 4_000_000
    )


def test_board_comes_without_the_program(tmp_path):
    assert openbci.device(new(tmp_path)) == "CytonSerial"


def test_old_text_with_stamps_is_named_by_place(tmp_path):
    rows = "".join(f"{k}, 1, 2, 3, 4, .1, .2, .3, 12:00:53.3{k}, {START}00{k}\n" for k in range(9))
    (tmp_path / "o.txt").write_text(OLD + rows)
    facts, table = convert(tmp_path / "o.txt", tmp_path)
    assert table.column_names[2:] == [
        "Sample Index",
        *(f"EXG Channel {k}" for k in range(4)),
        *(f"Accel Channel {k}" for k in range(3)),
    ]
    assert (facts.start_ns, facts.rate_hz) == (START * 10**9, 200)


def test_old_text_without_stamps_is_timed_by_its_index(tmp_path):
    kept = [k for k in range(600) if k not in (70, 71)]
    rows = "".join(f"{k % 256}, 1, 2, 3, 4, .1, .2, .3\n" for k in kept)
    (tmp_path / "o.txt").write_text(OLD + rows)
    facts, table = convert(tmp_path / "o.txt", tmp_path)
    assert (np.array(table["time"].cast("int64")) // 5_000_000).tolist() == kept
    assert (facts.absolute, facts.rate_hz) == (False, 200)
    assert "their time is left as gaps" in facts.notes[0]


@pytest.mark.parametrize(
    ("n_cells", "rate", "board", "n_exg"),
    [
        (24, 250, "Cyton", 8),
        (32, 125, "CytonDaisy", 16),
        (32, 250, "CytonDaisy", 16),
        (15, 200, "Ganglion", 4),
    ],
)
def test_rows_of_brainflow_tell_the_board(tmp_path, n_cells, rate, board, n_exg):
    path = brainflow(tmp_path, n_cells, rate=rate)
    facts, table = convert(path, tmp_path)
    exg = [name for name in table.column_names if name.startswith("EXG")]
    assert (openbci.device(path), len(exg), facts.rate_hz) == (board, n_exg, rate)
    assert [table[name][5].as_py() for name in exg] == list(range(1, n_exg + 1))
    assert (facts.start_ns, facts.notes) == (START * 10**9, ())


def test_old_brainflow_has_commas(tmp_path):
    facts, _ = convert(brainflow(tmp_path, delimiter=","), tmp_path)
    assert (facts.rows, facts.rate_hz) == (600, 250)


def test_ganglion_counts_packets_of_two_rows(tmp_path):
    path = brainflow(tmp_path, 15, rate=200)
    lines = path.read_text().split("\n")[:-1]
    index = [101 + (k // 2) % 100 for k in range(len(lines))]
    kept = [k for k in range(len(lines)) if k not in (100, 101)]
    text = (f"{index[k]}.000000\t{lines[k].partition(chr(9))[2]}\n" for k in kept)
    path.write_text("".join(text))
    facts, _ = convert(path, tmp_path)
    assert facts.notes[0].startswith("counter 'Sample Index': at least 1 packets lost in 1 places")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%Something else\n1, 2\n",
        "\t".join(["1.5"] * 24) + "\n" + "\t".join(["1.5"] * 24) + "\n",
        "\t".join(f"c{k}" for k in range(24)) + "\n" + "\t".join("1" * 24) + "\n",
    ],
)
def test_claim_leaves_other_tables(tmp_path, text):
    (tmp_path / "x.csv").write_text(text)
    assert claims(tmp_path / "x.csv") == []


def test_bad_value_is_a_located_error(tmp_path):
    path = new(tmp_path)
    path.write_text(path.read_text().replace(" 7.5,", " oops,"))
    with pytest.raises(DataError, match=r"raw\.txt:13: EXG Channel 0 is ' oops'"):
        convert(path, tmp_path)


def test_rows_wider_than_the_header_are_refused(tmp_path):
    (tmp_path / "raw.txt").write_text(NEW.replace(" Accel Channel 0,", "") + next(new_rows([0])))
    path = tmp_path / "raw.txt"
    path.write_text(path.read_text() + next(new_rows([1])))
    with pytest.raises(DataError, match=r"raw\.txt:6: 9 cells, the header names 8"):
        convert(path, tmp_path)


def test_real_recording_matches_an_independent_reading(shared, tmp_path):
    path = shared("openbci/openbci_v3_blinks_first6000.txt")
    facts, table = convert(path, tmp_path)
    rows = [row.split(", ") for row in path.read_text().split("\n") if row and row[0] != "%"]
    assert table["time"].cast("int64").to_pylist() == [int(row[-1]) * 10**6 for row in rows]
    for cell, name in enumerate(table.column_names[2:]):
        assert table[name].to_pylist() == [float(row[cell]) for row in rows]
    assert (facts.rows, facts.rate_hz, facts.notes) == (5994, 250, ())


def test_real_bursts_are_one_run_for_align(shared):
    path = shared("openbci/openbci_v3_blinks_first6000.txt")
    stream = openbci.read_stream(path, TextOptions(), "eeg")
    repaired = align.repair(stream, stream.stamps_ns)
    assert (repaired.n_samples, repaired.n_gaps, repaired.n_duplicate) == (5994, 0, 0)
