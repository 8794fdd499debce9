"""The layer rule of mmprep, checked over every import statement (nested ones count too)."""

import ast
import pathlib
import sys

LAYERS = [  # lowest first
    {"errors"},
    {"archives"},
    {"timebase", "files", "rows"},
    {"signals"},
    {"tables", "media"},
    {"clock", "mfcc", "sources"},
    {"align", "shards"},
    {"manifest"},
    {"exporters"},
    {"loaders", "report"},
    {"steps", "train"},
    {"engines"},
    {"cli"},
]
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
SHARED = {
    "sources": {"base", "companions", "mneformats", "pickles", "sniff", "trials"},
    "exporters": {"base", "utterances"},
    "engines": {"base"},
    "cli": {"options", "output", "api"},
}
HUB = {"sources": {"__init__"}, "exporters": {"__init__"}, "engines": {"__init__"}, "cli": {"main"}}
ONLY = {  # who may import these, beside themselves
    "sources": {"steps"},
    "report": {"steps"},
    "exporters": {"steps"},
    "loaders": {"steps", "train"},
    "steps": {"cli"},
    "train": {"cli"},
    "engines": {"cli"},
}
ROOMS = {  # the rooms of a layer, lowest first
    "steps": (
        "labels",
        "running",
        "corpus",
        "intake",
        "study",
        "sessions",
        "features",
        "exporting",
    ),
}
OWNERS = {  # third-party package -> who may import it
    "click": {"cli"},
    "tqdm": {"cli"},
    "av": {"media"},
    "cv2": {"media"},
    "soundfile": {"media"},
    "mne": {"sources", "signals"},
    "pyxdf": {"sources"},
    "pymatreader": {"sources"},
    "pyarrow": {"tables", "exporters"},
    "fsspec": {"files"},
    "xxhash": {"files"},
    "ray": {"engines", "loaders", "train"},
    "torch": {"loaders", "train"},
    "matplotlib": {"report"},
    "jinja2": {"report"},
}


def imported_names(path, package):
    here = path.relative_to(package.parent).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else ()
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{stem}.{a.name}") for a in node.names)


def fault(package, parts, name):
    """Say what is wrong with module `parts` importing `name`; None if nothing is."""
    here, (top, *rest) = parts[0], name.split(".")
    if top != package.name:
        return f"{here} may not import {top}" if here not in OWNERS.get(top, {here}) else None
    if not rest or rest[0] not in RANK:
        return f"{here} may not import {name}: not a layer"
    there = rest[0]
    if there != here:
        legal = RANK[there] < RANK[here] and here in ONLY.get(there, {here})
        return None if legal else f"{here} may not import {there}"
    sibling, me = (rest[1] if len(rest) > 1 else "__init__"), parts[-1]
    rooms = ROOMS.get(here, ())
    if sibling in rooms and parts[1] in rooms[: rooms.index(sibling)]:
        return f"{here}/{parts[1]} may not import the room {sibling} above it"
    if here in SHARED and me not in HUB[here] and sibling not in SHARED[here] | {me}:
        return f"{here}/{me} may not import its sibling {sibling}"
    return None


def faults(package):
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).with_suffix("").parts
        if parts[0] in ("__init__", "__main__"):
            continue
        if parts[0] not in RANK:
            yield f"{path}: {parts[0]} has no layer"
            continue
        for line, name in imported_names(path, package):
            if why := fault(package, parts, name):
                yield f"{path}:{line}: {why}"


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1])))
    print(*found, sep="\n", end="\n" * bool(found))
    sys.exit(bool(found))
