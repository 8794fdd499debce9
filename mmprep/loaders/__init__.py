"""Batches from a data set, with numpy alone."""
