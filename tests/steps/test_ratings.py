"""Labels in files of their own: what is read, and which files are refused."""

from __future__ import annotations

import pytest

from mmprep.errors import DataError
from mmprep.manifest.model import Record
from mmprep.steps.corpus import ratings
from mmprep.steps.corpus.place import Place

RATED = "Participant_id,Trial,Experiment_id,Start_time,Valence,Arousal,Dominance,Liking"


def record(name, **known):
    return Record(id=name, session=name, begin_s=0.0, duration_s=1.0, streams={}, **known)


def joined(join, path, records=(), place=None):
    return join(records, {path: place or Place("x")})


@pytest.mark.parametrize("join", [ratings.deap, ratings.kemocon, ratings.participants])
def test_table_without_its_key_is_refused(tmp_path, join):
    (tmp_path / "a.csv").write_text("age,group\n31,x\n")
    with pytest.raises(DataError, match="no column"):
        joined(join, tmp_path / "a.csv")


@pytest.mark.parametrize(
    "join", [ratings.deap, ratings.kemocon, ratings.participants, ratings.wesad, ratings.lrs]
)
def test_file_of_another_encoding_is_refused(tmp_path, join):
    (tmp_path / "a.csv").write_bytes("Größe\n".encode("latin-1"))
    with pytest.raises(DataError, match="not UTF-8"):
        joined(join, tmp_path / "a.csv")


def test_person_that_is_no_number_is_located(tmp_path):
    (tmp_path / "a.csv").write_text(f"{RATED}\nx,1,1,5,1,1,1,1\n")
    with pytest.raises(DataError, match="Participant_id is 'x'"):
        joined(ratings.deap, tmp_path / "a.csv")


def test_familiarity_may_have_no_column(tmp_path):
    (tmp_path / "a.csv").write_text(f"{RATED}\n1,2,7,5,1.5,2,3,4\n")
    rated = {"valence": 1.5, "arousal": 2, "dominance": 3, "liking": 4}
    trial = record("s01/07", subject="s01", labels=rated, extra={"trial": 7})
    (found,), said = joined(ratings.deap, tmp_path / "a.csv", [trial])
    assert (found.labels["familiarity"], found.extra["presented"]) == (None, 2)
    assert said == ["familiarity is missing for s01"]


def test_questionnaires_without_the_order_of_conditions_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("# DIM;5;2\n")
    with pytest.raises(DataError, match="ORDER"):
        joined(ratings.wesad, tmp_path / "a.csv")


def test_questionnaires_follow_the_order_of_each_person(tmp_path):
    text = "# ORDER;Base;Fun;Medi 1;TSST;Medi 2\n# DIM;1;1\n# DIM;2;1\n# DIM;3;1\n# DIM;4;1\n"
    (tmp_path / "a.csv").write_text(text + "# SSSQ;5\n")
    names = ("amusement", "stress", "meditation-2")
    records = [record(f"S3/{n}", subject="S3", labels={"condition": n}) for n in names]
    found, said = joined(ratings.wesad, tmp_path / "a.csv", records, Place("x", subject="S3"))
    assert [r.labels.get("valence") for r in found] == [2, 4, None]
    assert [r.labels.get("sssq_1") for r in found] == [None, 5, None]
    assert said == []


def test_columns_of_participants_are_numbers_only_if_all_cells_are(tmp_path):
    text = "participant_id\tage\tcode\nsub-1\t31\t07\nsub-2\tn/a\t8\n"
    (tmp_path / "a.tsv").write_text(text)
    people = [record("a", subject="sub-1"), record("b", subject="sub-2")]
    found, _ = joined(ratings.participants, tmp_path / "a.tsv", people)
    assert [r.labels for r in found] == [{"age": 31, "code": "07"}, {"age": None, "code": "8"}]


def test_split_that_a_record_has_is_kept(tmp_path):
    (tmp_path / "a.txt").write_text("5/00001\n")
    known = record("main/5/00001", split="pretrain")
    (found,), _ = joined(ratings.lrs, tmp_path / "a.txt", [known], Place("x", split="train"))
    assert found.split == "pretrain"
