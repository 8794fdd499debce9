import numpy as np
from numpy.typing import NDArray

_Priors = tuple[float, float, float]

def likelihood(table: NDArray[np.float64], walk: float, priors: _Priors, /) -> float:
    """Give the log-likelihood of a walk.

    Parameters
    ----------
    table : [shape=(5, n), float64]
        Rows step_s, keep, loose, offset_s and weight; n >= 1.
    priors : tuple
        The variances OFFSET_PRIOR_S2, DRIFT_PRIOR**2 and DRIFT_RESET**2.
    """

def smooth(
    table: NDArray[np.float64], walk: float, priors: _Priors, out: NDArray[np.float64], /
) -> None:
    """Write the smoothed states to `out` [shape=(n, 5), float64]."""
