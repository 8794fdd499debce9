"""Turn raw multimodal recordings into aligned, verified, trainable data sets."""

from __future__ import annotations

__all__: list[str] = []
