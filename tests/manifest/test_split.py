"""Which groups go to which split, and the weights of the classes."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmprep.errors import UsageError
from mmprep.manifest import split
from mmprep.manifest.model import Record

quick = settings(deadline=None, max_examples=60)

RATIOS = {"train": Fraction(1, 2), "val": Fraction(1, 4), "test": Fraction(1, 4)}
TWO = {"train": Fraction(3, 5), "test": Fraction(2, 5)}

groups_of = st.dictionaries(
    st.text(min_size=1, max_size=4),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 50), min_size=1),
    min_size=3,
    max_size=30,
)


def _record(number, **changes):
    fields = {"id": f"r{number}", "session": "s", "begin_s": 0.0, "duration_s": 1.0, "streams": {}}
    return Record(**(fields | changes))


def _even(n_groups, n_each=10):
    return {f"P{k:02d}": Counter({"": n_each}) for k in range(n_groups)}


def _sizes(placed):
    counts = Counter(placed.values())
    return [counts[name] for name in RATIOS]


# Ratios


def test_parse_ratios_is_exact_and_keeps_the_order():
    ratios = split.parse_ratios("train=0.8,val=0.1,test=0.1")
    assert list(ratios.items()) == [
        ("train", Fraction(4, 5)),
        ("val", Fraction(1, 10)),
        ("test", Fraction(1, 10)),
    ]


def test_parse_ratios_takes_thirds():
    assert sum(split.parse_ratios("a=1/3,b=1/3,c=1/3").values()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train=0.8,val=0.1", "adds up to 0.9, not to 1"),
        ("train=0.8,train=0.2", "was named before"),
        ("=1", "names no split"),
        ("train", "'' is not a number"),
        ("train=1.5,val=-0.5", "'-0.5' is not positive"),
        ("train=nan,val=1", "'nan' is not a number"),
        ("train=1/0", "'1/0' is not a number"),
        ("", "names no split"),
    ],
)
def test_parse_ratios_when_wrong_then_says_what(text, message):
    with pytest.raises(UsageError, match=message):
        split.parse_ratios(text)


# Groups


def test_count_groups_counts_classes_in_each():
    records = [
        _record(0, subject="p", label="fear"),
        _record(1, subject="p"),
        _record(2, subject="q", label=3),
    ]
    assert split.count_groups(records, by="subject") == {"p": {"fear": 1, "": 1}, "q": {"3": 1}}


def test_count_groups_takes_a_label_as_field():
    assert split.count_groups([_record(0, labels={"site": "Geneva"})], by="site") == {
        "Geneva": {"": 1}
    }


def test_count_groups_when_records_lack_the_field_then_lists_them():
    records = [_record(k) for k in range(12)]
    with pytest.raises(UsageError, match=r"12 records have no known subject: r0, .*r9 and 2 more"):
        split.count_groups(records, by="subject")


# Balanced


@pytest.mark.parametrize("seed", range(8))
def test_balanced_of_four_subjects_is_two_one_one(seed):
    assert _sizes(split.balanced(_even(4), RATIOS, seed=seed)) == [2, 1, 1]


@quick
@given(st.lists(st.integers(1, 200), min_size=4, max_size=4), st.integers(0, 9))
def test_balanced_of_four_unequal_subjects_is_two_one_one(sizes, seed):
    groups = {f"P{k}": {"": size} for k, size in enumerate(sizes)}
    assert _sizes(split.balanced(groups, RATIOS, seed=seed)) == [2, 1, 1]


@quick
@given(groups_of, st.integers(0, 5))
def test_balanced_puts_every_group_in_one_split_and_leaves_none_empty(groups, seed):
    placed = split.balanced(groups, RATIOS, seed=seed)
    assert placed.keys() == groups.keys()
    assert set(placed.values()) == set(RATIOS)


@quick
@given(groups_of, st.integers(0, 5))
def test_balanced_does_not_depend_on_the_order_of_the_groups(groups, seed):
    backwards = dict(reversed(groups.items()))
    assert split.balanced(groups, RATIOS, seed=seed) == split.balanced(backwards, RATIOS, seed=seed)


def test_balanced_chooses_among_equals_by_the_seed():
    assert len({tuple(split.balanced(_even(6), RATIOS, seed=s).items()) for s in range(9)}) > 3


def _cost(groups, placed, ratios):
    """The sum that `balanced` minimises, term by term."""
    classes = sorted({name for counts in groups.values() for name in counts})
    cost = 0.0
    for name, ratio in ratios.items():
        members = [groups[group] for group in groups if placed[group] == name]
        share = len(members) / len(groups)
        cost += 2 * (share - float(ratio)) ** 2
        n_all = sum(sum(counts.values()) for counts in groups.values())
        share = sum(sum(counts.values()) for counts in members) / n_all
        cost += (share - float(ratio)) ** 2
        for label in classes:
            n_all = sum(counts.get(label, 0) for counts in groups.values())
            share = sum(counts.get(label, 0) for counts in members) / n_all
            cost += (share - float(ratio)) ** 2 / len(classes)
    return cost


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({"a": st.integers(1, 9), "b": st.integers(1, 9)}),
        min_size=3,
        max_size=6,
    )
)
def test_balanced_of_few_groups_is_the_best_of_all_ways(counts):
    groups = {f"P{k}": count for k, count in enumerate(counts)}
    ways = [dict(zip(groups, way, strict=True)) for way in product(TWO, repeat=len(groups))]
    best = min(_cost(groups, way, TWO) for way in ways if len(set(way.values())) == 2)
    found = split.balanced(groups, TWO)
    assert _cost(groups, found, TWO) == pytest.approx(best)


def test_balanced_of_many_groups_comes_close(monkeypatch):
    groups = {f"P{k}": {"a": 1 + k * 37 % 50, "b": 1 + k * 91 % 70} for k in range(60)}
    near = split.closeness(groups, split.balanced(groups, RATIOS), RATIOS)
    for found in near.values():
        assert found.share_of_records == pytest.approx(found.ratio, abs=0.01)
        assert found.share_of_classes == pytest.approx(
            {"a": found.ratio, "b": found.ratio}, abs=0.02
        )


def test_balanced_by_moves_and_swaps_is_as_good_as_trying_all_ways(monkeypatch):
    groups = {f"P{k}": {"a": 1 + k * 37 % 11, "b": 1 + k * 91 % 13} for k in range(9)}
    best = _cost(groups, split.balanced(groups, RATIOS), RATIOS)
    monkeypatch.setattr(split, "MAX_TRIED", 0)
    assert _cost(groups, split.balanced(groups, RATIOS), RATIOS) < best + 0.02


def test_balanced_beyond_the_swaps_still_comes_close():
    groups = {f"P{k}": {"": 1 + k * 37 % 50} for k in range(3000)}
    near = split.closeness(groups, split.balanced(groups, RATIOS), RATIOS)
    assert near["train"].share_of_records == pytest.approx(0.5, abs=0.001)


def test_balanced_keeps_the_groups_of_an_earlier_split():
    keep = {"P00": "test", "P01": "val"}
    placed = split.balanced(_even(8), RATIOS, keep=keep)
    assert placed.items() >= keep.items()
    assert _sizes(placed) == [4, 2, 2]


def test_balanced_when_kept_groups_leave_a_split_empty_then_refused():
    keep = dict.fromkeys(_even(4), "train")
    with pytest.raises(UsageError, match="leave a split empty"):
        split.balanced(_even(4), RATIOS, keep=keep)


def test_balanced_when_a_kept_split_is_not_named_then_refused():
    with pytest.raises(UsageError, match="was in split 'dev', which --ratios does not name"):
        split.balanced(_even(4), RATIOS, keep={"P00": "dev"})


def test_balanced_when_there_are_fewer_groups_than_splits_then_refused():
    with pytest.raises(UsageError, match="2 groups cannot fill 3 splits"):
        split.balanced(_even(2), RATIOS)


# Hashed


def test_hashed_moves_no_group_when_one_is_added():
    before = split.hashed(_even(50), RATIOS, seed=3)
    after = split.hashed([*_even(50), "P99"], RATIOS, seed=3)
    assert after.items() >= before.items()


def test_hashed_of_many_groups_comes_close():
    counts = Counter(split.hashed(map(str, range(20_000)), RATIOS).values())
    assert counts["train"] / 20_000 == pytest.approx(0.5, abs=0.015)


def test_hashed_depends_on_the_seed():
    assert split.hashed(_even(50), RATIOS, seed=1) != split.hashed(_even(50), RATIOS, seed=2)


def test_hashed_stays_the_same_for_good():
    assert split.hashed(["P01", "P02", "P03"], RATIOS, seed=0) == {
        "P01": "test",
        "P02": "train",
        "P03": "val",
    }


def test_hashed_when_there_are_fewer_groups_than_splits_then_refused():
    with pytest.raises(UsageError, match="2 groups cannot fill 3 splits"):
        split.hashed(_even(2), RATIOS)


# Folds and lists


def test_folds_test_each_group_once_in_folds_of_one_size():
    placed = split.folds(_even(9), 3)
    assert Counter(placed.values()) == {0: 3, 1: 3, 2: 3}


def test_folds_when_one_fold_is_asked_for_then_refused():
    with pytest.raises(UsageError, match="1 folds are too few"):
        split.folds(_even(9), 1)


def test_leave_one_out_gives_each_group_its_own_fold():
    assert split.leave_one_out(["b", "a"]) == {"a": 0, "b": 1}


def test_listed_when_a_value_is_in_two_lists_then_refused():
    with pytest.raises(UsageError, match="'b' is in the lists of train and test"):
        split.listed({"train": ["a", "b"], "test": ["b"]})


def test_assign_writes_the_split_of_the_group_and_nothing_else():
    record = _record(0, subject="p", extra={"lang": "zh"})
    (found,) = split.assign([record], {"p": "val"}, by="subject")
    assert (found.split, found.extra, record.split) == ("val", {"lang": "zh"}, None)


def test_assign_when_a_group_was_not_placed_then_refused():
    with pytest.raises(UsageError, match="1 records have no known id: r0"):
        list(split.assign([_record(0)], {"r1": "val"}, by="id"))


def test_assign_folds_writes_the_fold():
    (found,) = split.assign_folds([_record(0, subject="p")], {"p": 2}, by="subject")
    assert found.fold == 2


# Class weights


def test_class_weights_follow_the_formula():
    weights = split.class_weights({"neutral": 9000, "anger": 900, "fear": 90})
    assert weights == {"anger": 9000 / 901, "fear": 9000 / 91, "neutral": 9000 / 9001}


def test_class_weights_of_rare_classes_are_inverse_to_their_counts():
    weights = split.class_weights({"a": 9000, "b": 900, "c": 90}, eps=1e-9)
    assert list(weights.values()) == pytest.approx([1, 10, 100])


def test_class_weights_when_a_class_is_absent_then_refused():
    with pytest.raises(UsageError, match="no record of the train split has fear") as caught:
        split.class_weights({"joy": 3}, classes=["joy", "fear"])
    assert "--allow-absent" in caught.value.hint


def test_class_weights_of_an_allowed_absent_class_is_zero():
    weights = split.class_weights({"joy": 3}, classes=["joy", "fear"], allow_absent=True)
    assert weights == {"fear": 0.0, "joy": 0.75}


def test_train_counts_look_at_the_train_split_alone():
    records = [
        _record(0, split="train", label="joy"),
        _record(1, split="val", label="joy"),
        _record(2, split="test", label="fear"),
        _record(3, split="train"),
    ]
    moved = [records[0], _record(1, split="test", label="joy"), *records[2:]]
    assert split.train_counts(records) == split.train_counts(moved) == {"joy": 1}
