"""Each command as one function; the commands themselves call these.

Keywords are named as the options (`--max-failures 3` is `max_failures="3"`). The engine starts
before the step is imported, so that its workers get ready meanwhile.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmprep.cli import output
from mmprep.errors import UsageError

if TYPE_CHECKING:
    from mmprep.steps.base import Depfile, Engine, Progress, StepResult

_ENGINE_KEYS = ("jobs", "engine", "timeout")
# What workers load while the caller plans; the plans themselves load none of it.
PRELOADS = {
    "convert": ("mmprep.steps.intake.texts", "mmprep.steps.intake.media"),
    "mfcc": ("mmprep.steps.features.extract", "soundfile"),
    "align": ("mmprep.steps.sessions.session",),
}


def run_convert(*inputs: str | Path, output: str | Path, **options: Any) -> StepResult:
    """Turn raw tables, audio and video into Parquet, shards and a manifest.

    Parameters
    ----------
    inputs : str or Path
        Files and folders.
    output : str or Path
        The data set directory.
    options
        Those of `mmprep convert` (see `mmprep.steps.convert.Config`) and the common ones.

    Returns
    -------
    StepResult
        status, record (the path of dataset.json), failures, totals.

    Raises
    ------
    MmprepError
        UsageError, DataError, TransientError: what exits 2, 3, 75 on the command line.
    """
    return run_step("convert", {"inputs": inputs, "output": output, **options})


def run_align(*inputs: str | Path, output: str | Path, **options: Any) -> StepResult:
    """Put the streams of sessions on common timestamps; see `run_convert` for the rest."""
    return run_step("align", {"inputs": inputs, "output": output, **options})


def run_mfcc(*inputs: str | Path, output: str | Path, **options: Any) -> StepResult:
    """Compute MFCC or log-mel features of audio; see `run_convert` for the rest."""
    return run_step("mfcc", {"inputs": inputs, "output": output, **options})


def run_split(dataset: str | Path, *, output: str | Path, **options: Any) -> StepResult:
    """Put groups of records into splits; see `mmprep.steps.split.Config`."""
    return run_step("split", {"inputs": (dataset,), "output": output, **options})


def run_export(dataset: str | Path, *, output: str | Path, **options: Any) -> StepResult:
    """Write what another trainer reads; see `mmprep.steps.export.Config`."""
    return run_step("export", {"inputs": (dataset,), "output": output, **options})


def run_step(name: str, options: Mapping[str, Any], progress: Progress | None = None) -> StepResult:
    """Run a step with options named as on the command line."""
    rest = dict(options)
    rest["inputs"] = tuple(str(path) for path in _flat(rest.pop("inputs", ())))
    how = {key: rest.pop(key) for key in _ENGINE_KEYS if key in rest}
    depfile = rest.pop("depfile", None)
    if "lock_wait" in rest:
        rest["lock_wait_s"] = rest.pop("lock_wait")
    with started(name, how) as (engine, cpus):
        module = importlib.import_module(f"mmprep.steps.{name}")
        run, config = _sorted_out(module.Config, rest, cpus)
        if depfile is not None:
            run = replace(run, depfile=_depfile(depfile, rest, module.STEP.record))
        found: StepResult = module.run(config, run, engine=engine, progress=progress)
    return replace(found, record=Path(str(rest["output"])) / found.record.name)


def _flat(inputs: Iterable[Any]) -> Iterator[Any]:
    """Take paths one by one, or lists of them."""
    for given in inputs:
        if isinstance(given, list | tuple):
            yield from given
        else:
            yield given


def _sorted_out(config_type: Any, options: dict[str, Any], cpus: int) -> tuple[Any, Any]:
    from mmprep.steps.base import RunOptions, allowed_failures

    names = {field.name for field in fields(RunOptions)}
    common = {key: value for key, value in options.items() if key in names}
    own = {key: value for key, value in options.items() if key not in names}
    known = {field.name for field in fields(config_type)}
    if unknown := sorted(own.keys() - known):
        raise UsageError(f"there is no option {unknown[0]!r}")
    common |= {"output": absolute(common["output"]), "cpus": cpus}
    common["max_failures"] = str(common.get("max_failures", "0"))
    allowed_failures(common["max_failures"], 100)
    return RunOptions(**common), config_type(**own)


def absolute(path: str | Path) -> Path:
    """Give a path that stays right when the folder changes; links are kept."""
    return Path.cwd() / path if not Path(path).is_absolute() else Path(path)


@contextmanager
def started(step: str, how: Mapping[str, Any]) -> Iterator[tuple[Engine, int]]:
    """Start the engine that the options name."""
    from mmprep.engines.base import serial, usable_cpus

    if how.get("engine", "pool") == "serial":
        yield serial, 1
        return
    from mmprep.engines.pool import Pool

    jobs = how.get("jobs") or usable_cpus()
    preload = PRELOADS.get(step, (f"mmprep.steps.{step}",))
    with Pool(jobs, preload=preload, timeout_s=how.get("timeout")) as pool:
        yield pool.map, jobs


def _depfile(path: str, options: Mapping[str, Any], record: str) -> Depfile:
    """Name target and inputs as the caller did."""
    from mmprep.steps.base import Depfile

    target = f"{str(options['output']).rstrip('/')}/{record}"
    return Depfile(Path(path), target, lambda name: as_named(name, options["inputs"]))


def as_named(path: str, arguments: tuple[str, ...]) -> str:
    """Give a path the form in which the caller named it: relative to the same folder."""
    for given in arguments:
        argument = given if Path(given).exists() else given.partition("#")[0]
        whole = os.path.abspath(argument)  # noqa: PTH100 - `..` goes, links stay
        if path == whole or path.startswith(whole.rstrip("/") + "/"):
            return argument.rstrip("/") + path[len(whole.rstrip("/")) :]
    here = f"{Path.cwd()}/"
    return path.removeprefix(here)


_SHOWN = ("progress", "log_file", "quiet", "verbose", "as_json")


def run_and_print(step: str, options: dict[str, Any]) -> None:
    """Run a step with the options of its command, and print what it did."""
    shown = {key: options.pop(key) for key in _SHOWN}
    log = Path(shown["log_file"]) if shown["log_file"] else None
    console = output.Console(
        shown["progress"], quiet=shown["quiet"], verbose=shown["verbose"], log=log
    )
    status = "failed"
    try:
        result = run_step(step, options, progress=console)
        status = result.status
    finally:
        console.close(status)
    output.print_result(result, as_json=shown["as_json"], quiet=shown["quiet"])
