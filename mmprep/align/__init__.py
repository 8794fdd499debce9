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

from typing import TypeAlias

from mmprep.align.drops import Drops, find_drops
from mmprep.align.evenly import Doubt
from mmprep.align.events import PlacedEvents, place_events
from mmprep.align.filtering import Treatment, treated
from mmprep.align.framelog import NO_TIME, Logged, read_log
from mmprep.align.ledger import Accounting, Ledger
from mmprep.align.markers import NO_END, Groups, Paired, lasting, pair
from mmprep.align.methods import METHODS, Aligned, default_method, nothing_like, resample
from mmprep.align.order import UNREADABLE, usable
from mmprep.align.repaired import Repaired, Repairs, regular, regular_data, repair
from mmprep.align.trials import (
    LAID,
    TAILS,
    Laid,
    RaggedPlan,
    TrialAccounting,
    TrialPlan,
    merged,
    plan_ragged,
    plan_trials,
    whole_recording,
)
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

AnyPlan: TypeAlias = WindowPlan | RaggedPlan

__all__ = [
    "COVERS",
    "LAID",
    "METHODS",
    "NO_END",
    "NO_TIME",
    "ON_GAP",
    "TAILS",
    "UNREADABLE",
    "Accounting",
    "Aligned",
    "AnyPlan",
    "Doubt",
    "Drops",
    "Groups",
    "Kept",
    "Laid",
    "Ledger",
    "Logged",
    "Paired",
    "PlacedEvents",
    "RaggedPlan",
    "Repaired",
    "Repairs",
    "Treatment",
    "TrialAccounting",
    "TrialPlan",
    "WindowPlan",
    "covered",
    "default_method",
    "find_drops",
    "grid_rate",
    "keep_windows",
    "lasting",
    "merged",
    "nothing_like",
    "pair",
    "place_events",
    "plan_ragged",
    "plan_trials",
    "plan_windows",
    "read_log",
    "regular",
    "regular_data",
    "repair",
    "resample",
    "treated",
    "usable",
    "whole_recording",
]
