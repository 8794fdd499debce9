"""Decode audio and video, with the times that the container gives.

Rules
-----
- Lengths and frame times are measured: what was decoded, what the packets say. What a header
  declares is kept beside it and never used to allocate.
- Non-zero starts are kept. Audio and video of one file share the container's time line.
- Only files are opened: no address, no playlist, no list of other files.
- Plain wavs need no decoder. libsndfile reads what it knows: other wavs, aiff, au, caf, flac,
  Vorbis, NIST …; FFmpeg reads the rest, and takes over where libsndfile gives up. Both are
  imported when first needed.
"""

from __future__ import annotations

from mmprep.media.audio import (
    AUDIO_SUFFIXES,
    Audio,
    AudioInfo,
    AudioReader,
    audio_blocks,
    audio_info,
    decode_audio,
    one_channel,
    resampled,
)
from mmprep.media.encode import write_audio
from mmprep.media.frozen import Watch
from mmprep.media.headers import is_sound
from mmprep.media.regions import (
    Regions,
    around,
    central,
    has_area,
    nearest_frames,
    placed,
    regions_of,
)
from mmprep.media.tracks import PLAYABLE, Track, find_track, tracks
from mmprep.media.video import (
    VIDEO_SUFFIXES,
    VideoTrack,
    decodable_ranks,
    read_frames,
    scan_video,
)

__all__ = [
    "AUDIO_SUFFIXES",
    "PLAYABLE",
    "VIDEO_SUFFIXES",
    "Audio",
    "AudioInfo",
    "AudioReader",
    "Regions",
    "Track",
    "VideoTrack",
    "Watch",
    "around",
    "audio_blocks",
    "audio_info",
    "central",
    "decodable_ranks",
    "decode_audio",
    "find_track",
    "has_area",
    "is_sound",
    "nearest_frames",
    "one_channel",
    "placed",
    "read_frames",
    "regions_of",
    "resampled",
    "scan_video",
    "tracks",
    "write_audio",
]
