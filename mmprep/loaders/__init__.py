"""Batches from a data set, with numpy alone."""

from mmprep.loaders.dataset import Batches, MemmapDataset, open_dataset

__all__ = ["Batches", "MemmapDataset", "open_dataset"]
