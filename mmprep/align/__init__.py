"""Put the streams of a session on common times.

Pure: streams and times in, arrays and counts out. The parts, in the order of use:

    repair          Stream + session times -> Repaired      (`order`, `dejitter`, `repaired`)
    treated         Repaired, filter and reference -> Repaired  (`filtering`)
    plan_windows    coverages, rates -> WindowPlan          (`windows`)
    resample        Repaired + times -> Aligned             (`methods`, `sinc`, `cubic`, `axis`)
    keep_windows    valid masks -> the windows that stay    (`windows`)
    Ledger          Aligned ... -> Accounting               (`ledger`)
    place_events    Repaired events -> PlacedEvents         (`events`)
    find_drops      ranks and times of frames -> Drops      (`drops`)
    read_log        frame log + ranks -> Logged             (`framelog`)

Each part states its rules at its top.
"""

from __future__ import annotations

from mmprep.align.drops import Drops, find_drops
from mmprep.align.evenly import Doubt
from mmprep.align.events import PlacedEvents, place_events
from mmprep.align.filtering import Treatment, treated
from mmprep.align.framelog import NO_TIME, Logged, read_log
from mmprep.align.ledger import Accounting, Ledger
from mmprep.align.methods import METHODS, Aligned, default_method, resample
from mmprep.align.order import UNREADABLE, usable
from mmprep.align.repaired import Repaired, Repairs, regular, regular_data, repair
from mmprep.align.windows import (
    COVERS,
    ON_GAP,
    Kept,
    WindowPlan,
    covered,
    grid_rate,
    keep_windows,
    plan_windows,
)

__all__ = [
    "COVERS",
    "METHODS",
    "NO_TIME",
    "ON_GAP",
    "UNREADABLE",
    "Accounting",
    "Aligned",
    "Doubt",
    "Drops",
    "Kept",
    "Ledger",
    "Logged",
    "PlacedEvents",
    "Repaired",
    "Repairs",
    "Treatment",
    "WindowPlan",
    "covered",
    "default_method",
    "find_drops",
    "grid_rate",
    "keep_windows",
    "place_events",
    "plan_windows",
    "read_log",
    "regular",
    "regular_data",
    "repair",
    "resample",
    "treated",
    "usable",
]
