"""The work of `convert` on tables: look at them, write them; and finding transcripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from mmprep import files, tables
from mmprep.errors import DataError, MmprepError
from mmprep.sources import text
from mmprep.sources.base import Claim, Part, TextOptions
from mmprep.steps.corpus.triggers import Triggers
from mmprep.steps.intake import evidence, patterns
from mmprep.steps.intake.claims import TABLE_READERS, Claimed
from mmprep.steps.intake.findings import Findings
from mmprep.steps.running.tasks import Item, Job
from mmprep.timebase import NS_PER_S, rate_text

PART_BYTES = 4 << 30  # text that is longer becomes several tables


def schema_of(value: dict[str, Any]) -> tables.TableSchema:
    """Read a schema that went through JSON."""
    return msgspec.convert(value, tables.TableSchema)


def options_of(value: dict[str, Any]) -> TextOptions:
    """Read options that went through JSON."""
    rate = value["rate_hz"]
    exact = {**value, "rate_hz": Fraction(rate) if rate is not None else None}
    return msgspec.convert(exact, TextOptions)


def _options(item: Item, spec: dict[str, Any]) -> TextOptions:
    """Give the options of a task with what is declared of the item's streams."""
    known = msgspec.convert(item.spec["declared"], dict[str, tables.Declared])
    options = options_of(spec["options"])
    return replace(options, declared=known, tz=item.spec["tz"] or options.tz)


def probe(job: Job) -> dict[str, Any]:
    """Look at each table of a task and give its schemas, and the parts of long ones."""
    found, spans = [], []
    for item in job.items():
        with job.attempt(item, "look"):
            claim = msgspec.convert(item.spec["claim"], Claim)
            options = _options(item, job.task.spec)
            schemas = _look(job, item, claim, options)
            looks = {own: msgspec.to_builtins(schema) for own, schema in schemas.items()}
            found.append((item.id, item.spec["name"], looks))
            if claim.reader == text.READER and item.spec["split"] is None:
                parts = text.cut(claim, Path(item.spec["root"]), options, PART_BYTES)
                spans.append((item.id, item.spec["name"], msgspec.to_builtins(parts)))
    return {"schemas": found, "spans": spans}


def _look(
    job: Job, item: Item, claim: Claim, options: TextOptions
) -> dict[str, tables.TableSchema]:
    root = Path(item.spec["root"])
    if item.spec["split"] is None:
        found: dict[str, tables.TableSchema] = TABLE_READERS[claim.reader].probe(
            claim, root, options
        )
        return found
    with TemporaryDirectory(dir=job.folder) as folder:
        n_bytes = tables.HEAD_BYTES
        return text.split(claim, root, options, Path(folder), n_head_bytes=n_bytes).probe()


Writer = Callable[[str, tables.TableSchema, tables.Target], tables.TableFacts]


@contextmanager
def _writer(findings: Findings) -> Iterator[Writer]:
    """Give what writes the tables of an item, by the reader's names of the streams."""
    item = findings.item
    claim, root = msgspec.convert(item.spec["claim"], Claim), Path(item.spec["root"])
    options = _options(item, findings.job.task.spec)
    if item.spec.get("span") is not None:
        span = msgspec.convert(item.spec["span"], tables.Span)
        if item.spec["part"]:  # the digest of the file is taken once
            findings.job.digests |= dict.fromkeys((str(root / name) for name in claim.files), "")
        yield lambda own, schema, target: text.write(
            claim, root, own, schema, target, options=options, span=span
        )
        return
    if item.spec["split"] is None:
        write_table = TABLE_READERS[claim.reader].write
        yield lambda own, schema, target: write_table(
            claim, root, own, schema, target, options=options
        )
        return
    rejects = files.portable(f"rejects/{item.spec['split']}/{item.id}.tsv")
    kept = tables.RejectsFile(findings.target(rejects))
    try:
        with TemporaryDirectory(dir=findings.job.folder) as folder:
            found = text.split(claim, root, options, Path(folder), take=kept)
            yield found.write
    except BaseException:
        kept.abort()
        raise
    if kept.close() is not None:
        findings.written(rejects)
    findings.n_rejected += found.spread.n_rejected
    findings.notes += found.spread.notes
    findings.job.digests.update({str(root / name): found.spread.digest for name in claim.files})


def write(job: Job, *, n_threads: int = 1) -> dict[str, Any]:
    """Write the tables of a task's only item, or say how its schemas must be widened."""
    value: dict[str, Any] = {"items": [], "files": [], "widen": {}}
    for item in job.items():
        with job.attempt(item, "convert"):
            findings = Findings(job, item)
            streams = job.task.spec["streams"]
            if not item.spec.get("part"):
                evidence.write(findings, next(iter(streams.values())))
            with _writer(findings) as writer:
                for own, stream in streams.items():
                    evidence.write_own(findings, own, stream)
                    try:
                        _write_table(findings, writer, own, stream, n_threads)
                    except tables.Widen as wanted:
                        wish = {
                            "kinds": wanted.kinds,
                            "relative": wanted.relative,
                            "examples": wanted.examples,
                        }
                        value["widen"][stream] = wish
            findings.parts = _parts(findings, streams)
            value["items"].append(findings.to_json())
            value["signal_s"] = findings.duration_s
            value["files"] = findings.files
    return value


def encodings(job: Job) -> dict[str, Any]:
    """Write the tables of a task's only item for trial, and give the encodings of their columns.

    An item that cannot be written says so when its turn comes.
    """
    (item,) = job.items()
    spec, found = job.task.spec, dict[str, dict[str, str]]()
    claim, root = msgspec.convert(item.spec["claim"], Claim), Path(item.spec["root"])
    options, level = _options(item, spec), spec["options"]["compression_level"]
    with TemporaryDirectory(dir=job.folder) as folder:
        for own, stream in spec["streams"].items():
            target = tables.Target(Path(folder, "trial.parquet"), item.id, level=level)
            schema = schema_of(spec["schemas"][stream])
            with suppress(MmprepError, tables.Widen, OSError):
                TABLE_READERS[claim.reader].write(claim, root, own, schema, target, options=options)
                found[stream] = tables.encodings_of(target.path)
    return {"encodings": found}


def _parts(findings: Findings, streams: Mapping[str, str]) -> list[dict[str, Any]]:
    """Give the recordings in an item that is cut, their streams named as in the data set."""
    item = findings.item
    if not item.spec["is_cut"]:
        return []
    reader = TABLE_READERS[item.spec["claim"]["reader"]]
    find = _by_reader if hasattr(reader, "parts") else _by_triggers
    found = find(findings, streams)
    if found and findings.n_rejected:
        findings.warnings.append(f"{item.source}: rows were rejected, so it is not cut into parts")
        return []
    return [msgspec.to_builtins(part) for part in found]


def _by_reader(findings: Findings, streams: Mapping[str, str]) -> list[Part]:
    item = findings.item
    claim, root = msgspec.convert(item.spec["claim"], Claim), Path(item.spec["root"])
    options = _options(item, findings.job.task.spec)
    return [
        replace(part, rows={streams[own]: r for own, r in part.rows.items() if own in streams})
        for part in TABLE_READERS[claim.reader].parts(claim, root, options)
    ]


def _by_triggers(findings: Findings, streams: Mapping[str, str]) -> list[Part]:
    """Look for the corpus's triggers in the tables that were written."""
    if findings.item.spec["triggers"] is None:
        return []
    known = msgspec.convert(findings.item.spec["triggers"], Triggers)
    for stream, ref in findings.streams.items():
        table = findings.target(ref["table"])
        if known.column in tables.table_info(table).channels:
            try:
                return known.parts(table, stream, findings.item.source)
            except DataError as error:
                findings.warnings.append(f"{error}, so it is not cut into parts")
    return []


def _write_table(findings: Findings, writer: Writer, own: str, stream: str, n_threads: int) -> None:
    item, task = findings.item, findings.job.task
    root = Path(item.spec["root"])
    numbers = [item.spec[key] for key in ("piece", "part") if key in item.spec]
    item_id = "-".join([item.id, *(f"{number:05d}" for number in numbers)])
    name = files.portable(f"tables/{stream}/{item_id}.parquet")
    rejects = files.portable(f"rejects/{stream}/{item_id}.tsv")
    target = tables.Target(
        findings.target(name),
        item.id,
        rejects=findings.target(rejects),
        level=task.spec["options"]["compression_level"],
        n_threads=n_threads,
        hasher=files.running_digest,
        encodings=task.spec["encodings"].get(stream, {}),
    )
    schema = schema_of(task.spec["schemas"][stream])
    facts = writer(own, schema, target)
    findings.written(name)
    if facts.rejects is not None:
        findings.written(rejects)
    findings.streams[stream] = {
        "table": name,
        "rows": [0, facts.rows],
        "rate_hz": rate_text(facts.rate_hz) if facts.rate_hz else None,
        "clock": findings.clock,
    }
    findings.n_rejected += facts.n_rejected
    findings.notes += [note for note in facts.notes if note not in findings.notes]
    findings.job.digests.update({str(root / k): text for k, text in facts.input_digests.items()})
    _time(findings, facts)


def _time(findings: Findings, facts: tables.TableFacts) -> None:
    if facts.start_ns is None or facts.end_ns is None:
        return
    period_s = float(1 / facts.rate_hz) if facts.rate_hz else 0.0
    findings.lasts((facts.end_ns - facts.start_ns) / NS_PER_S + period_s)
    if facts.absolute:
        findings.starts(facts.start_ns)


def find(claimed: Claimed, root: Path, given: Sequence[str]) -> str | None:
    """Find the transcript of a media item (see `patterns`), by its stem, id and fields."""
    if claimed.is_table:
        return None
    folder = claimed.claim.id_path.rpartition("/")[0]
    place = claimed.place
    fields = {**(place.fields if place else {}), "stem": claimed.claim.stem, "id": claimed.id}
    fields |= {"subject": place.subject or "", "session": place.session or ""} if place else {}
    return patterns.find(root, folder, given, fields)
