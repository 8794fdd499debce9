"""Where the windows of a session lie: over what its streams cover, or over its trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mmprep import align
from mmprep.steps.running.tasks import Item, Job
from mmprep.steps.sessions import trialtables
from mmprep.steps.sessions.eventtables import EventStream
from mmprep.steps.sessions.modality import Modality, TrialWish, Wish
from mmprep.steps.sessions.trialtables import Told, Trials
from mmprep.steps.sessions.windowlist import WindowList
from mmprep.timebase import NS_PER_S, IntArray


@dataclass(frozen=True, slots=True)
class OfTrials:
    """Trials, and the windows that were laid over them."""

    trials: Trials
    laid: align.Laid
    wish: TrialWish


@dataclass(frozen=True, slots=True)
class Laying:
    """Windows of a session.

    Parameters
    ----------
    cover_ns : (begin, end)
        What the streams cover.
    over : OfTrials, optional
        None for windows over all of it.
    """

    plan: align.AnyPlan
    cover_ns: tuple[int, int]
    over: OfTrials | None = None

    @property
    def held_ns(self) -> tuple[int, int]:
        """The stretch that windows are taken from."""
        return self.plan.span_ns if self.over is None else self.cover_ns

    @property
    def word(self) -> str:
        """What is said to hold that stretch."""
        return "the windows" if self.over is None else "all streams"

    @property
    def spans_ns(self) -> IntArray | None:
        """Where trials and their baselines are, apart from each other."""
        if self.over is None:
            return None
        spans_ns = self.over.trials.spans_ns.copy()
        spans_ns[:, 0] -= round(self.over.wish.baseline_s * NS_PER_S)
        return align.merged(spans_ns)

    def file_begin_s(self, chosen: Sequence[Modality]) -> dict[str, float]:
        """Say when the file of a whole recording begins, after the begin of its record.

        It is that of its video, else of its sound, else of the first stream; of windows and trials
        nothing is said.
        """
        if self.over is not None or isinstance(self.plan, align.WindowPlan):
            return {}
        rank = {"video": 0, "audio": 1}
        main = min(chosen, key=lambda modality: rank.get(modality.repaired.kind, 2)).clocked
        begin_ns = main.on_session(np.array([main.opened.shift_ns]))[0]
        return {"file_begin_s": (int(begin_ns) - self.plan.origin_ns) / NS_PER_S}

    def told(self, windows: WindowList) -> Told | None:
        """Say what became of the trials, given the windows that stayed."""
        if self.over is None:
            return None
        kept = np.array(windows.k, dtype=np.int64)
        return Told(self.over.trials, self.over.laid, kept, self.over.wish.tail)


def lay(
    job: Job, item: Item, wish: Wish, events: Sequence[EventStream], chosen: Sequence[Modality]
) -> Laying:
    """Lay the windows of a session.

    Raises
    ------
    DataError
        The streams have no time in common, or less than a window; two trials have one name.
    UsageError
        Window x rate is not whole.
    """
    coverages_ns = [modality.repaired.coverage_ns for modality in chosen]
    rates_hz = {modality.name: modality.rate_hz for modality in chosen}
    cover_ns = align.covered(coverages_ns, cover=wish.cover)
    if wish.trials is not None:
        source = trialtables.source_of(item.spec["trials"], events, chosen)
        trials = (
            trialtables.none(item.spec["trials"])
            if source is None
            else trialtables.read(source, job.folder, wish.trials)
        )
        over = OfTrials(trials, _over(trials, wish, wish.trials, cover_ns, rates_hz), wish.trials)
        return Laying(over.laid.plan, cover_ns, over)
    if wish.window_s is None:
        return Laying(align.whole_recording(cover_ns, rates_hz), cover_ns)
    plan = align.plan_windows(
        coverages_ns, rates_hz, window_s=wish.window_s, hop_s=wish.hop_s, cover=wish.cover
    )
    return Laying(plan, cover_ns)


def _over(
    trials: Trials,
    wish: Wish,
    about: TrialWish,
    cover_ns: tuple[int, int],
    rates_hz: dict[str, Fraction],
) -> align.Laid:
    if wish.window_s is None:
        return align.plan_ragged(trials.spans_ns, cover_ns, rates_hz, baseline_s=about.baseline_s)
    return align.plan_trials(
        trials.spans_ns,
        cover_ns,
        rates_hz,
        window_s=wish.window_s,
        hop_s=wish.hop_s,
        tail=about.tail,
        baseline_s=about.baseline_s,
    )
