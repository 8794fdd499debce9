"""Tables to Parquet against DuckDB and Polars; sound to shards against a bare loop."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tests.bench import made
from tests.bench.measure import Note, Row, Size, compare, mmprep, peer, tree_bytes

CORPUS_BYTES = 1.2e12
SMALL_BYTES, N_LARGE = 500_000, 2


def rows(place: Path, size: Size) -> Iterator[Row | Note]:
    """Compare one large table, a corpus of them, many small ones, and sound."""
    yield from _large(place, size)
    yield from _corpus(place, size)
    yield from _small(place, size)
    yield from _sound(place, size)


def _large(place: Path, size: Size) -> Iterator[Row | Note]:
    source, out = place / "raw" / "large.tsv", place / "large"
    duck, polars = place / "duckdb.parquet", place / "polars.parquet"
    made.table(source, size.table_bytes)
    n_bytes = source.stat().st_size
    yield from compare(
        f"convert a table of {n_bytes / 1e6:.0f} MB",
        mmprep("convert", source, "-o", out, writes=out),
        [
            peer("DuckDB COPY zstd", "duckdb_copy", source, duck, needs=("duckdb",)),
            peer("Polars sink zstd", "polars_sink", source, polars, needs=("polars",)),
        ],
        size,
    )
    sizes = {"mmprep": out / "tables", "DuckDB": duck, "Polars": polars}
    shown = ", ".join(
        f"{name} {n_bytes / tree_bytes(path):.2f} : 1"
        for name, path in sizes.items()
        if path.exists()
    )
    yield Note(f"sizes: {shown}")


def _corpus(place: Path, size: Size) -> Iterator[Row | Note]:
    """Convert the large table under several names: what a long run costs once it has begun."""
    source, out, duck = place / "corpus", place / "corpus-out", place / "corpus-duckdb"
    for k in range(N_LARGE):
        (source / f"P{k:02d}").mkdir(parents=True)
        os.link(place / "raw" / "large.tsv", source / f"P{k:02d}" / "eeg.tsv")
    n_bytes = tree_bytes(source)
    found = list(
        compare(
            f"convert {N_LARGE} tables, {n_bytes / 1e6:.0f} MB",
            mmprep("convert", source, "-o", out, writes=out),
            [
                peer("DuckDB loop", "duckdb_loop", source, duck, needs=("duckdb",), writes=duck),
                peer("Polars loop", "polars_loop", source, duck, needs=("polars",), writes=duck),
            ],
            size,
        )
    )
    yield from found
    if found:
        rate = n_bytes / found[0].ours_s
        yield Note(f"{rate / 1e6:.0f} MB/s: 1.2 TB in {CORPUS_BYTES / rate / 3600:.2f} h")


def _small(place: Path, size: Size) -> Iterator[Row | Note]:
    source, out, duck = place / "small", place / "small-out", place / "small-duckdb"
    made.tables(source, size.n_small, min(SMALL_BYTES, size.table_bytes))
    yield from compare(
        f"convert {size.n_small} tables of 500 kB",
        mmprep("convert", source, "-o", out, writes=out),
        [peer("DuckDB loop", "duckdb_loop", source, duck, needs=("duckdb",), writes=duck)],
        size,
    )


def _sound(place: Path, size: Size) -> Iterator[Row | Note]:
    """Utterances of 2 to 10 s at 16 kHz, as a corpus of speech has them."""
    for suffix in ("wav", "flac"):
        source, out, bare = (place / f"{suffix}{end}" for end in ("", "-out", "-bare"))
        length_s = made.sounds(source, size.n_sounds, suffix)
        yield from compare(
            f"convert {size.n_sounds} {suffix}s, {length_s / 60:.0f} min",
            mmprep("convert", source, "-o", out, writes=out),
            [peer("read, write, sha256, sync; 2 procs", "copy_sounds", source, bare, writes=bare)],
            size,
        )
