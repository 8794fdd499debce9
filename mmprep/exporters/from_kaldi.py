"""A data directory of Kaldi: `wav.scp`, and perhaps `segments`, `text`, `utt2spk`, `utt2dur`.

A recording that is a command (`sph2pipe … |`) is refused: nothing is run.
"""

from __future__ import annotations

from collections.abc import Mapping

from mmprep.errors import DataError
from mmprep.exporters.utterances import Utterance

NEEDED, FILES = "wav.scp", ("wav.scp", "segments", "text", "utt2spk")


def read(files: Mapping[str, str], where: str) -> list[Utterance]:
    """Read the files of a data directory.

    Parameters
    ----------
    files : mapping of str to str
        Name -> content of those that are there.

    Raises
    ------
    DataError
        There is no wav.scp, a line is short, a recording is a command or not listed.
    """
    if NEEDED not in files:
        raise DataError(f"has no {NEEDED}", where=where, hint="a data directory as Kaldi has it")
    recordings = _table(files, "wav.scp", where)
    for name, path in recordings.items():
        if path.endswith("|") or path.startswith("|"):
            raise DataError(
                f"recording {name!r} is a command, which is not run",
                where=f"{where}/wav.scp",
                hint="write the sound into a file and name that",
            )
    texts, speakers = _table(files, "text", where), _table(files, "utt2spk", where)
    return [
        Utterance(
            name,
            recordings[recording],
            begin_s,
            duration_s,
            texts.get(name) or None,
            speakers.get(name),
            where=f"{where}/{'segments' if 'segments' in files else 'wav.scp'}",
        )
        for name, recording, begin_s, duration_s in _stretches(files, recordings, where)
    ]


def _table(files: Mapping[str, str], name: str, where: str) -> dict[str, str]:
    """Read lines of a key and the rest."""
    found: dict[str, str] = {}
    for number, line in enumerate(files.get(name, "").splitlines(), start=1):
        key, _, rest = line.strip().partition(" ")
        if not key:
            continue
        if not rest.strip() and name != "text":
            raise DataError(f"{key!r} has no value", where=f"{where}/{name}:{number}")
        found[key] = rest.strip()
    return found


def _stretches(
    files: Mapping[str, str], recordings: Mapping[str, str], where: str
) -> list[tuple[str, str, float, float | None]]:
    if "segments" not in files:
        return [(name, name, 0.0, None) for name in recordings]
    found = []
    for name, rest in _table(files, "segments", where).items():
        cells = rest.split()
        try:
            recording, begin_s, end_s = cells[0], float(cells[1]), float(cells[2])
        except (IndexError, ValueError) as error:
            hint = "utterance, recording, begin and end in seconds"
            raise DataError(
                f"{rest!r} of {name!r}", where=f"{where}/segments", hint=hint
            ) from error
        if recording not in recordings:
            what = f"recording {recording!r} of {name!r} is not in wav.scp"
            raise DataError(what, where=f"{where}/segments")
        found.append((name, recording, begin_s, None if end_s < 0 else end_s - begin_s))
    return found
