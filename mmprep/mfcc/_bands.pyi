from typing import Any

from numpy.typing import NDArray

def powers(
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
    window, weights : float64
    turns : [shape=(n_fft, 2), float64]
        cos and sin of 2 pi k / n_fft.
    order : [shape=(n_fft // 2,), int32]
        Where each bin of the complex transform of half the length stands.
    first, length : [shape=(n_bands,), int32]
        The bins of each band; `weights` holds theirs one band after the other, a quarter each.
    energies : [shape=(n_frames,) or (0,), float32]
    out : [shape=(n_frames, n_bands), float32]

    Raises
    ------
    ValueError
        Sizes that do not fit, or numbers that are not aligned.
    """
