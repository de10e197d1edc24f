"""Patterns in programs, replacements for them, and the loops that direct programs run."""

from __future__ import annotations

from collections.abc import Callable

from tinyref.dtype import AddressSpace, ConstType, DType, PtrDType
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import ConstArg
from tinyref.uops.program import Program
from tinyref_conformance.faulty.programs import Change, each_node
from tinyref_spec.kernel.programs import at, loop, program

# Returns what stands for a node, or None if the node stays.
Replacement = Callable[[UOp], UOp | None]


def replacing(replacement: Replacement) -> Callable[[Program], Change]:
    """Return the edit that puts `replacement(node)` in the place of each node."""
    return each_node(change_of(replacement))


def change_of(replacement: Replacement) -> Change:
    """Return the change that puts `replacement(node)` in the place of a node."""

    def change(node: UOp) -> tuple[UOp, ...]:
        value = replacement(node)
        if value is None:
            return (node,)
        known = {old for source in node.src for old in source.toposort()}
        missing = tuple(new for new in value.toposort() if new not in known)
        return missing or (value,)

    return change


def constant_of(node: UOp) -> ConstType | None:
    """Return the value of a CONST, None for every other node."""
    return node.arg.value if isinstance(node.arg, ConstArg) else None


def negated(node: UOp) -> UOp | None:
    """Return x where `node` is -x, printed as NEG or as a product with -1; else None."""
    if node.op is Ops.NEG:
        return node.src[0]
    is_product = node.op is Ops.MUL and constant_of(node.src[1]) == -1
    return node.src[0] if is_product else None


def inverted(node: UOp) -> UOp | None:
    """Return the condition whose logical negation `node` is; else None."""
    is_inverse = node.op is Ops.CMPNE and constant_of(node.src[1]) is True
    return node.src[0] if is_inverse else None


def is_fill(program: Program) -> bool:
    """Return True for a program that reads no memory and stores constants only."""
    stores = [node for node in program.uops if node.op is Ops.STORE]
    reads = any(node.op is Ops.LOAD for node in program.uops)
    return not reads and all(store.src[1].op is Ops.CONST for store in stores)


def is_copy(program: Program) -> bool:
    """Return True for a program that stores loaded values only."""
    stores = [node for node in program.uops if node.op is Ops.STORE]
    return all(store.src[1].op in (Ops.LOAD, Ops.VECTORIZE, Ops.GEP) for store in stores)


def is_shared_element(load: UOp) -> bool:
    """Return True for a load of one element of memory that the work-items of a group share."""
    address = load.src[0]
    is_local = isinstance(address.dtype, PtrDType) and address.dtype.space is AddressSpace.LOCAL
    return is_local and address.op is Ops.INDEX and load.dtype.lanes == 1


def is_product_of_buffers(node: UOp) -> bool:
    """Return True for a product whose two sides are loaded from two buffers."""
    if node.op is not Ops.MUL or node.dtype.is_bool:
        return False
    first, second = (_loaded_slots(side) for side in node.src)
    return bool(first) and bool(second) and first != second


def has_products(program: Program) -> bool:
    """Return True for a program that multiplies elements of two buffers."""
    return any(is_product_of_buffers(node) for node in program.uops)


def _loaded_slots(node: UOp) -> set[int]:
    return {build.slot_of(source) for source in node.toposort() if source.op is Ops.LOAD}


def is_cast(node: UOp, target: DType, source: DType) -> bool:
    """Return True for a CAST from `source` to `target`, of any number of lanes."""
    types = (node.dtype.scalar, *(operand.dtype.scalar for operand in node.src))
    return node.op is Ops.CAST and types == (target, source)


def without_lanes(node: UOp) -> UOp:
    """Return the vector from which GEPs take lanes, the node that fills a vector, or the node."""
    while node.op is Ops.GEP or (node.op is Ops.VECTORIZE and len(set(node.src)) == 1):
        node = node.src[0]
    return node


def in_lanes(node: UOp, lanes: int) -> UOp:
    """Return a scalar in every lane of a vector."""
    return node if lanes == 1 else build.vectorize(*(node for _ in range(lanes)))


def memory_size(memory: UOp) -> int:
    """Return the number of elements of a memory."""
    assert isinstance(memory.dtype, PtrDType), "memory is a pointer"
    return memory.dtype.size


def elementwise(
    function: Callable[..., UOp], result: DType, types: tuple[DType, ...], size: int, lanes: int = 1
) -> Program:
    """Return the program that stores `function` of its inputs, `lanes` elements an iteration."""
    out = build.define_global(0, result, size)
    inputs = [build.define_global(slot, dtype, size) for slot, dtype in enumerate(types, 1)]
    counter = loop(size // lanes, 0)
    position = counter if lanes == 1 else build.mul(counter, lanes)
    operands = [build.load(at(data, position), lanes=lanes) for data in inputs]
    stored = build.store(at(out, position), function(*operands))
    return program("elementwise", counter, stored, build.close(counter))


def summed(function: Callable[[UOp], UOp], start: UOp, data: DType, size: int) -> Program:
    """Return the program that adds `function` of each of `size` elements to `start`, in order."""
    out, memory = build.define_global(0, start.dtype, 1), build.define_global(1, data, size)
    counter = loop(size, 0)
    total = build.accumulator("total", start)
    last = build.update(total, build.add(total, function(build.load(at(memory, counter)))))
    stored = build.store(at(out, 0), last)
    return program("summed", total, counter, last, build.close(counter), stored)
