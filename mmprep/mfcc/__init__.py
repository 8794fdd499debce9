"""MFCC and log-mel features of one channel of audio; see `extractor` for the rules."""

from mmprep.mfcc.columns import Moments, deltas, moments, normalize
from mmprep.mfcc.extractor import Extractor
from mmprep.mfcc.recipe import Recipe, preset

__all__ = ["Extractor", "Moments", "Recipe", "deltas", "moments", "normalize", "preset"]
