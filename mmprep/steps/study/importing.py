"""`manifest import`: the recordings that a foreign manifest names, and the records that it cuts.

Rules
-----
- A recording is converted once; each stretch of it is a record, which names its rows.
- Paths are looked for below `--media-root`, beside the manifest, and in the current folder.
- A stretch that ends behind its sound is cut there and said; one that begins there is an error.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.exporters import from_kaldi, from_lhotse, from_nemo
from mmprep.exporters.utterances import Utterance
from mmprep.manifest.model import Record, StreamRef
from mmprep.steps.corpus.place import Place
from mmprep.steps.inputs import Inputs, size_of
from mmprep.steps.intake.claims import Claimed, claim_all

KINDS = ("nemo", "lhotse", "kaldi")
SLACK_S = 0.05  # by which manifests are rounded


@dataclass(frozen=True, slots=True)
class Imported:
    """What foreign manifests list.

    Parameters
    ----------
    manifests : tuple of str
        All files that were read, absolute.
    sounds : mapping of str to str
        The path in the manifest -> the file, absolute.
    """

    manifests: tuple[str, ...]
    utterances: tuple[Utterance, ...]
    sounds: Mapping[str, str]


def read(kind: str, paths: Sequence[str], media_root: str | None) -> Imported:
    """Read manifests and find the sound that they name.

    Raises
    ------
    UsageError
        A file is not there; an id occurs twice.
    DataError
        A manifest is none of its kind.
    """
    if kind not in KINDS:
        raise UsageError(f"{kind!r} is none of {', '.join(KINDS)}", where="--from")
    found = _utterances(kind, paths)
    utterances = [one for _, listed in found for one in listed]
    if not utterances:
        raise DataError("names no recording", where=", ".join(paths))
    _refuse_doubles(utterances)
    roots = [Path(media_root).absolute()] if media_root else []
    sounds = {
        one.recording: _found(one.recording, [*roots, folder, Path.cwd()])
        for folder, listed in found
        for one in listed
    }
    manifests = [name for path in paths for name in _files(kind, path)]
    return Imported(tuple(manifests), tuple(utterances), sounds)


def _utterances(kind: str, paths: Sequence[str]) -> list[tuple[Path, list[Utterance]]]:
    """Give the stretches of each manifest with the folder beside which its sound may be."""
    if kind == "lhotse":  # recordings and supervisions may be in files of their own
        return [(Path(paths[0]).absolute().parent, from_lhotse.read(_lines(paths)))]
    if kind == "kaldi":
        return [(Path(path).absolute(), _kaldi(path)) for path in paths]
    return [
        (Path(path).absolute().parent, from_nemo.read((line for _, line in _lines([path])), path))
        for path in paths
    ]


def _kaldi(path: str) -> list[Utterance]:
    texts = {name: _text(Path(path) / name) for name in from_kaldi.FILES}
    return from_kaldi.read({k: v for k, v in texts.items() if v is not None}, path)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"can't be read: {error}", where=str(path)) from error


def _files(kind: str, path: str) -> list[str]:
    whole = Path(path).absolute()
    if kind != "kaldi":
        return [str(whole)]
    return [str(whole / name) for name in from_kaldi.FILES if (whole / name).is_file()]


def _lines(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Give each line with its file and number; packed files are unpacked."""
    for path in paths:
        try:
            with gzip.open(path) if path.endswith(".gz") else Path(path).open("rb") as file:
                for number, line in enumerate(file, start=1):
                    yield f"{path}:{number}", line
        except (OSError, EOFError) as error:
            raise UsageError(str(getattr(error, "strerror", None) or error), where=path) from error


def _refuse_doubles(utterances: Iterable[Utterance]) -> None:
    seen: dict[str, str] = {}
    for one in utterances:
        if one.id in seen:
            raise UsageError(f"the id {one.id!r} stands at {seen[one.id]}, too", where=one.where)
        seen[one.id] = one.where


def _found(name: str, folders: Sequence[Path]) -> str:
    for folder in folders:
        if files.is_file(folder / name):
            return str((folder / name).absolute())
    hint = "--media-root DIR names the folder below which it is"
    raise UsageError("does not exist", where=name, hint=hint)


# Recordings ---------------------------------------------------------------------------------------


def claimed(imported: Imported, inputs: Inputs) -> tuple[Claimed, ...]:
    """Let the reader of sound claim each recording once.

    Raises
    ------
    DataError
        One is no sound.
    """
    found = []
    for path in sorted(set(imported.sounds.values())):
        name = Path(path).relative_to(inputs.root).as_posix()
        alone = Inputs(inputs.root, (name,), frozenset({name}), (), ())
        (one,) = claim_all(alone, None).claimed
        if one.is_table:
            raise DataError("is no sound", where=path)
        found.append(
            Claimed(
                one.claim,
                one.id,
                one.id,
                "audio",
                {"audio": "audio"},
                size_of(path),
                place=Place(one.id, one.id),
                clock=one.clock,
                is_whole=False,
            )
        )
    return tuple(found)


# Records ------------------------------------------------------------------------------------------


def cut(
    records: Sequence[Record], imported: Imported, root: Path
) -> tuple[list[Record], list[str]]:
    """Make a record of each stretch; recordings that failed have none.

    Returns
    -------
    records, list of str
        In the order of their ids, and what is worth saying.

    Raises
    ------
    DataError
        A stretch begins behind its sound.
    """
    by_source = {record.source: record for record in records}
    found: list[Record] = []
    short: list[str] = []
    for one in imported.utterances:
        source = Path(imported.sounds[one.recording]).relative_to(root).as_posix()
        if source in by_source:
            record, is_short = _stretch(by_source[source], one)
            found.append(record)
            short += [one.id] if is_short else []
    said = f"{len(short)} stretches end behind their sound and were cut there"
    notes = [f"{said} ({short[0]}, ...)"] if short else []
    return sorted(found, key=lambda record: record.id), notes


def _stretch(whole: Record, one: Utterance) -> tuple[Record, bool]:
    ref = whole.streams["audio"]
    rate_hz = ref.rate_hz or 1.0
    begin, end = round(one.begin_s * rate_hz), ref.n_rows
    if one.duration_s is not None:
        end = begin + round(one.duration_s * rate_hz)
    is_short = end > ref.n_rows + SLACK_S * rate_hz
    end = min(end, ref.n_rows)
    if begin < 0 or begin >= end:
        raise DataError(
            f"{one.id!r} begins at {one.begin_s} s of {ref.n_rows / rate_hz:.3f} s",
            where=one.where,
            hint="begin and duration are seconds within the recording",
        )
    first, _ = ref.rows
    part: StreamRef = msgspec.structs.replace(ref, rows=(first + begin, first + end))
    fields: dict[str, Any] = dict(one.fields)
    if one.channel is not None:
        fields["channel"] = one.channel
    record = Record(
        id=one.id,
        session=whole.id,
        subject=one.subject,
        begin_s=round(begin / rate_hz, 9),
        duration_s=round((end - begin) / rate_hz, 9),
        label=one.label,
        labels=dict(one.labels),
        text=one.text,
        words=one.words or None,
        source=whole.source,
        streams={"audio": part},
        extra=fields,
    )
    return record, is_short
