"""The pictures of a video in place of its frame indices, decoded forward once.

Where trials overlap, or are looked at first, some are decoded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mmprep import files, media
from mmprep.errors import DataError, UsageError
from mmprep.steps.intake import films
from mmprep.steps.sessions import crops
from mmprep.steps.sessions.crops import Crops
from mmprep.steps.sessions.roioption import Roi
from mmprep.steps.sessions.streams import Clocked
from mmprep.timebase import BoolArray, FloatArray, IntArray


@dataclass(slots=True)
class Pixels:
    """The pictures of a video, decoded forward once.

    Parameters
    ----------
    path : str
        The file.
    size : (width, height)
    watch : Watch
        Sees every frame that is decoded.
    lost : set of int
        Ranks that were asked for and did not come out of the decoder.
    crops : Crops, optional
        What is cut out of the frames; all of them if None.
    """

    path: str
    size: tuple[int, int]
    gray: bool
    fit: str
    scan: media.VideoTrack
    watch: media.Watch = field(default_factory=media.Watch)
    lost: set[int] = field(default_factory=set)
    crops: Crops | None = None
    _feed: Iterator[tuple[int, NDArray[np.uint8]]] | None = None
    _cache: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    _read_to: int = -1

    @classmethod
    def of(
        cls, one: Clocked, size: tuple[int, int], *, gray: bool, fit: str, roi: Roi | None = None
    ) -> Pixels:
        """Open the pictures of a stream.

        Raises
        ------
        UsageError
            The file that holds them is not known.
        DataError
            It is another one than was converted, or its track is that of another video.
        """
        spec = one.opened.spec
        path = spec.media or (spec.path if spec.form == "video" else None)
        if path is None or not files.is_file(path):
            raise UsageError(
                f"the video {path or spec.name!r} is not there",
                where=spec.name,
                hint="--media-root DIR names the folder that holds the sources",
            )
        scan = one.opened.scan or media.scan_video(path)
        known = (one.opened.track or {}).get("n_packets", scan.n_frames)
        if scan.n_frames != known:
            raise DataError(
                f"has {scan.n_frames} frames, and had {known} when it was converted",
                where=path,
                hint="convert it again, or name its folder with --media-root",
            )
        cut = None if roi is None else crops.of(roi, spec.roi, scan, size=size, fit=fit)
        return cls(path, size, gray, fit, scan, crops=cut)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of a picture."""
        return self.size[1], self.size[0], 1 if self.gray else 3

    @property
    def n_bytes(self) -> int:
        """The bytes of a picture."""
        return int(np.prod(self.shape))

    def of_ranks(
        self, ranks: NDArray[np.int32], valid: BoolArray
    ) -> tuple[NDArray[np.uint8], BoolArray]:
        """Give the pictures of frame ranks; 0 and not valid where there is none.

        None is where a frame can't be decoded, or has no region.
        """
        if self.crops is not None:
            valid = valid & self.crops.regions.valid[np.where(valid, ranks, 0)]
        pictures = np.zeros((*ranks.shape, *self.shape), np.uint8)
        found = valid.copy()
        wanted = sorted({int(rank) for rank in ranks[valid]})
        self._read(wanted)
        for index in zip(*np.nonzero(valid), strict=True):
            picture = self._cache.get(int(ranks[index]))
            if picture is None:
                found[index] = False
                self.lost.add(int(ranks[index]))
            else:
                pictures[index] = picture
        return pictures, found

    def _read(self, wanted: list[int]) -> None:
        """Decode up to the last wanted frame; forget those before the first."""
        if not wanted:
            return
        for rank in [rank for rank in self._cache if rank < wanted[0]]:
            del self._cache[rank]
        if self._feed is None:
            self._feed = self._frames(self._from(wanted[0]), self.watch)
        self._read_again([rank for rank in wanted if rank <= self._read_to])
        while self._read_to < wanted[-1]:
            rank, picture = next(self._feed, (self.scan.n_frames, None))
            self._read_to = rank
            if picture is not None and rank >= wanted[0]:
                self._cache[rank] = picture

    def _read_again(self, passed: list[int]) -> None:
        """Decode frames that were passed and forgotten."""
        missing = [rank for rank in passed if rank not in self._cache and rank not in self.lost]
        if missing:
            self._cache.update(self._frames(missing, None))

    def _frames(
        self, ranks: Sequence[int] | IntArray, watch: media.Watch | None
    ) -> Iterator[tuple[int, NDArray[np.uint8]]]:
        return media.read_frames(
            self.path,
            ranks,
            self.size,
            gray=self.gray,
            fit=self.fit,
            scan=self.scan,
            watch=watch,
            rects=None if self.crops is None else self.crops.regions.rects,
        )

    def _from(self, first: int) -> IntArray:
        """Give the ranks that may be wanted, from a first one on: those with a region."""
        ranks = np.arange(first, self.scan.n_frames)
        return ranks if self.crops is None else ranks[self.crops.regions.valid[first:]]


def decoded(pixels: Pixels | None, ranks: IntArray, seconds: FloatArray) -> films.Facts:
    """Say what decoding has shown: frames that did not come, stretches without change.

    Parameters
    ----------
    ranks, seconds : [shape=(n,)]
        Frames in order of rank, and their times from the origin.
    """
    if pixels is None:
        return dict.fromkeys(("n_decoded", "n_undecodable", "n_frozen", "frozen"))
    still = pixels.watch.stretches(pixels.scan.times_ns, pixels.scan.is_key)
    spans = np.round(np.interp(still, ranks, seconds), 9).tolist()
    rows = zip(still.tolist(), spans, strict=True)
    return {
        "n_decoded": pixels.watch.n_decoded,
        "n_undecodable": len(pixels.lost),
        "n_frozen": films.frames_in(still),
        "frozen": [
            {"first": first, "last": last, "begin_s": begin_s, "end_s": end_s}
            for (first, last), (begin_s, end_s) in rows
        ][: films.MAX_LISTED],
    }
