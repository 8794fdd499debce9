"""What holds for all sessions, through the whole step."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mmprep import DataError, open_dataset, run_align
from mmprep.manifest.codec import decode_dataset, read_manifest
from mmprep.steps.base import FailedItemsError

SERIAL = {"engine": "serial"}
RATES = {"a": 16, "b": 4}
FAULTS = st.lists(
    st.tuples(
        st.sampled_from(["repeat", "jump", "drop", "late", "wild", "lost stamp", "lost value"]),
        st.integers(0, 239),
        st.integers(1, 25),
    ),
    max_size=4,
)


def rows_of(rate_hz: int, faults, begin_s: float = 0.0) -> list[tuple[str, str]]:
    """Write a stream of 15 s as text, with faults: (stamp, value) each."""
    stamps = [begin_s + 1000 + k / rate_hz for k in range(15 * rate_hz)]
    rows = [(f"{t:.6f}", f"{np.sin(t / 3):.6f}") for t in stamps]
    for fault, where, size in faults:
        at = where % max(len(rows), 1)
        block = rows[at : at + size]
        if fault == "repeat":
            rows[at:at] = block
        elif fault == "jump":
            rows[at : at + size] = [(f"{float(t or 0) + 200_000:.6f}", v) for t, v in block]
        elif fault in ("drop", "late"):
            del rows[at : at + size]
            rows[at + 30 : at + 30] = block if fault == "late" else []
        elif fault == "wild":
            rows[at : at + 1] = [("-5000000", v) for _, v in block[:1]]
        elif fault == "lost stamp":
            rows[at : at + size] = [("", v) for _, v in block]
        else:
            rows[at : at + size] = [(t, "") for t, _ in block]
    return rows


@contextmanager
def session(streams, unit: str) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Write the tables of a session; give a folder and what names them."""
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        for name, rows in streams.items():
            lines = "".join(f"{t}\t{v}\n" for t, v in rows)
            (top / f"{name}.tsv").write_text("stamp\tx\n" + lines)
        how = {name: f"rate={RATES[name]},time=stamp,unit={unit}" for name in streams}
        yield top, tuple(f"{name}={top}/{name}.tsv,{said}" for name, said in how.items())


OPTIONS = st.fixed_dictionaries(
    {
        "window": st.sampled_from(["1", "2", "1/2"]),
        "hop": st.sampled_from([None, "1", "1/4", "3"]),
        "cover": st.sampled_from(["intersection", "union"]),
        "on_gap": st.sampled_from(["mask", "drop"]),
        "min_valid": st.sampled_from([0.0, 0.5]),
        "method": st.sampled_from([(), ("a=nearest",), ("a=linear", "b=hold"), ("b=cubic",)]),
    }
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(FAULTS, FAULTS, st.sampled_from([0.0, 3.37]), OPTIONS)
def test_accounting_adds_up_under_any_faults(faults_a, faults_b, late_s, options):
    streams = {"a": rows_of(16, faults_a), "b": rows_of(4, faults_b, late_s)}
    with session(streams, "s") as (top, named):
        try:
            run_align(output=top / "out", stream=named, **options, **SERIAL)
        except (DataError, FailedItemsError):
            return  # no row, no overlap or no window is left
        sync = json.loads((top / "out/sync/session.json").read_text())
        data = open_dataset(top / "out", fill="nan")
        records = list(read_manifest(top / "out/manifest.jsonl"))
        windows = sync["windows"]
        assert windows["kept"] == len(records) == len(data)
        dropped = windows["dropped_gap"] + windows["dropped_thin"]
        assert windows["planned"] == windows["kept"] + dropped
        for stream in sync["streams"]:
            rows, counts = streams[stream["name"]], dict(stream["accounting"])
            assert counts.pop("in") == len(rows) == sum(counts.values())
            assert counts["corrupt"] >= sum(t == "" for t, _ in rows)
            assert np.diff(stream["coverage_s"])[0] < 20
        for row, record in zip(data, records, strict=True):
            for name in streams:
                valid = row[f"{name}.valid"]
                assert record.valid[name] == pytest.approx(valid.mean(), abs=1e-6)
                assert np.isfinite(row[name][valid]).all()
                assert np.isnan(row[name][~valid]).all()


def digests(folder: Path) -> dict[str, str]:
    """Give the sha256 of all arrays of a data set."""
    dataset = decode_dataset((folder / "dataset.json").read_bytes())
    return {name: entry.sha256 for name, entry in dataset.shard_entries().items()}


def moved(rows, shift_ns: int) -> list[tuple[str, str]]:
    """Give stamps in nanoseconds, moved by whole seconds: digits tell how fine a clock is read."""
    return [(t and f"{round(float(t) * 1e6) * 1000 + shift_ns}", v) for t, v in rows]


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(FAULTS, st.integers(1, 10**5).map(lambda k: k * 10**10), st.booleans())
def test_stamps_that_are_shifted_shift_the_origin_and_no_data(faults, shift_ns, has_clock):
    rows = {"a": rows_of(16, faults), "b": rows_of(4, [], 1.3)}
    fixes = [(990 * 10**9 + k * 2 * 10**9, k * (2 * 10**9 + 60_000)) for k in range(30)]
    found = []
    for by in (0, shift_ns):
        with session({name: moved(rows[name], by) for name in rows}, "ns") as (top, named):
            lines = "".join(f"{d + by}\t{r + by}\n" for d, r in fixes)
            (top / "log.tsv").write_text("device_ns\treference_ns\n" + lines)
            clocks = {"clock": tuple(f"{n}={top}/log.tsv" for n in rows)} if has_clock else {}
            try:
                run_align(output=top / "out", stream=named, **clocks, **SERIAL)
            except (DataError, FailedItemsError):
                return
            sync = json.loads((top / "out/sync/session.json").read_text())
            manifest = (top / "out/manifest.jsonl").read_bytes()
            found.append((digests(top / "out"), manifest, sync["origin_on_clock_ns"]))
    assert found[0][:2] == found[1][:2]
    assert found[1][2] - found[0][2] == shift_ns
