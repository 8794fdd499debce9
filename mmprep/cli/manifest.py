"""`mmprep manifest validate|split|stats|filter|merge|import|export`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from mmprep.cli import api, options, output
from mmprep.errors import CheckError

FORMATS = {
    "csv": "a table of records",
    "hf": "a folder for HF datasets",
    "kaldi": "data folders with features",
    "lhotse": "cuts with arrays of all streams",
    "mds": "shards for MosaicML streaming",
    "nemo": "a manifest of the sound, tars with --shards",
    "parquet": "a row a record",
    "webdataset": "tars of samples",
}
dataset = click.argument("dataset", metavar="DATASET")


def _formats() -> str:
    return "; ".join(f"{name}: {what}" for name, what in FORMATS.items()) + "."


@click.group("manifest")
def command() -> None:
    """Validate, split, count, filter, merge, import and export manifests."""


@command.command(short_help="Find everything that is wrong with a data set.")
@dataset
@click.option("--checksums", is_flag=True, help="Read every file and compare its sha256.")
@click.option(
    "--subset", default="1/1", show_default=True, metavar="K/N", help="Hash one part of the files."
)
@click.option("--leakage", metavar="FIELD", help="No value of this field may be in two splits.")
@click.option(
    "--private",
    is_flag=True,
    help="List what may still tell who was recorded, when and where, too.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json", "github"]),
    default="text",
    show_default=True,
)
@click.option("-q", "--quiet", is_flag=True, help="Only errors on stderr.")
def validate(**given: Any) -> None:
    """Find everything that is wrong with a data set; exit 1 if anything is."""
    from mmprep.steps import check

    checked = check.check(
        given["dataset"],
        checksums=given["checksums"],
        subset=given["subset"],
        leakage=given["leakage"],
    )
    if given["private"]:
        found = (*checked.findings, *check.private(given["dataset"]))
        checked = replace(checked, findings=found)
    styles: dict[str, Callable[[Any], str]] = {
        "text": str,
        "json": check.finding_json,
        "github": check.github,
    }
    for finding in checked.findings:
        click.echo(styles[given["style"]](finding))
    if not given["quiet"]:
        output.print_line(
            f"mmprep: {checked.n_records} records, {checked.n_files} files,"
            f" {checked.n_bytes / 1e6:.1f} MB, {checked.n_bytes_hashed / 1e6:.1f} MB hashed,"
            f" findings: {len(checked.findings)}"
        )
    if given["style"] == "text" and not checked.findings and not given["quiet"]:
        click.echo(f"ok: {checked.n_records} records, {checked.n_files} files")
    if checked.n_errors:
        raise CheckError(f"{checked.n_errors} errors", where=given["dataset"])


@command.command()
@dataset
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def stats(dataset: str, *, as_json: bool) -> None:
    """Count records, hours, labels per split, and class weights."""
    from mmprep.steps import check

    found = check.count(dataset)
    if as_json:
        output.print_json(found)
        return
    for line in stats_lines(found):
        click.echo(line)


def stats_lines(found: dict[str, Any]) -> list[str]:
    """Write counts as tables: a row for all, one a split; one a class."""
    splits = dict(sorted(found["splits"].items(), key=lambda pair: _rank(pair[0])))
    rows = [["split", "records", "minutes", "subjects", "sessions"]]
    rows += [
        [
            name,
            str(part["records"]),
            f"{part['hours'] * 60:.1f}",
            str(part["subjects"]),
            str(part["sessions"]),
        ]
        for name, part in {"(all)": found, **splits}.items()
    ]
    lines = _columns(rows)
    if found["labels"]:
        lines += ["", *_columns(_label_rows(found, splits))]
    return lines


def _label_rows(found: dict[str, Any], splits: dict[str, Any]) -> list[list[str]]:
    n_labelled = sum(found["labels"].values())
    rows = [["label", "records", "share", "weight", *splits]]
    for name, count in found["labels"].items():
        weight = found["weights"].get(name)
        shown = "-" if weight is None else f"{weight:.4f}"
        per_split = [str(part["labels"].get(name, 0)) for part in splits.values()]
        rows.append([name, str(count), f"{count / n_labelled:.1%}", shown, *per_split])
    if bare := found["records"] - n_labelled:
        left = [str(p["records"] - sum(p["labels"].values())) for p in splits.values()]
        rows.append(["(none)", str(bare), "-", "-", *left])
    return rows


def _rank(split: str) -> tuple[int, str]:
    known = ("train", "val", "test")
    return (known.index(split) if split in known else len(known), split)


def _columns(rows: list[list[str]]) -> list[str]:
    """Line cells up: the first to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    ]


@command.command(short_help="Put groups of records into splits.")
@dataset
@options.output
@click.option(
    "--by",
    default="subject",
    show_default=True,
    metavar="FIELD",
    help="Records with one value of this field stay in one split.",
)
@click.option(
    "--ratios",
    default="train=0.8,val=0.1,test=0.1",
    show_default=True,
    metavar="NAME=SHARE,...",
    help="The splits, and the share of each.",
)
@click.option(
    "--seed",
    type=int,
    metavar="N",
    default=0,
    show_default=True,
    help="Another number deals out anew where there is a choice.",
)
@click.option(
    "--method",
    type=click.Choice(["balanced", "hash"]),
    default="balanced",
    show_default=True,
    help="Close to the shares; or one group at a time, so that a new one moves no other.",
)
@click.option(
    "--stratify",
    default="label",
    show_default=True,
    metavar="FIELD",
    help="The field whose values are spread evenly.",
)
@click.option("--lists", metavar="train=F,val=F,...", help="Files of ids, one a line.")
@click.option(
    "--keep", metavar="OLD", help="A data set split before: its groups stay where they are."
)
@click.option(
    "--from-layout", is_flag=True, help="The records name their splits, as the corpus has them."
)
@click.option("--folds", type=click.IntRange(min=2), metavar="K", help="Write folds, not splits.")
@click.option("--leave-one-out", is_flag=True, help="A fold a group.")
@click.option("--allow-absent", is_flag=True, help="A class may be absent from train (weight 0).")
@options.run
def split(dataset: str, **given: Any) -> None:
    """Put groups of records into splits, and weigh the classes of train."""
    api.run_and_print("split", {"inputs": (dataset,), **given})


@command.command("import", short_help="Make a data set of a foreign manifest and its sound.")
@click.argument("manifests", nargs=-1, required=True, metavar="MANIFEST...")
@options.output
@click.option(
    "--from",
    "kind",
    type=click.Choice(["nemo", "lhotse", "kaldi"]),
    required=True,
    help="Whose: JSON lines of NeMo; cuts, or recordings and supervisions, of Lhotse; data"
    " directories of Kaldi.",
)
@click.option(
    "--media-root",
    metavar="DIR",
    help="Where the sound is.  [default: beside the manifest, or the current folder]",
)
@options.run
def import_(manifests: tuple[str, ...], kind: str, **given: Any) -> None:
    """Make a data set of a foreign manifest: sound into shards, a record each stretch."""
    api.run_and_print("convert", {"inputs": (), "imported": (kind, *manifests), **given})


@command.command("filter", short_help="Choose records by a condition.")
@dataset
@click.option(
    "--where",
    required=True,
    metavar="CONDITION",
    help="As \"label == 'fear' and valid.eeg > 0.9\": fields, labels, valid.*, bound_s.*,"
    " streams.*; == != < <= > >= in, not, and, or.",
)
@click.option("-o", "--output", metavar="OUT", help="A data set of them.  [default: print lines]")
@options.run
def filter_(dataset: str, output: str | None, **given: Any) -> None:
    """Choose records by a condition: their lines on stdout, or with -o a data set."""
    if output is not None:
        api.run_and_print("filter", {"inputs": (dataset,), "output": output, **given})
        return
    from mmprep.steps import filter as step

    for line in step.lines(dataset, given["where"]):
        click.echo(line, nl=False)


@command.command(short_help="Put several data sets together.")
@click.argument("datasets", nargs=-1, required=True, metavar="DATASET...")
@options.output
@options.run
def merge(datasets: tuple[str, ...], **given: Any) -> None:
    """Put several data sets together; their shards are numbered through."""
    api.run_and_print("merge", {"inputs": datasets, **given})


@command.command(short_help="Write what another trainer reads.")
@dataset
@options.output
@click.option("--to", type=click.Choice(list(FORMATS)), required=True, help=_formats())
@click.option("--split", multiple=True, metavar="S", help="Only this split.  [default: all]")
@click.option("--fold", type=int, metavar="K", help="This fold is test, the others train.")
@click.option(
    "--audio",
    type=click.Choice(["reference", "wav", "flac", "none"]),
    default="reference",
    show_default=True,
    help="Name the source files, or write the shards' sound as files.",
)
@click.option(
    "--path-mode",
    default="relative",
    show_default=True,
    metavar="relative|absolute|prefix=STR",
    help="How paths are written.",
)
@click.option(
    "--shards",
    type=click.IntRange(min=1),
    metavar="N",
    help="Cut each split into N files, of as many records to within one.  [default: by size]",
)
@click.option("--media-root", metavar="DIR", help="Where the sources of the data set are.")
@options.run
def export(dataset: str, **given: Any) -> None:
    """Write what another trainer reads: its files, and mmprep.json as the make target."""
    api.run_and_print("export", {"inputs": (dataset,), **given})
