"""Test the enumeration of operations, and its fast lookup."""

import copy
import pickle

import pytest

from tinyref.uops.ops import MOVEMENT, Ops


def test_members_are_attributes_and_items_and_have_their_names():
    assert Ops.ADD is Ops["ADD"] is Ops("ADD") is Ops.__members__["ADD"]
    assert [op.name for op in Ops] == list(Ops.__members__) == [op.value for op in Ops]
    assert len(set(Ops)) == len(Ops)
    assert Ops.RESHAPE in MOVEMENT
    assert isinstance(Ops.ADD, Ops)


def test_what_is_no_member_is_no_attribute():
    with pytest.raises(AttributeError, match="NONE"):
        _ = Ops.NONE
    with pytest.raises(ValueError, match="'none' is not a valid Ops"):
        Ops("none")
    assert not hasattr(Ops, "add")


def test_members_do_not_change():
    with pytest.raises(AttributeError, match="reassign"):
        Ops.ADD = Ops.MUL


def test_a_member_survives_a_pickle_and_a_copy():
    assert pickle.loads(pickle.dumps(Ops.ADD)) is Ops.ADD
    assert copy.deepcopy([Ops.ADD])[0] is Ops.ADD
