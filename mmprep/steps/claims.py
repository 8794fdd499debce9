"""Who takes which raw file: readers claim items, layouts and rules give them ids and streams.

Rules
-----
- Readers are asked in a fixed order; what one has claimed the next does not see.
- Tables: id = the file's folder (its stem at the root), stream = its stem. Sound and video:
  id = the path less its suffix, stream `audio` or `video`. A layout overrides both.
- An item that is the root takes the root's name.
- Beside `x.EXT`, `x.ptp.tsv` or `x.clock.tsv` is its clock evidence, `x.frames.tsv` its frame
  times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mmprep.errors import DataError, UsageError
from mmprep.media import AUDIO_SUFFIXES, VIDEO_SUFFIXES
from mmprep.sources import e4, text
from mmprep.sources.base import Claim, is_companion
from mmprep.steps.inputs import Inputs, size_of
from mmprep.steps.layout import Layout, Place

TABLE_READERS = {"e4": e4, "text": text}
CLOCK_COMPANIONS = (".frames.tsv", ".clock.tsv", ".ptp.tsv")


@dataclass(frozen=True, slots=True)
class Claimed:
    """One item: its claim, where it belongs, what lies beside it.

    Parameters
    ----------
    streams : dict
        Table readers: the reader's name of each stream -> its name in the data set.
    clock, text : str, optional
        Files below the root: clock evidence, transcript.
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

    def paths(self, root: Path) -> tuple[str, ...]:
        """Give the paths of all its files: its own, clock evidence, transcript."""
        beside = [name for name in (self.clock, self.text) if name is not None]
        return tuple(str(root / name) for name in (*self.claim.files, *beside))


@dataclass(frozen=True, slots=True)
class Claims:
    """All items, in order, and the files that nobody took."""

    claimed: tuple[Claimed, ...]
    skipped: tuple[str, ...]


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
            hint="tried: E4 session, sound, video, delimited text",
        )
    placed = [_placed(claim, inputs, layout) for claim in sorted(found, key=_order)]
    claimed = tuple(one for one in placed if one is not None)
    skipped += [
        c.id_path for c, one in zip(sorted(found, key=_order), placed, strict=True) if not one
    ]
    if not claimed:
        raise DataError(
            f"nothing known among {len(inputs.names)} files",
            where=str(inputs.root),
            hint="known: E4 sessions, sound, video, delimited text (.tsv .csv)",
        )
    _refuse_doubles(claimed)
    return Claims(claimed, tuple(skipped))


def _order(claim: Claim) -> tuple[str, ...]:
    return PurePosixPath(claim.id_path).parts


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


def _e4_claims(folder: str, names: set[str], inputs: Inputs) -> list[Claim]:
    return e4.claim(folder, sorted(names), inputs.root)


def _media_claims(folder: str, names: set[str], inputs: Inputs) -> list[Claim]:
    claims = []
    for name in sorted(names):
        suffix = PurePosixPath(name).suffix
        kinds = [kind for kind, suffixes in _MEDIA.items() if suffix.lower() in suffixes]
        if kinds:
            path = _whole(folder, name)
            claims.append(Claim(kinds[0], path, (path,), suffix))
    return claims


def _walked_text_claims(folder: str, names: set[str], inputs: Inputs) -> list[Claim]:
    walked = [name for name in names if _whole(folder, name) not in inputs.named]
    return text.claim(folder, sorted(walked), inputs.root)


def _named_text_claims(folder: str, names: set[str], inputs: Inputs) -> list[Claim]:
    named = [n for n in names if _whole(folder, n) in inputs.named and not is_companion(n)]
    return text.claim(folder, sorted(named), inputs.root, named=True)


_MEDIA = {"audio": AUDIO_SUFFIXES, "video": VIDEO_SUFFIXES}
_READERS = (_e4_claims, _media_claims, _walked_text_claims, _named_text_claims)


def _whole(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _placed(claim: Claim, inputs: Inputs, layout: Layout | None) -> Claimed | None:
    stem = claim.id_path.removesuffix(claim.suffix)
    place = layout.place(stem or inputs.root.name, claim.suffix) if layout else None
    if layout is not None and place is None:
        if claim.id_path in inputs.named:
            raise UsageError("does not fit the layout", where=inputs.path(claim.id_path))
        return None
    item_id, session, stream = _names(claim, place, stem, inputs.root.name)
    own = {part: part for part in _stream_names(claim)}
    streams = own if claim.reader == "e4" else dict.fromkeys(own, stream)
    n_bytes = sum(size_of(inputs.path(name)) for name in claim.files)
    clock = _clock(inputs.root, stem) if claim.id_path else None
    return Claimed(claim, item_id, session, stream, streams, n_bytes, place, clock)


def _names(claim: Claim, place: Place | None, stem: str, root_name: str) -> tuple[str, str, str]:
    """Give id, session and stream of an item."""
    is_text, is_media = claim.reader == "text", claim.reader in {"audio", "video"}
    folder, _, last = stem.rpartition("/")
    stream = claim.reader if is_media else last
    item_id = stem or root_name
    if place is not None:
        stream = place.stream or ("table" if is_text else stream)
        item_id = place.id or root_name
    elif is_text:
        item_id = folder or last
    folder = item_id.rpartition("/")[0] or root_name
    session = (place.session if place else None) or (folder if is_media else item_id)
    return item_id, session, stream


def _stream_names(claim: Claim) -> list[str]:
    if claim.reader == "e4":
        return [PurePosixPath(name).stem for name in claim.files]
    return [claim.stem]


def _clock(root: Path, stem: str) -> str | None:
    for end in CLOCK_COMPANIONS:
        if (root / f"{stem}{end}").is_file():
            return f"{stem}{end}"
    return None


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
