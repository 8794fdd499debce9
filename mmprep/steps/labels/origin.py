"""What the times of a table of labels count from: `--label-time COLUMN[,unit=U][,origin=ORIGIN]`.

| origin    | time 0 is                                                                  |
| --------- | -------------------------------------------------------------------------- |
| `session` | second 0 of the session clock; Unix times are taken as such (the default)  |
| `trial`   | the onset of the record's trial                                            |
| a name    | the first event of that name in the session                                |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mmprep.errors import DataError, UsageError
from mmprep.manifest.model import Record
from mmprep.timebase import NS_PER_S

OPTION = "--label-time"
SESSION, TRIAL = "session", "trial"
ONSET = "onset_s"  # the field of a record that says when its trial began
_PER_S = {"s": 1.0, "ms": 1e3, "us": 1e6}


@dataclass(frozen=True, slots=True)
class Origins:
    """What times may count from.

    Parameters
    ----------
    unix_ns : mapping of str to int or None
        Session -> Unix nanoseconds of its second 0.
    events_s : mapping of str to float
        Session -> its first event of the name asked for, seconds after its second 0.
    """

    unix_ns: Mapping[str, int | None] = field(default_factory=dict)
    events_s: Mapping[str, float] = field(default_factory=dict)


NO_ORIGINS = Origins()


@dataclass(frozen=True, slots=True)
class LabelTime:
    """A column of time, how many of its units are a second, and what it counts from."""

    column: str
    per_s: float = 1.0
    origin: str = SESSION

    @classmethod
    def parse(cls, text: str) -> LabelTime:
        """Read `--label-time`; the origin comes last, for names of events may hold commas.

        Raises
        ------
        UsageError
            It is none.
        """
        rest, has_origin, origin = text.partition(",origin=")
        column, *settings = rest.split(",")
        unit = settings[0].removeprefix("unit=") if settings else "s"
        is_known = unit in _PER_S and settings in ([], [f"unit={unit}"])
        if not column or not is_known or (has_origin and not origin):
            units = "|".join(_PER_S)
            raise UsageError(
                f"{text!r} is not COLUMN[,unit={units}][,origin=session|trial|EVENT]", where=OPTION
            )
        return cls(column, _PER_S[unit], origin or SESSION)

    @property
    def event(self) -> str | None:
        """The name of the event that times count from."""
        return None if self.origin in {SESSION, TRIAL} else self.origin

    @property
    def words(self) -> str:
        """What times count from, in words."""
        known = {SESSION: "the origin of the aligned session", TRIAL: "the onset of the trial"}
        return known.get(self.origin, f"the first event {self.origin!r}")

    def lacking(self, records: Sequence[Record], origins: Origins) -> list[str]:
        """Name the sessions that have no such event."""
        if self.event is None:
            return []
        return sorted({record.session for record in records} - origins.events_s.keys())

    def check(self, records: Sequence[Record], origins: Origins) -> None:
        """Refuse an origin that no record has.

        Raises
        ------
        UsageError
            There are no trials.
        DataError
            No session has such an event.
        """
        if self.origin == TRIAL and not any(ONSET in record.extra for record in records):
            raise UsageError(
                "origin=trial, and there are no trials", where=OPTION, hint="--trials names them"
            )
        if self.event is not None and not origins.events_s:
            raise DataError(
                f"no session has an event {self.event!r}",
                where=OPTION,
                hint="events are rows of the streams that become tables, by their whole text",
            )

    def zero_s(
        self, record: Record, origins: Origins, *, is_unix: bool, where: str
    ) -> float | None:
        """Say when time 0 is for a record, seconds after second 0 of its session.

        Returns
        -------
        float or None
            None where the record has no trial, or its session no such event.

        Raises
        ------
        DataError
            Unix times where nothing is absolute, or that count from something else.
        """
        if self.origin == SESSION:
            return -_unix_s(record, origins, where) if is_unix else 0.0
        if is_unix:
            raise DataError(
                f"has Unix times, and origin={self.origin}", where=where, hint="leave origin= out"
            )
        if self.origin == TRIAL:
            onset_s = record.extra.get(ONSET)
            return float(onset_s) if isinstance(onset_s, int | float) else None
        return origins.events_s.get(record.session)


NO_TIME = LabelTime("")  # of a table without the column: intervals count from the session's start


def _unix_s(record: Record, origins: Origins, where: str) -> float:
    origin_ns = origins.unix_ns.get(record.session)
    if origin_ns is None:
        raise DataError(
            "has Unix times, and the session clock is not absolute",
            where=where,
            hint="write seconds after the origin of the session",
        )
    return origin_ns / NS_PER_S
