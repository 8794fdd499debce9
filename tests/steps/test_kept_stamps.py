"""The bound of streams that keep their stamps holds against truth: it has their jitter in it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mmprep import open_dataset, run_align
from mmprep.manifest.codec import read_manifest
from tests import synth, truth
from tests.synth import MASTER_NS, NS_PER_S, Clock

CLOCK = Clock(fast_ppm=40)
DURATION_S = 300.0


def write(folder, device_ns, master_ns):
    """Write a stream whose value is the true time, and the log of its clock."""
    texts, true_s = truth.seconds(device_ns), (master_ns - MASTER_NS) / NS_PER_S
    rows = "".join(f"{text}\t{at_s:.9f}\n" for text, at_s in zip(texts, true_s, strict=True))
    (folder / "x.tsv").write_text("time\ttrue\n" + rows)
    log = synth.exchanges(CLOCK, duration_s=DURATION_S + 1)
    times = (truth.seconds(t) for t in (log.t1_ns, log.t2_ns, log.t3_ns, log.t4_ns))
    lines = ["\t".join(row) for row in zip(*times, strict=True)]
    (folder / "x.ptp.tsv").write_text("\n".join(["t1\tt2\tt3\tt4", *lines, ""]))


def judged(folder, said):
    """Align it; give the worst time error of each window, the bounds, and what sync says."""
    run_align(
        output=folder / "out", stream=(f"x={folder}/x.tsv,{said}",), rate="32", engine="serial"
    )
    data = open_dataset(folder / "out", fill="nan")
    records = list(read_manifest(folder / "out/manifest.jsonl"))
    begin_s = (truth.origin_ns(folder / "out") - MASTER_NS) / NS_PER_S
    at_s = np.array([r.begin_s for r in records])[:, None] + np.arange(32) / 32 + begin_s
    found = data[list(range(len(data)))]["x"][..., 0]
    sync = json.loads((folder / "out/sync/session.json").read_text())
    bounds = [record.bound_s["x"] for record in records]
    return np.nanmax(np.abs(found - at_s), axis=1), bounds, sync["streams"][0]


@pytest.mark.parametrize("shape", synth.JITTER)
@pytest.mark.parametrize("jitter_s", [1e-4, 1e-3, 5e-3])
def test_bound_holds_where_the_rate_is_another(tmp_path, shape, jitter_s):
    how = {"duration_s": DURATION_S, "jitter_s": jitter_s, "shape": shape}
    write(tmp_path, *synth.stamps(CLOCK, 32.0, **how))
    worst_s, bound_s, sync = judged(tmp_path, "rate=35")
    assert "the measured rate" in sync["repairs"]["reason"]
    assert np.mean(worst_s <= bound_s) >= 0.99
    assert np.median(bound_s) <= 5 * np.percentile(worst_s, 99)


def test_bound_holds_where_intervals_vary(tmp_path):
    device, master = synth.stamps(CLOCK, 32.0, duration_s=DURATION_S, jitter_s=5e-4)
    late = (np.arange(device.size) % 8 == 0) * 14_000_000
    write(tmp_path, device + late, master + late)
    worst_s, bound_s, sync = judged(tmp_path, "rate=32")
    assert sync["repairs"]["reason"] == "intervals differ too much"
    assert np.mean(worst_s <= bound_s) >= 0.99


def test_bound_is_null_where_intervals_say_nothing_of_lateness(tmp_path):
    rng = np.random.default_rng(2)
    at_s = np.cumsum(rng.uniform(0.01, 0.06, 8000))
    at_s = at_s[at_s < DURATION_S]
    master = MASTER_NS + np.rint(at_s * NS_PER_S).astype(np.int64)
    write(tmp_path, CLOCK.device_ns(master), master)
    _, bound_s, sync = judged(tmp_path, "rate=28")
    assert (set(bound_s), sync["repairs"]["jitter_s"]) == ({None}, None)
