"""The rules by which Kaldi judges a data folder (egs/wsj/s5/utils/validate_data_dir.sh)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

BY_UTTERANCE = ("text", "wav.scp", "feats.scp", "utt2dur", "utt2num_frames")
POSITIVE = ("utt2dur", "utt2num_frames")


def faults(folder: Mapping[str, bytes]) -> list[str]:
    """List what Kaldi would refuse in the lists of a folder, given by their names."""
    return [*_lines(folder), *_speakers(folder), *_utterances(folder), *_values(folder)]


def _keys(data: bytes) -> list[bytes]:
    return [line.split(b" ")[0] for line in data.split(b"\n")[:-1]]


def _lines(folder: Mapping[str, bytes]) -> Iterator[str]:
    for name, data in folder.items():
        if not data.endswith(b"\n"):
            yield f"{name} is empty, or its last line has no newline"
        if (keys := _keys(data)) != sorted(set(keys)) or not all(keys):
            yield f"{name} is not sorted by bytes, or has an id twice"
    if any(char.isspace() and char not in " \n" for char in folder.get("text", b"").decode()):
        yield "text has white space that is none of Kaldi's"


def _speakers(folder: Mapping[str, bytes]) -> Iterator[str]:
    pairs = [tuple(line.split(b" ")) for line in folder["utt2spk"].split(b"\n")[:-1]]
    if any(len(pair) != 2 for pair in pairs):
        yield "utt2spk has a line that is no pair"
    if pairs != sorted(pairs, key=lambda pair: (pair[1], pair[0])):
        yield "utt2spk is not in order when sorted first on the speaker"
    if not all(name.startswith(speaker) for name, speaker in pairs):
        yield "a speaker is no prefix of an utterance"
    inverse = [line.split(b" ") for line in folder["spk2utt"].split(b"\n")[:-1]]
    if [(name, speaker) for speaker, *those in inverse for name in those] != pairs:
        yield "spk2utt and utt2spk do not match"


def _utterances(folder: Mapping[str, bytes]) -> Iterator[str]:
    for name in BY_UTTERANCE:
        if name in folder and _keys(folder[name]) != _keys(folder["utt2spk"]):
            yield f"{name} and utt2spk have other utterances"
    if any(
        line.partition(b" ")[2].startswith(b"~") for line in folder.get("wav.scp", b"").split(b"\n")
    ):
        yield "wav.scp has a tilde"


def _values(folder: Mapping[str, bytes]) -> Iterator[str]:
    for name in POSITIVE:
        for line in folder.get(name, b"").split(b"\n")[:-1]:
            if line.count(b" ") != 1 or not float(line.split(b" ")[1]) > 0:
                yield f"{name} has the line {line!r}"
