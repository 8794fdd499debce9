"""`--layout`: a pattern, or the name of a known corpus."""

from __future__ import annotations

from mmprep.errors import UsageError
from mmprep.steps.corpus.corpora import CORPORA
from mmprep.steps.corpus.place import FIELD, RESERVED, Layout, Shape


def layout(name_or_pattern: str) -> Layout:
    """Read `--layout`: a preset's name or a pattern.

    Raises
    ------
    UsageError
        Neither, or a field that is mmprep's own.
    """
    if corpus := CORPORA.get(name_or_pattern):
        return Layout(corpus.shapes, corpus.streams, corpus.read)
    names = [name for name, _ in FIELD.findall(name_or_pattern)]
    if not names:
        raise UsageError(
            f"{name_or_pattern!r} is no preset and has no {{field}}",
            where="--layout",
            hint=f"presets: {', '.join(sorted(CORPORA))}; a pattern: {{subject}}/{{session}}.tsv",
        )
    if taken := sorted(set(names) & RESERVED):
        raise UsageError(f"{{{taken[0]}}} is a field of mmprep's own", where="--layout")
    return Layout((Shape(name_or_pattern),))
