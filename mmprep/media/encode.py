"""Write sound files.

Rules
-----
- wav holds float32 as it is, int16 as it is; flac (and a wav that is asked to) holds 16 bits: int16
  as it is, else rint(x * 32768), clipped.
- Nothing in the file tells when or by whom it was written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mmprep import files

_SUBTYPES = {(".wav", "f"): "FLOAT", (".wav", "i"): "PCM_16"}


def write_audio(
    path: Path, samples: NDArray[Any], rate_hz: int, *, is_16_bit: bool = False
) -> None:
    """Write samples as `.wav` or `.flac`.

    Parameters
    ----------
    samples : [shape=(n,) or (n, n_channels), float32 +-1 or int16]
    is_16_bit : bool
        Write 16 bits into a wav, too.

    Raises
    ------
    SpaceError, TransientError
        The disk did not take it.
    """
    import soundfile

    subtype = "PCM_16"
    if not is_16_bit:
        subtype = _SUBTYPES.get((path.suffix, samples.dtype.kind), subtype)
    if subtype == "PCM_16" and samples.dtype.kind == "f":
        samples = np.clip(np.rint(samples * 32768), -32768, 32767).astype(np.int16)
    try:
        soundfile.write(path, samples, rate_hz, subtype=subtype)
    except (OSError, soundfile.LibsndfileError) as error:
        cause = error if isinstance(error, OSError) else OSError(str(error))
        raise files.storage_error(cause, path) from error
