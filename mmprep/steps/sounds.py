"""Sound files as the input of a step: which they are, their ids, how much they decode to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from numpy.typing import NDArray

from mmprep import files
from mmprep.errors import DataError, UsageError
from mmprep.media import AUDIO_SUFFIXES, VIDEO_SUFFIXES, AudioReader
from mmprep.steps.inputs import Inputs

# Decoded float32 bytes for a byte of the file, so that shards can be planned without opening it.
_UNPACKED = ".wav .bwf .rf64 .aif .aifc .aiff .au .snd .sph .nist .caf .w64 .voc .sf .avr .paf .pvf"
_EXPANSION = {**dict.fromkeys(_UNPACKED.split(), 2), ".flac": 4}
_LOSSY, _IN_VIDEO = 20, 2
OFF_S = 0.02  # no lip notices less
LOUDEST = 2.0  # decoders of lossy sound go a little beyond full scale, 1


def decoded_bytes(name: str, n_bytes: int) -> int:
    """Guess how many bytes of float32 a file decodes to."""
    suffix = suffix_of(name)
    if suffix in VIDEO_SUFFIXES and suffix not in AUDIO_SUFFIXES:
        return n_bytes * _IN_VIDEO
    return n_bytes * _EXPANSION.get(suffix, _LOSSY)


def peak(samples: NDArray[Any]) -> float:
    """Give the largest absolute value; 0 where there is none."""
    return float(max(samples.max(), -samples.min())) if samples.size else 0.0


def loud(source: str, highest: float) -> tuple[str, ...]:
    """Say so where floats of a file can't be sound that reaches from -1 to 1."""
    if not highest > LOUDEST:  # nor where it is no number
        return ()
    return (
        f"{source}: values reach {highest:.6g} where 1 is full scale: integers that were written"
        " as floats?",
    )


def uneven(source: str, reader: AudioReader) -> tuple[str, ...]:
    """Say so where a decoded sound breaks off, or its packets aren't where its samples are."""
    said = []
    if reader.breaks:
        row, time_s = reader.breaks[-1]
        lost_s = time_s - reader.info.start_s - row / reader.rate_hz
        said.append(f"{source}: breaks in the sound: {len(reader.breaks)}, {lost_s:.3g} s in all")
    if reader.stamp_error_s > OFF_S:
        said.append(
            f"{source}: packets of the sound are stamped up to {reader.stamp_error_s:.3g} s from"
            " where its samples are counted to be"
        )
    return tuple(said)


def lost(source: str, reader: AudioReader) -> tuple[str, ...]:
    """Say what of a sound could not be decoded, once all of it has been read."""
    found = []
    if reader.n_errors:
        found.append(f"{source}: {reader.n_errors} packets could not be decoded")
    if reader.is_short:
        declared = reader.info.n_declared
        found.append(f"{source}: {reader.n_decoded} samples were decoded, {declared} declared")
    return tuple(found)


def suffix_of(name: str) -> str:
    """Give the last suffix in lower case."""
    return files.last_suffix(name).lower()


def sound_names(inputs: Inputs) -> Iterator[str]:
    """Find the sound files; a file that is named must be one (or a video, for its sound).

    Raises
    ------
    UsageError
        A named file has another suffix.
    DataError
        There is none at all.
    """
    found = False
    for name in inputs.names:
        suffix = suffix_of(name)
        if suffix in AUDIO_SUFFIXES or (name in inputs.named and suffix in VIDEO_SUFFIXES):
            found = True
            yield name
        elif name in inputs.named:
            raise UsageError("is no sound file that is known", where=inputs.path(name))
    if not found:
        raise DataError(
            f"no sound file among {len(inputs.names)} files",
            where=str(inputs.root),
            hint=f"known suffixes: {' '.join(sorted(AUDIO_SUFFIXES))}",
        )


def unique_ids(names: Sequence[str], root_name: str) -> dict[str, str]:
    """Give each file its id: its name less the suffix.

    Raises
    ------
    UsageError
        Two files would have one id.
    """
    ids: dict[str, str] = {}
    for name in names:
        taken = ids.setdefault(name.removesuffix(PurePosixPath(name).suffix), name)
        if taken != name:
            raise UsageError(
                f"{taken} and {name} would both be {PurePosixPath(name).stem!r}",
                where=root_name,
                hint="leave one of them out with --exclude",
            )
    return {name: item_id for item_id, name in ids.items()}


def folder_of(item_id: str, root_name: str) -> str:
    """Give the session of a file that no layout places: its folder, the root's name at the top."""
    folder = item_id.rpartition("/")[0]
    return folder or root_name
