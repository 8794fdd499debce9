"""Known corpora, one declaration each: where their files lie, their labels, their known holes.

Rules
-----
- A preset expects the files as their authors publish them, packed or not, at any depth below the
  INPUT.
- Facts that the files do not tell stand here, with their source.
- What is known to be missing is no failure: it is said in one line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mmprep.manifest.model import Record
from mmprep.steps.corpus import ratings
from mmprep.steps.corpus.place import Place, Shape
from mmprep.steps.corpus.triggers import Triggers

Joined = tuple[list[Record], list[str]]


@dataclass(frozen=True, slots=True)
class LabelFile:
    """Files of labels beside the recordings.

    Parameters
    ----------
    shape : Shape
        Where they lie.
    join : callable
        (records, files with what their paths say) -> records with the labels, what is to be said.
    """

    shape: Shape
    join: Callable[[Sequence[Record], Mapping[Path, Place]], Joined]


@dataclass(frozen=True, slots=True)
class Hole:
    """What is known to be missing.

    Parameters
    ----------
    parts : tuple of str
        Only these of the person's recordings, by the last part of the id; empty for all.
    """

    why: str
    subjects: tuple[str, ...]
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Corpus:
    """How a corpus is laid out, and what is known of it.

    Parameters
    ----------
    shapes : tuple of Shape
        Tried in order; files that fit none are no part of the corpus.
    read : callable, optional
        Reads the paths that no shape can.
    texts : tuple of str
        Transcripts, as of `--text`.
    streams : mapping of str to str
        The reader's name of a stream -> its name here.
    is_cut : bool
        Recordings are cut into the trials or conditions that they hold, a record each.
    triggers : Triggers, optional
        What tells the trials of recordings whose reader knows of none.
    labels : tuple of LabelFile
    subjects : tuple of str
        All people, as published.
    groups : mapping
        Field -> value -> the people that have it.
    holes : tuple of Hole
    expected : tuple of str
        Streams that each person should have, where anybody has them.
    notes : mapping of str to str
        Glob -> what is to be said where it fits the source of a record.
    """

    shapes: tuple[Shape, ...] = ()
    read: Callable[[str, str], Place | None] | None = None
    texts: tuple[str, ...] = ()
    streams: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False
    triggers: Triggers | None = None
    labels: tuple[LabelFile, ...] = ()
    subjects: tuple[str, ...] = ()
    groups: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    holes: tuple[Hole, ...] = ()
    expected: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)


def _people(pattern: str, last: int, first: int = 1) -> tuple[str, ...]:
    return tuple(pattern.format(k) for k in range(first, last + 1))


# Miranda-Correa et al. 2018: 40 people saw 16 short films, 37 of them 4 long ones, too. Trials are
# numbered in the file's order; which film each one shows stands in `video`.
_AMIGOS = Corpus(
    shapes=(
        Shape("**/Data_Preprocessed_{subject}.mat", "{subject}", "{subject}"),
        Shape("{subject}/{session}_{stream}.{ext}"),
    ),
    is_cut=True,
    subjects=_people("P{:02d}", 40),
    holes=(
        Hole(
            "they did not see the long films",
            ("P08", "P24", "P28"),
            _people("{:02d}", 20, first=17),
        ),
    ),
)

# Koelstra et al. 2012 and the readme of the set: 128 Hz, 3 s before each clip. In the original
# files the channel Status is 4 where a clip begins and 5 after it (as public loaders have it).
_DEAP_PEOPLE = _people("s{:02d}", 32)
_DEAP_NAMES = "|".join(_DEAP_PEOPLE)
_DEAP = Corpus(
    shapes=(
        Shape(f"**/face_video/{{_:{_DEAP_NAMES}}}/{{subject}}_trial{{presented}}.{{ext}}"),
        Shape(f"**/{{subject:{_DEAP_NAMES}}}.bdf", "{subject}/original", "{subject}/original"),
        Shape(f"**/{{subject:{_DEAP_NAMES}}}.{{ext}}", session="{subject}"),
    ),
    is_cut=True,
    triggers=Triggers("Status", begin=4, end=5, count=40, number="presented"),
    labels=(LabelFile(Shape("**/participant_ratings.csv"), ratings.deap),),
    subjects=_DEAP_PEOPLE,
    groups={"site": {"Twente": _DEAP_PEOPLE[:22], "Geneva": _DEAP_PEOPLE[22:]}},
    notes={
        "*.bdf": "the unit of GSR and the order of channels differ between s01 .. s22 (Twente) and"
        " s23 .. s32 (Geneva): see the field `site`; channels go by name",
        "*.[dm]at": "whether GSR has one unit for both sites is not said in the files: see the"
        " field `site`",
    },
)

# Katsigiannis and Ramzan 2018: 23 people, 18 clips, rated from 1 to 5.
_DREAMER = Corpus(
    shapes=(Shape("**/DREAMER/{subject}", "{subject}", "{subject}"),),
    is_cut=True,
    subjects=_people("S{:02d}", 23),
)

# Park et al. 2020; those with whole recordings as of the authors' own preprocessing.
_KEMOCON = Corpus(
    shapes=(
        Shape("**/e4_data/{subject}", "{subject}", "{subject}"),
        Shape("**/neurosky_polar_data/{subject}/{stream}.{ext}", "{subject}", "{subject}"),
        Shape(
            "**/P{subject}.{_:self|partner|external|R1|R2|R3|R4|R5}.{ext}", "{subject}", "{subject}"
        ),
    ),
    labels=(LabelFile(Shape("**/subjects.csv"), ratings.kemocon),),
    subjects=_people("{}", 32),
    holes=(
        Hole(
            "devices failed or were not worn",
            ("2", "3", "6", "7", "12", "17", "18", "20", "21", "29", "30"),
        ),
    ),
    expected=(
        *("EDA", "BVP", "TEMP", "HR", "IBI", "ACC", "Polar_HR"),
        *("emotion_self", "emotion_partner", "emotion_external"),
    ),
)

# Schmidt et al. 2018 and the readme of the set.
_WESAD = Corpus(
    shapes=(
        Shape("**/{subject}_{stream:respiban}.txt", "{subject}/respiban", "{subject}/respiban"),
        Shape("**/{subject}_E4_Data", "{subject}/E4", "{subject}/E4"),
        Shape("**/{subject}.pkl", "{subject}", "{subject}"),
    ),
    streams={"label": "condition"},
    is_cut=True,
    labels=(LabelFile(Shape("**/{subject}_quest.csv"), ratings.wesad),),
    subjects=_people("S{}", 17),
    holes=(Hole("their sensors failed, they were never published", ("S1", "S12")),),
    notes={
        "*.pkl": "records are the conditions (baseline, stress, amusement, meditation); what lies"
        " between them (0 transient, 5 to 7 to be ignored) stands in the tables alone",
    },
)

# Sharma et al. 2019 and the READMEs of the set.
_CASE = Corpus(
    shapes=(
        Shape(
            "**/{form:interpolated|non-interpolated}/{_:physiological|annotations}/sub_{subject}"
            ".{ext}",
            "sub{subject}/{form}",
            "sub{subject}/{form}",
        ),
        Shape("**/{_:physiological|annotations}/sub_{subject}.{ext}", "sub{subject}/converted"),
        Shape("**/{_:physiological|annotations}/sub{subject}.{ext}", "sub{subject}"),
        Shape("**/sub{subject}_{_:DAQ|joystick}.txt", "sub{subject}"),
    ),
    is_cut=True,
    subjects=_people("{}", 30),
    notes={
        "*.csv": "records are the eight videos; what was shown between them stands in the tables"
        " alone",
    },
)

# https://vipazoo.cn/CMLR.html: sentences of the news, for train, val and test.
_CMLR = Corpus(
    shapes=(
        Shape("**/{_:audio|video}/{subject}/{date}/{stem}.{ext}", "{subject}/{date}/{stem}"),
        Shape("{subject}/{date}/{stem}.{ext}"),
    ),
    texts=("**/text/{subject}/{date}/{stem}.txt", "{stem}.txt"),
    labels=(LabelFile(Shape("**/{split:train|val|test}.{_:txt|csv}"), ratings.cmlr),),
)

# LRS2: lists for the clips in main/; in LRS3 the folders are the splits.
_LRS = Corpus(
    shapes=(
        Shape("**/{part:pretrain|trainval|test}/{subject}/{stem}.{ext}", split="{part}"),
        Shape("**/{part:main}/{subject}/{stem}.{ext}"),
    ),
    texts=("{stem}.txt",),
    labels=(LabelFile(Shape("**/{split:train|val|test}.txt"), ratings.lrs),),
)

# BIDS 1.10. Tables other than physio, stim, motion and events are no recordings.
_BIDS_NAME = re.compile(
    r"(?P<id>(?:.+/)?(?P<entities>sub-[A-Za-z0-9+]+(?:_[a-z]+-[A-Za-z0-9+]+)*))"
    r"(?:_(?P<suffix>[A-Za-z0-9]+))?"
)


def _bids(stem: str, suffix: str) -> Place | None:
    """Read the entities of a name: the recordings of one task and run are one session."""
    found = _BIDS_NAME.fullmatch(stem)
    if found is None or suffix.startswith(".tsv"):
        return None
    entities = dict(part.split("-", 1) for part in found["entities"].split("_"))
    subject, ses = f"sub-{entities.pop('sub')}", entities.get("ses")
    rest = "_".join(f"{key}-{label}" for key, label in entities.items() if key != "ses")
    session = "/".join(filter(None, [subject, f"ses-{ses}" if ses else "", rest]))
    return Place(found["id"], session, subject, found["suffix"], fields=entities)


CORPORA: Mapping[str, Corpus] = {
    "amigos": _AMIGOS,
    "bids": Corpus(
        read=_bids, labels=(LabelFile(Shape("**/participants.tsv"), ratings.participants),)
    ),
    "case": _CASE,
    "cmlr": _CMLR,
    "deap": _DEAP,
    "dreamer": _DREAMER,
    "e4": Corpus(shapes=(Shape("{subject}/{session}"), Shape("{session}"))),
    "kemocon": _KEMOCON,
    "lrs": _LRS,
    "wesad": _WESAD,
}
