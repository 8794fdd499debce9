"""Who takes which raw file: readers claim items, layouts and rules give them ids and streams.

Rules
-----
- Readers are asked in a fixed order; what one has claimed the next does not see.
- Tables: id = the file's folder (its stem at the root), stream = its stem. A file that holds
  several streams, sound and video: id = the path less its suffix, streams as the reader calls
  them. A layout overrides both.
- An item that is the root takes the root's name, less its suffix. Ids leave the suffixes of
  archives out.
- Beside `x.EXT`, `x.ptp.tsv` or `x.clock.tsv` is its clock evidence, `x.frames.tsv` its frame
  times; `.csv` does as well. Of several the first of `COMPANIONS` is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmprep import archives, files
from mmprep.errors import DataError, UsageError
from mmprep.media import AUDIO_SUFFIXES, VIDEO_SUFFIXES, is_sound
from mmprep.sources import (
    archive,
    arff,
    bids,
    brainvision,
    case,
    e4,
    edf,
    emotiv,
    everion,
    explore,
    faros,
    garmin,
    kemocon,
    matlab,
    mnefiles,
    muse,
    openbci,
    opensignals,
    polar,
    shimmer,
    text,
    unpickle,
    xdf,
)
from mmprep.sources.base import NOTES, SIGNAL, Claim, TextOptions
from mmprep.sources.companions import companion_of, is_companion
from mmprep.steps.corpus.place import Layout, Place
from mmprep.steps.inputs import Inputs, size_of

# Asked in this order; each knows its files by what is in them. Any text is `text`'s, so it is last.
_KNOWN = (
    archive,
    *(e4, kemocon, faros, polar, everion, garmin, explore, bids, case),
    *(shimmer, opensignals, emotiv, muse, openbci, arff),
    *(edf, brainvision, mnefiles, xdf, matlab, unpickle),
)
TABLE_READERS: Mapping[str, Any] = {module.READER: module for module in (*_KNOWN, text)}
NO_RECORDINGS = (
    "participants.tsv",
    "_scans.tsv",
    "_channels.tsv",
    "_electrodes.tsv",
    "_sessions.tsv",
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """One item: its claim, where it belongs, what lies beside it.

    Parameters
    ----------
    streams : dict
        Table readers: the reader's name of each stream -> its name in the data set, as far as it
        is known before the look; the others keep the reader's names.
    clock, text : str, optional
        Files below the root: clock evidence, transcript.
    is_whole : bool
        All its streams are taken, not only those named.
    piece : int, optional
        Which part it is of a stream that several files hold, from 0.
    tz : str, optional
        The zone of its local times, where others have another.
    about : mapping of str to dict
        Stream -> what its record says of it beside.
    """

    claim: Claim
    id: str
    session: str
    stream: str
    streams: Mapping[str, str]
    n_bytes: int
    place: Place | None = None
    clock: str | None = None
    text: str | None = None
    is_whole: bool = True
    piece: int | None = None
    tz: str | None = None
    about: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def reader(self) -> str:
        """Which reader claimed it."""
        return self.claim.reader

    @property
    def is_table(self) -> bool:
        """Whether it becomes tables through a reader of tables."""
        return self.reader in TABLE_READERS

    @property
    def is_sound(self) -> bool:
        """Whether it may hold sound."""
        return not self.is_table

    @property
    def is_video(self) -> bool:
        """Whether it is a video."""
        return self.reader == "video"

    @property
    def source(self) -> str:
        """Its name below the root: the file, or the folder."""
        return self.claim.id_path or self.claim.files[0]

    @property
    def name(self) -> str:
        """What tells it from others of its id: a file may be taken stream by stream."""
        if self.is_whole:
            return self.source
        return f"{self.source}#{'+'.join(sorted(self.streams.values()))}"

    def paths(self, root: Path) -> tuple[str, ...]:
        """Give the paths of all its files: its own, clock evidence, transcript."""
        beside = [name for name in (self.clock, self.text) if name is not None]
        return tuple(files.join(root, name) for name in (*self.claim.files, *beside))


@dataclass(frozen=True, slots=True)
class Claims:
    """All items, in order, the files that nobody took, and the clock logs of no recording."""

    claimed: tuple[Claimed, ...]
    skipped: tuple[str, ...]
    idle: tuple[str, ...] = ()


def claim_all(inputs: Inputs, layout: Layout | None) -> Claims:
    """Let the readers claim the files.

    Raises
    ------
    UsageError
        A named file is none that a reader takes; an (id, stream) occurs twice.
    DataError
        There is nothing that is known.
    """
    found: list[Claim] = []
    taken: set[str] = set()
    for folder, names in _by_folder(inputs.names).items():
        claims = list(_claims(folder, names, inputs))
        found += claims
        taken |= {name for claim in claims for name in claim.files}
    skipped = [name for name in inputs.names if name not in taken and not is_companion(name)]
    if refused := [name for name in skipped if name in inputs.named]:
        raise DataError(
            "no reader knows it",
            where=inputs.path(refused[0]),
            hint=f"tried: {', '.join(TABLE_READERS)}, sound, video",
        )
    found.sort(key=_order(inputs.root))
    placed = [_placed(claim, inputs, layout) for claim in found]
    claimed = tuple(one for one in placed if one is not None)
    skipped += [c.id_path for c, one in zip(found, placed, strict=True) if not one]
    if found and not claimed and layout is not None:
        raise DataError(
            f"none of {len(inputs.names)} files fits the layout, as {found[0].id_path}",
            where=str(inputs.root),
            hint=f"expected: {layout.expected}",
        )
    if not claimed:
        raise DataError(
            f"nothing known among {len(inputs.names)} files",
            where=str(inputs.root),
            hint=f"known: {', '.join(TABLE_READERS)}, sound, video",
        )
    _refuse_doubles(claimed)
    used = {one.clock for one in claimed}
    idle = (name for name in inputs.names if is_companion(name) and name not in used)
    return Claims(claimed, tuple(skipped), tuple(idle))


def _order(root: Path) -> Callable[[Claim], tuple[str, ...]]:
    """Order claims as their ids, so that an archive stands where its folder would."""
    return lambda claim: tuple(files.plain_name(root, claim.id_path).split("/"))


def _by_folder(names: Sequence[str]) -> dict[str, list[str]]:
    folders: dict[str, list[str]] = {}
    for name in names:
        folder, _, last = name.rpartition("/")
        folders.setdefault(folder, []).append(last)
    return folders


def _claims(folder: str, names: list[str], inputs: Inputs) -> Iterator[Claim]:
    left = set(names)
    for reader in _READERS:
        for claim in reader(folder, left, inputs):
            left -= {name.rpartition("/")[2] for name in claim.files}
            yield claim


def _known_claims(folder: str, names: set[str], inputs: Inputs) -> Iterator[Claim]:
    left = {name for name in names if not _media_kind(name) and not is_companion(name)}
    for reader in _KNOWN:
        for claim in reader.claim(folder, sorted(left), inputs.root):
            left -= {name.rpartition("/")[2] for name in claim.files}
            yield claim


def _media_claims(folder: str, names: set[str], inputs: Inputs) -> list[Claim]:
    claims = []
    for name in sorted(names):
        kind, path = _media_kind(name), _whole(folder, name)
        if kind is None and path in inputs.named and is_sound(inputs.root / path):
            kind = "audio"
        if kind is not None:
            claims.append(Claim(kind, path, (path,), files.last_suffix(name)))
    return claims


def _media_kind(name: str) -> str | None:
    suffix = files.last_suffix(name).lower()
    return next((kind for kind, suffixes in _MEDIA.items() if suffix in suffixes), None)


def _walked_text_claims(folder: str, names: set[str], inputs: Inputs) -> list[Claim]:
    walked = [
        name
        for name in names
        if _whole(folder, name) not in inputs.named and not name.endswith(NO_RECORDINGS)
    ]
    return text.claim(folder, sorted(walked), inputs.root)


def _named_text_claims(folder: str, names: set[str], inputs: Inputs) -> list[Claim]:
    named = [n for n in names if _whole(folder, n) in inputs.named and not is_companion(n)]
    return text.claim(folder, sorted(named), inputs.root, named=True)


_MEDIA = {"audio": AUDIO_SUFFIXES, "video": VIDEO_SUFFIXES}
_READERS = (_known_claims, _media_claims, _walked_text_claims, _named_text_claims)


def _whole(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _placed(claim: Claim, inputs: Inputs, layout: Layout | None) -> Claimed | None:
    path = claim.id_path.removesuffix(claim.suffix)
    stem, root_name = files.plain_name(inputs.root, path), _root_name(inputs.root)
    root_name = root_name.removesuffix("" if claim.id_path else claim.suffix)
    place = layout.place(stem or root_name, claim.suffix) if layout else None
    if layout is not None and place is None and claim.reader != archive.READER:
        if claim.id_path in inputs.named:
            raise UsageError("does not fit the layout", where=inputs.path(claim.id_path))
        return None
    own = _stream_names(claim, inputs.root)
    is_single = own == (claim.stem,)
    item_id, session, stream = _names(claim, place, stem, root_name, is_single=is_single)
    streams = {claim.stem: stream} if is_single else {name: name for name in own}
    if layout is not None and place is not None:
        renamed = {name: layout.streams.get(name) or stream_name(name, place) for name in own}
        streams = streams if is_single else renamed
    n_bytes = sum(size_of(inputs.path(name)) for name in claim.files)
    clock = _clock(inputs.root, path) if claim.id_path else None
    return Claimed(claim, item_id, session, stream, streams, n_bytes, place, clock)


def stream_name(own: str, place: Place) -> str:
    """Name a stream of a file that holds several: `signal` is what the path says it is."""
    if place.stream is None:
        return own
    if own == NOTES:
        return f"{place.stream}_{NOTES}"
    return place.stream + own[len(SIGNAL) :] if own.startswith(SIGNAL) else own


def own_names(claimed: Claimed, streams: Iterable[str], *, is_split: bool) -> dict[str, str]:
    """Find by what name the reader of an item knows streams of the data set.

    Parameters
    ----------
    is_split : bool
        Its streams are parts: their names end in `-` and a value.

    Returns
    -------
    dict
        The reader's name -> the stream, of those that the item may have.
    """
    place = claimed.place or Place(claimed.id)
    found: dict[str, str] = {}
    for stream in streams:
        if is_split:
            planned = claimed.streams.items()
            tried = [
                own + stream.removeprefix(s) for own, s in planned if stream.startswith(f"{s}-")
            ]
        elif claimed.streams:
            tried = [own for own, planned in claimed.streams.items() if planned == stream]
        else:
            tail = stream.removeprefix(place.stream or "")
            tried = [
                own for own in (stream, NOTES, SIGNAL + tail) if stream_name(own, place) == stream
            ]
        found |= dict.fromkeys(tried, stream)
    return found


def _names(
    claim: Claim, place: Place | None, stem: str, root_name: str, *, is_single: bool
) -> tuple[str, str, str]:
    """Give id, session and stream of an item."""
    is_media = claim.reader in _MEDIA
    folder, _, last = stem.rpartition("/")
    stream = claim.reader if is_media else last
    item_id = stem or root_name
    if place is not None:
        stream = place.stream or ("table" if is_single else stream)
        item_id = place.id or root_name
    elif is_single:
        item_id = folder or last
    folder = item_id.rpartition("/")[0] or root_name
    session = (place.session if place else None) or (folder if is_media else item_id)
    return item_id, session, stream


def _stream_names(claim: Claim, root: Path) -> tuple[str, ...]:
    """Give the streams of a claim, as far as they are known before the look."""
    if claim.reader in _MEDIA:
        return ()
    listed = getattr(TABLE_READERS[claim.reader], "streams", None)
    with suppress(DataError):  # the look finds it again: the item fails, not the run
        return tuple(listed(claim, root, TextOptions())) if listed is not None else ()
    return ()


def _root_name(root: Path) -> str:
    return files.plain_name(root.parent, root.name)


def _clock(root: Path, stem: str) -> str | None:
    """Find the clock evidence beside an item; that of an archive may leave its suffix out."""
    end = archives.suffix_of(stem)
    stems = (stem, stem.removesuffix(end)) if end and files.is_folder(root / stem) else (stem,)
    found = companion_of(*(files.join(root, one) for one in stems))
    return found.removeprefix(files.join(root, "")) if found is not None else None


def _refuse_doubles(claimed: Sequence[Claimed]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for one in claimed:
        for stream in one.streams.values() if one.is_table else (one.stream,):
            other = seen.setdefault((one.id, stream), one.source)
            if other != one.source:
                raise UsageError(
                    f"{other} and {one.source} would both be stream {stream!r} of {one.id!r}",
                    hint="give a --layout, or leave one of them out with --exclude",
                )


def reader_of(path: Path) -> str:
    """Name the reader of one table file: the one that knows it, else that of any text."""
    for reader in _KNOWN:
        if reader.claim("", [path.name], path.parent):
            return str(reader.READER)
    return text.READER
