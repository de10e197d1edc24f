"""Assigning to a view changes what it is a view of, or is refused: never neither."""

import contextlib
import sys

import numpy as np
import pytest

from tinyref import Tensor, Variable
from tinyref.errors import UserError

TWO = ("CPU", "CPU:1")


def in_memory():
    return Tensor(np.arange(12, dtype=np.int32)).realize()


# The view of 12 elements, and what it shows of the numbers 0 to 11.
VIEWS = {
    "slice": (lambda x: x[:4], [0, 1, 2, 3]),
    "stride": (lambda x: x[1::5], [1, 6, 11]),
    "backwards": (lambda x: x[10::-4], [10, 6, 2]),
    "flip": (lambda x: x.flip(0)[:2], [11, 10]),
    "transposed": (lambda x: x.reshape(3, 4).T[1], [1, 5, 9]),
    "reshaped transposed": (lambda x: x.reshape(3, 4).T.reshape(12)[:4], [0, 4, 8, 1]),
    "one element": (lambda x: x[7], 7),
    "detached": (lambda x: x.detach()[2:4], [2, 3]),
    "bits": (lambda x: x.bitcast("uint32").bitcast("int32")[4:6], [4, 5]),
    "whole": (lambda x: x.flatten(), list(range(12))),
    "nothing": (lambda x: x[3:3], []),
    # Where the function has nothing to do.
    "squeezed": (lambda x: x.squeeze(0)[:2], [0, 1]),
    "expanded to its size": (lambda x: x.expand(12)[:2], [0, 1]),
}
SOURCES = {
    "in memory": in_memory,
    "a graph": lambda: Tensor(np.arange(12, dtype=np.int32)).realize() + 0,
    "a range": lambda: Tensor.arange(12),
    "computed": lambda: Tensor(np.arange(-1, 11, dtype=np.int32)).add(1).realize().detach(),
    "sharded": lambda: Tensor(np.arange(12, dtype=np.int32)).shard(TWO, 0).realize(),
    "on each": lambda: Tensor(np.arange(12, dtype=np.int32)).to(TWO).realize(),
    "on PYTHON": lambda: Tensor(np.arange(12, dtype=np.int32), device="PYTHON").realize(),
}
WRITES = {
    "assign": lambda view: view.assign(-7),
    "assign, computed": lambda view: view.assign(view * 0 - 7).realize(),
    "index": lambda view: view.__setitem__(..., -7),
    "in place": lambda view: view.__isub__(view + 7),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("view", VIEWS)
def test_assigning_to_a_view_changes_the_base(view, source, write):
    take, indices = VIEWS[view]
    base = SOURCES[source]()
    before, other, total = take(base), base[::2], base.sum()
    assert take(base).tolist() == indices
    WRITES[write](take(base))
    expected = np.arange(12)
    expected[np.array(indices, int).flatten()] = -7
    assert base.tolist() == expected.tolist()
    assert take(base).tolist() == np.full(np.shape(indices), -7).tolist()
    assert before.tolist() == np.full(np.shape(indices), -7).tolist()
    assert other.tolist() == expected[::2].tolist()
    assert total.item() == 66


def test_bits_of_another_size_are_a_view_too():
    x = Tensor(np.array([1.0, 2.0], np.float32)).realize()
    x.bitcast("uint8")[3:4].assign(0xC0)
    assert x.tolist() == [-4.0, 2.0]


REFUSED = {
    "expanded": lambda x: x.reshape(12, 1).expand(12, 2),
    "part of expanded": lambda x: x[0:1].expand(4)[1:3],
    "expanded and joined": lambda x: x.reshape(1, 12).expand(2, 12).reshape(24)[:12],
    "expanded and cut": lambda x: x.reshape(1, 12).expand(2, 12)[:, ::-2],
}


@pytest.mark.parametrize("view", REFUSED)
@pytest.mark.parametrize("write", WRITES)
def test_one_element_at_several_places_is_refused(view, write):
    base = in_memory()
    with pytest.raises(UserError, match=r"expand.*repeats elements.*clone\(\)"):
        WRITES[write](REFUSED[view](base))
    assert base.tolist() == list(range(12))


# Functions whose result is no view, also where it might have been one.
OWN = {
    "pad": lambda x: x.pad((1, 0))[1:],
    "repeat": lambda x: x.repeat(1),
    "clone": lambda x: x.clone(),
    "contiguous": lambda x: x.contiguous(),
    "cat": Tensor.cat,
    "a tensor of it": Tensor,
    "lookup": lambda x: x[list(range(12))],
    "rolled by 0": lambda x: x.roll(0, 0),
    "sum over no axes": lambda x: x.sum(()),
    "first power": lambda x: x**1,
    "interpolated to its size": lambda x: x.interpolate((12,), "nearest"),
    "rounded": lambda x: x.round(),
    "matrix of a diagonal": lambda x: x.diag().diagonal(),
}


@pytest.mark.parametrize("own", OWN)
def test_what_is_no_view_has_elements_of_its_own(own):
    base = in_memory()
    other = OWN[own](base)
    other.assign(-1)
    assert base.tolist() == list(range(12))
    base += 100
    assert other.tolist() == [-1] * 12


@pytest.mark.parametrize("condition", ["itself", "another that is written"])
def test_a_choice_between_the_same_assigned_elements_is_those(condition):
    x = Tensor([3]).realize()
    seen, other = x.detach(), Tensor([7]).realize()
    is_other = seen != x
    if condition != "itself":
        other.assign([8])
        is_other = other == 8
    seen += seen
    chosen = is_other.where(x, seen)
    Tensor.realize(chosen, seen, x)
    assert [item.tolist() for item in (chosen, seen, x)] == [[6], [6], [6]]
    x.assign([1])
    assert [item.tolist() for item in (chosen, seen, x)] == [[6], [1], [1]]


def test_memory_of_a_part_of_symbolic_size_is_not_the_memory_of_the_whole():
    total = Tensor([3, 4]).cumsum(0)
    part = total[: Variable("n", 1, 2).bind(1)]
    twice = part + part
    assert part.tolist() == [3]
    part.assign(twice)
    assert (total.tolist(), part.tolist()) == ([6, 7], [6])


@pytest.mark.parametrize("size", [0, 2])
@pytest.mark.parametrize("see", [lambda x: x, lambda x: x.flip(0), lambda x: x.reshape(-1, 1)])
def test_what_a_whole_is_overwritten_with_has_a_gradient(see, size):
    leaf = Tensor([2.0] * size, requires_grad=True)
    for value in (leaf, leaf + 0.5, leaf * 1.0):
        before = value.tolist()
        target = Tensor([1.0] * size)
        see(target)[:] = see(value)
        (actual,) = (target * Tensor([3.0] * size)).sum().gradient(value)
        assert actual.tolist() == [3.0] * size
        target[0:1] = 5.0
        assert value.tolist() == before


def test_gradients_that_would_be_lost_are_refused():
    weight = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    with pytest.raises(UserError, match=r"leaf that requires grad"):
        weight[1:] += 1
    computed = weight * 2
    with pytest.raises(UserError, match=r"detached.*lost"):
        computed.detach()[0] = 1
    weight[1:].assign([7.0, 8.0])
    weight.detach()[0] = 5
    assert weight.tolist() == [5.0, 7.0, 8.0]
    assert weight.requires_grad
    (weight * weight).sum().backward()
    assert weight.grad.tolist() == [10.0, 14.0, 16.0]


def test_assign_stores_what_a_layer_gives_and_an_index_lets_gradients_flow():
    weight = Tensor([2.0, 3.0], requires_grad=True)
    cache = Tensor.zeros(4, 2).contiguous().realize()
    memory = cache.node
    cache.shrink(((1, 2), None)).assign(weight * 5).realize()
    assert cache.node is memory
    assert cache.tolist() == [[0.0, 0.0], [10.0, 15.0], [0.0, 0.0], [0.0, 0.0]]
    assert not cache.requires_grad
    assert (cache[1] * weight).sum().gradient(weight)[0].tolist() == [10.0, 15.0]
    cache[2] = weight * 5
    assert (cache[1:3] * weight).sum().gradient(weight)[0].tolist() == [30.0, 45.0]


def test_assign_stores_in_what_was_computed_with_gradients():
    weight = Tensor([2.0, 3.0], requires_grad=True)
    result = weight * 10
    result[:1].assign(weight[1:])
    assert (result.tolist(), weight.tolist()) == ([3.0, 30.0], [2.0, 3.0])
    assert result.sum().gradient(weight)[0].tolist() == [0.0, 10.0]
    weight.assign(weight.flip(0) * 2)
    weight[1:].assign(weight[:1])
    assert (weight.tolist(), weight.requires_grad) == ([6.0, 6.0], True)
    (weight * weight).sum().backward()
    assert weight.grad.tolist() == [12.0, 12.0]


@pytest.mark.parametrize("is_recording", [True, False])
def test_a_view_of_a_leaf_that_is_assigned_to_still_gives_it_a_gradient(is_recording):
    weight = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    view, detached = weight[1:], weight.detach()
    with contextlib.nullcontext() if is_recording else Tensor.no_grad():
        weight.assign([4.0, 5.0, 6.0])
        view.assign([7.0, 8.0])
        without = weight[1:]
    assert (view.tolist(), detached.tolist()) == ([7.0, 8.0], [4.0, 7.0, 8.0])
    assert (view.requires_grad, detached.requires_grad) == (True, False)
    assert without.requires_grad is is_recording
    (view * view).sum().backward()
    assert weight.grad.tolist() == [0.0, 14.0, 16.0]


def in_part(view):
    view[0:1] = 8.0


def in_place(view):
    view += 1.0


def in_place_and_whole(view):
    view += 1.0
    view.assign(8.0)


def without_gradient(view):
    with Tensor.no_grad():
        view.assign(8.0)


PART = [lambda x: x[1:3], lambda x: x[1:4][0:2], lambda x: x.reshape(2, 2).flip(0).reshape(4)[1:3]]
WHOLE = [lambda x: x.flip(0), lambda x: x.reshape(2, 2), lambda x: x.reshape(1, 4)[::-2]]
GONE = [(False, "nothing"), *((True, computed) for computed in ("nothing", "base", "view"))]


def view_of(base, see, is_gone, computed):
    """Return a view of the result of `base`, which is dropped or returned as well."""
    whole = base()
    if computed == "base":
        whole.realize()
    view = see(whole)
    if computed == "view":
        view.realize()
    return view, None if is_gone else whole


@pytest.mark.parametrize(("is_gone", "computed"), GONE)
@pytest.mark.parametrize(
    ("write", "sees", "elements", "gradient"),
    [
        (lambda view: view.assign(8.0), PART, [8.0, 8.0], [0.0, 0.0, 0.0, 0.0]),
        (in_place_and_whole, PART, [8.0, 8.0], [0.0, 0.0, 0.0, 0.0]),
        (in_part, PART[:2], [8.0, 6.0], [0.0, 0.0, 24.0, 0.0]),
        (in_place, PART[:2], [5.0, 7.0], [0.0, 20.0, 28.0, 0.0]),
        (in_place, WHOLE, None, [12.0, 20.0, 28.0, 36.0]),
        # What `assign` gives all elements is a leaf, and depends on nothing that it was before.
        (lambda view: view.assign(8.0), WHOLE, None, None),
        (without_gradient, [*PART, *WHOLE], None, None),
    ],
)
def test_a_gradient_does_not_depend_on_whether_the_base_is_gone(
    write, sees, elements, gradient, is_gone, computed
):
    for see in sees:
        weight = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        view, whole = view_of(lambda of=weight: of * 2, see, is_gone, computed)
        write(view)
        assert elements in (None, view.tolist())
        assert view.requires_grad
        total = (view * view).sum()
        if gradient is None:
            with pytest.raises(UserError, match="is not part of the computation"):
                total.gradient(weight)
        else:
            assert total.gradient(weight)[0].tolist() == gradient
        zeros = [0.0, 0.0, 0.0, 0.0]
        (actual,) = total.gradient(weight, materialize_grads=True)
        assert actual.tolist() == (zeros if gradient is None else gradient)
        total.backward()
        # A leaf is the whole, or the only view of all of it where that is gone.
        has_leaf = gradient is None and not (is_gone and see in PART)
        actual = [tensor is not None and tensor.grad is not None for tensor in (view, whole)]
        assert actual == [has_leaf and is_gone, has_leaf and not is_gone]


@pytest.mark.parametrize(("is_gone", "computed"), GONE)
def test_a_view_of_a_leaf_is_one_whether_the_leaf_is_gone(is_gone, computed):
    for make in (
        lambda: Tensor.full((4,), 2.0, requires_grad=True),
        lambda: Tensor([2.0] * 4, requires_grad=True),
    ):
        for see in (*PART, *WHOLE):
            view, _whole = view_of(make, see, is_gone, computed)
            for _ in range(2):
                with pytest.raises(UserError, match="leaf that requires grad"):
                    view += 1.0
                view.assign(8.0)
                assert view.requires_grad
                view.sum().backward()
                assert view.grad is None


# Functions whose results are views of their memory, and one whose result is not.
RESULTS = {
    "computed": lambda x: x * 2,
    "sum": lambda x: x.sum(0, keepdim=True),
    "product": lambda x: x @ x,
    "transposed": lambda x: (x * 2).T,
    "flipped": lambda x: (x + 1).flip(0),
    "sorted": lambda x: x.sort()[0],
    "reshaped": lambda x: (x * 2).reshape(4),
}
VIEWS_OF_RESULTS = {
    "all": lambda x: x.reshape(-1),
    "part": lambda x: x.reshape(-1)[:1],
    "flipped": lambda x: x.flip(0),
}


@pytest.mark.parametrize("view", VIEWS_OF_RESULTS)
@pytest.mark.parametrize("compute", RESULTS)
def test_a_result_with_views_is_a_leaf_where_it_is_assigned_to(compute, view):
    for is_through_view in (False, True):
        x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        result = RESULTS[compute](x)
        visible = VIEWS_OF_RESULTS[view](result)
        (visible if is_through_view else result).assign(5.0)
        assert visible.reshape(-1)[0].item() == 5.0
        (result.sum() + visible.sum()).backward()
        assert visible.grad is None
        if view == "part" and is_through_view:
            # Through what was overwritten the gradient is zero, through the others as it was.
            assert result.grad is None
            assert x.grad is not None
        else:
            assert result.grad.sum().item() == result.numel() + visible.numel()
            assert x.grad is None


def test_a_result_stays_what_its_views_were_taken_from_when_a_write_is_refused():
    x = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    result = x @ x
    row = result[0]
    with pytest.raises(UserError, match="this detached tensor is a view of a tensor"):
        row.detach().assign(0.0)
    row.assign([0.0, 0.0])
    assert result.tolist() == [[0.0, 0.0], [15.0, 22.0]]
    assert result.sum().gradient(x)[0].tolist() == [[3.0, 3.0], [7.0, 11.0]]


@pytest.mark.parametrize("order", [1, -1])
def test_a_detached_view_takes_no_gradient_from_another_one(order):
    weight = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    result = weight * 2
    sees = [lambda x: x[0:2], lambda x: x.detach()][::order]
    views = {see(result).requires_grad: see(result) for see in sees}
    del result
    views[True][0:1] = 5.0
    assert views[False].tolist() == [5.0, 4.0, 6.0]
    assert views[True].sum().gradient(weight)[0].tolist() == [0.0, 2.0, 0.0]


def test_a_part_of_a_symbolic_part_does_not_show_what_its_memory_has_room_for():
    total = Tensor([1, 2, 3, 4, 5]) + 1
    part = total[: Variable("n", 1, 5).bind(3)]
    other = total.detach()
    part.realize()
    del total
    part[0:1] = 8
    assert (part.tolist(), other.tolist()) == ([8, 3, 4], [8, 3, 4, 5, 6])


@pytest.mark.parametrize("size", [0, 2])
def test_a_whole_view_that_is_written_leaves_gradients_to_what_it_is_of(size):
    weight = Tensor([1.0] * size, requires_grad=True)
    result = weight * 2
    flipped = result.flip(0)
    result[0:size] = [3.0] * size
    for seen, target in ((flipped, result), (flipped, weight), (result, weight)):
        (actual,) = (seen * 2).sum().gradient(target)
        assert actual.tolist() == [2.0 if target is result else 0.0] * size


def test_a_tensor_that_moves_is_no_view_any_more():
    base = in_memory()
    view = base[:2]
    view.to_("PYTHON")
    view.assign([-1, -2])
    assert base[:3].tolist() == [0, 1, 2]
    base.replace(Tensor([5, 6]), allow_shape_mismatch=True)
    assert view.tolist() == [-1, -2]


@pytest.mark.parametrize("is_computed", [True, False])
def test_what_reads_memory_between_two_assignments_and_after_both(is_computed):
    """Guard a cycle if nobody holds the tensor that is computed in between."""
    x = Tensor([1, 2, 3, 4])
    if is_computed:
        x.realize()
    x[1:] = Tensor([5, 6, 7])
    result = -x
    x.assign(x + 1)
    result = result * x
    x[0] = 9
    result = result + x
    assert result.tolist() == [-1 * 2 + 9, -5 * 6 + 6, -6 * 7 + 7, -7 * 8 + 8]
    assert x.tolist() == [9, 6, 7, 8]


@pytest.mark.parametrize("first", ["written", "read"])
def test_what_reads_memory_before_and_after_it_is_assigned_to(first):
    """Compute the padding from the old x, and the first elements from the new x."""
    x = Tensor([1, 2, 3]).realize()
    padded = x.pad(((1, 0),))
    padded[1:].assign(x)
    x.assign(7)
    padded[:3].assign(x)
    tensors = [x, padded] if first == "written" else [padded, x]
    actual = [tensor.tolist() for tensor in tensors]
    assert sorted(actual) == [[7, 7, 7], [7, 7, 7, 3]]


def calls_of(work):
    """Return how many functions `work` calls."""
    events = []
    sys.setprofile(lambda frame, event, argument: events.append(event))
    try:
        work()
    finally:
        sys.setprofile(None)
    return events.count("call")


@pytest.mark.long
@pytest.mark.parametrize("through_view", [False, True])
def test_an_assignment_costs_the_same_however_many_are_pending(through_view):
    """Guard walks from each of them to the buffer: 3,000 pending ones took 4 s."""
    base = in_memory()
    view = base[1:3]
    written = view if through_view else base

    def add():
        nonlocal written
        written += 1

    for _ in range(20):
        add()
    first = calls_of(add)
    for _ in range(100):
        add()
    assert calls_of(add) < 1.2 * first
    assert view.tolist() == [123, 124]
    assert base[:2].tolist() == [0 if through_view else 122, 123]
