"""Check, split and export a manifest against a plain loop over JSON and against lhotse's cuts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tests.bench import made
from tests.bench.measure import Note, Row, Side, Size, compare, mmprep, peer, seconds

LHOTSE = ("lhotse", "torch")


def rows(place: Path, size: Size) -> Iterator[Row | Note]:
    """Compare the three things that are done with every manifest."""
    source, data = place / "sound", place / "data"
    made.clips(source, size.n_records)
    seconds(mmprep("convert", source, "--layout", "{subject}/{stem}.wav", "-o", data))
    manifest, cuts, theirs = data / "manifest.jsonl", place / "cuts.jsonl", place / "lhotse"
    _make_cuts(peer("", "lhotse_make", manifest, cuts, needs=LHOTSE), size)
    split, nemo = place / "split", place / "nemo"
    tasks = {
        "validate": (
            mmprep("manifest", "validate", data),
            peer("json loop", "json_check", manifest),
            peer("lhotse validate", "lhotse_check", cuts, needs=LHOTSE),
        ),
        "split": (
            mmprep("manifest", "split", data, "-o", split, writes=split),
            peer("json loop", "json_split", manifest, place / "split.jsonl"),
            peer("lhotse", "lhotse_split", cuts, theirs, needs=LHOTSE, writes=theirs),
        ),
        "export to NeMo": (
            mmprep("manifest", "export", data, "--to", "nemo", "-o", nemo, writes=nemo),
            peer("json loop", "json_nemo", manifest, place / "nemo.jsonl"),
            peer("lhotse, read and write", "lhotse_copy", cuts, place / "c.jsonl", needs=LHOTSE),
        ),
    }
    for what, (ours, *peers) in tasks.items():
        yield from compare(f"{what}, {size.n_records} records", ours, peers, size)


def _make_cuts(side: Side, size: Size) -> None:
    if size.with_peers and side.is_installed:
        seconds(side)
