"""Fields from paths."""

from __future__ import annotations

import pytest

from mmprep.cli.convert import PRESETS
from mmprep.errors import UsageError
from mmprep.steps.corpus.corpora import CORPORA
from mmprep.steps.corpus.layout import layout
from mmprep.steps.corpus.place import Shape
from tests.conftest import ROOT


def test_pattern_gives_subject_session_and_stream():
    place = layout("{subject}/{session}_{stream}.tsv").place("P01/V03_eeg", ".tsv")
    assert place.id == "P01/V03"
    assert (place.subject, place.session, place.stream) == ("P01", "P01/V03", "eeg")


def test_pattern_with_a_longer_suffix_than_the_file_has_does_not_fit():
    assert layout("{subject}/{session}_{stream}.tsv").place("P01/V03", ".tsv") is None


def test_cmlr_leaves_the_kind_of_media_out_of_the_id():
    place = layout("cmlr").place("audio/s4/20110304/section_4_002.92_004.59", ".wav")
    assert place.id == "s4/20110304/section_4_002.92_004.59"
    assert (place.subject, place.session) == ("s4", None)
    assert place.fields == {"date": "20110304", "stem": "section_4_002.92_004.59"}


def test_stream_folder_is_left_out_of_the_id():
    place = layout("{stream}/{subject}/{session}.{ext}").place("eeg/P01/V01", ".csv.gz")
    assert (place.id, place.stream) == ("P01/V01", "eeg")


def test_field_that_mmprep_owns_is_refused():
    with pytest.raises(UsageError, match="label"):
        layout("{label}/{stem}.wav")


def test_unknown_preset_names_the_known_ones():
    with pytest.raises(UsageError, match="no preset") as caught:
        layout("amigo")
    assert "amigos" in caught.value.hint


def test_help_names_all_presets():
    assert sorted(CORPORA) == list(PRESETS)


def test_readme_tells_of_all_presets():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    told = {line.split("`")[1] for line in lines if line.startswith("| `")}
    assert set(CORPORA) <= told


def test_pattern_may_lie_below_any_folders():
    place = layout("**/{subject}/{session}.{ext}").place("a/b/P01/V01", ".csv")
    assert (place.id, place.session) == ("a/b/P01/V01", "P01/V01")
    assert layout("**/{subject}/{session}.{ext}").place("P01/V01", ".csv").id == "P01/V01"


def test_shape_may_say_what_id_and_session_are():
    shape = Shape("**/{_:left|right}/{subject}.{ext}", "{subject}", "{subject}/eyes")
    place = shape.place("in/left/P01", ".csv")
    assert (place.id, place.session, place.subject) == ("P01", "P01/eyes", "P01")
