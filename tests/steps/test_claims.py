"""Who takes which raw file, and what id and stream it gets."""

from __future__ import annotations

import pytest

from mmprep.errors import DataError, UsageError
from mmprep.sources.base import Claim
from mmprep.steps.corpus.layout import layout
from mmprep.steps.corpus.place import Place
from mmprep.steps.inputs import expand
from mmprep.steps.intake.claims import Claimed, claim_all, own_names


@pytest.fixture
def claims(tmp_path):
    """Claim files of these names below a folder `rec`."""

    def run(*names, pattern=None, named=None):
        for name in names:
            path = tmp_path / "rec" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("time\tx\n0\t1\n")
        inputs = expand([str(tmp_path / "rec" / (named or ""))], root=tmp_path / "rec")
        return claim_all(inputs, layout(pattern) if pattern else None)

    return run


def _placed(found):
    return [(one.id, one.stream, one.session) for one in found.claimed]


def test_table_has_the_id_of_its_folder_and_its_stem_as_stream(claims):
    assert _placed(claims("P01/V1/eeg.tsv")) == [("P01/V1", "eeg", "P01/V1")]


def test_table_at_the_root_has_its_stem_as_id(claims):
    assert _placed(claims("eeg.tsv")) == [("eeg", "eeg", "eeg")]


def test_sound_and_video_have_their_path_as_id_and_the_folder_as_session(claims):
    assert _placed(claims("s1/a.b.wav", "s1/c.mp4")) == [
        ("s1/a.b", "audio", "s1"),
        ("s1/c", "video", "s1"),
    ]


def test_media_at_the_root_belong_to_a_session_of_the_roots_name(claims):
    assert _placed(claims("a.wav")) == [("a", "audio", "rec")]


def test_layout_overrides_both(claims):
    found = claims("P1/V1_eeg.tsv", "P1/V1_face.mp4", pattern="amigos")
    assert _placed(found) == [("P1/V1", "eeg", "P1/V1"), ("P1/V1", "face", "P1/V1")]


def test_file_that_does_not_fit_the_layout_is_skipped(claims):
    found = claims("P1/V1_eeg.tsv", "README.tsv", pattern="amigos")
    assert (len(found.claimed), found.skipped) == (1, ("README.tsv",))


def test_named_file_that_does_not_fit_the_layout_is_refused(claims):
    with pytest.raises(UsageError, match="does not fit the layout"):
        claims("README.tsv", named="README.tsv", pattern="amigos")


@pytest.mark.parametrize("end", [".ptp.tsv", ".clock.tsv", ".frames.tsv"])
def test_companion_is_clock_evidence_and_no_item(claims, end):
    (found,) = claims("P01/eeg.tsv", f"P01/eeg{end}").claimed
    assert found.clock == f"P01/eeg{end}"


def test_unknown_files_are_skipped_and_named(claims):
    assert claims("a.tsv", "b.xyz", "c/d.pdf").skipped == ("b.xyz", "c/d.pdf")


def test_nothing_known_is_bad_input(claims):
    with pytest.raises(DataError, match="nothing known among 1 files"):
        claims("b.xyz")


def test_same_id_and_stream_twice_is_refused(claims):
    with pytest.raises(UsageError, match=r"a.mp3 and a.wav would both be stream 'audio' of 'a'"):
        claims("a.wav", "a.mp3")


def test_same_stream_by_a_layout_is_refused(claims):
    with pytest.raises(UsageError, match="would both be stream 'eeg' of 'P1'"):
        claims("x/P1_eeg.tsv", "y/P1_eeg.tsv", pattern="{_}/{session}_{stream}.{ext}")


def test_items_are_ordered_by_their_path_parts(claims):
    found = claims("b.wav", "a/z.wav", "a.wav", "a-b/c.wav")
    assert [one.source for one in found.claimed] == ["a/z.wav", "a-b/c.wav", "a.wav", "b.wav"]


@pytest.mark.parametrize(
    ("known", "path_stream", "is_split", "wanted"),
    [
        ({"V01_eeg": "eeg"}, "eeg", False, {"V01_eeg": "eeg"}),
        ({"V01_eeg": "eeg"}, "eeg", True, {"V01_eeg-left": "eeg-left"}),
        ({}, None, False, {n: n for n in ("eeg", "eeg-left", "eeg_100Hz", "eeg_annotations")}),
        (
            {},
            "eeg",
            False,
            {
                "signal": "eeg",
                "signal-left": "eeg-left",
                "signal_100Hz": "eeg_100Hz",
                "annotations": "eeg_annotations",
            },
        ),
    ],
)
def test_streams_of_the_data_set_are_found_under_the_names_of_the_reader(
    known, path_stream, is_split, wanted
):
    claim, place = Claim("text", "P01/V01_eeg.tsv", ()), Place("P01", stream=path_stream)
    claimed = Claimed(claim, "P01", "P01", "eeg", known, 0, place)
    streams = ("eeg", "eeg-left", "eeg_100Hz", "eeg_annotations")
    found = own_names(claimed, streams, is_split=is_split)
    assert {own: found[own] for own in wanted} == wanted
