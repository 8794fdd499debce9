from typing import Any

from numpy.typing import NDArray

def bands(
    signal: NDArray[Any],
    offset: int,
    hop: int,
    n_frames: int,
    window: NDArray[Any],
    turns: NDArray[Any],
    order: NDArray[Any],
    first: NDArray[Any],
    length: NDArray[Any],
    weights: NDArray[Any],
    is_double: bool,
    removes_mean: bool,
    preemph: float,
    energies: NDArray[Any],
    out: NDArray[Any],
    /,
) -> None:
    """Write the powers of frames in bands.

    Parameters
    ----------
    signal : float32
        Frame t is the samples from `offset + t * hop` on, as many as `window` has.
    turns : [shape=(n_fft, 2)]
        cos and sin of 2 pi k / n_fft.
    order : [shape=(n_fft // 2,), int32]
        Where each bin of the complex transform of half the length stands.
    first, length : [shape=(n_bands,), int32]
        The bins of each band; `weights` holds theirs one band after the other, a quarter each.
    is_double : bool
        `window`, `turns` and `weights` are float64, else float32.
    energies : [shape=(n_frames,) or (0,), float32]
    out : [shape=(n_frames, n_bands), float32]

    Raises
    ------
    ValueError
        Sizes that do not fit.
    """
