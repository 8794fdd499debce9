"""Small raw recordings for the tests of steps and commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile


def table(path: Path, *, n_rows: int = 40, rate_hz: int = 4, start_s: int = 0) -> Path:
    """Write a table of one channel `x`: x counts the rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{start_s + k / rate_hz:.4f}\t{k}\n" for k in range(n_rows))
    path.write_text("time\tx\n" + rows)
    return path


def sound(path: Path, *, n_samples: int = 800, rate_hz: int = 8000, n_channels: int = 1) -> Path:
    """Write noise that depends on the name alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(sum(path.name.encode())).integers(
        -9000, 9000, (n_samples, n_channels), dtype=np.int16
    )
    soundfile.write(path, noise, rate_hz, subtype="PCM_16")
    return path
