"""Policies: the weights by which the generator draws kernels, data and optimisations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from tinyref.dtype import DType, dtypes
from tinyref.errors import UserError
from tinyref.optimise.opt import OptOp
from tinyref.uops.ops import Ops
from tinyref_fuzz.generate.tape import Tape
from tinyref_spec.kernel_case import Mode
from tinyref_spec.kernels.family import CorpusKernel

K = TypeVar("K")
Weights = Mapping[K, float]

# Every type that a buffer can hold; reducers move towards the first.
DTYPES = (
    dtypes.float32,
    dtypes.int32,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float64,
    dtypes.int8,
    dtypes.uint8,
    dtypes.int16,
    dtypes.uint16,
    dtypes.uint32,
    dtypes.int64,
    dtypes.uint64,
    dtypes.bool,
    dtypes.fp8e4m3,
    dtypes.fp8e5m2,
)
EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16)


def _weights(**by_name: float) -> Weights[str]:
    return MappingProxyType(by_name)


@dataclass(frozen=True)
class Policy:
    """Weights of what is drawn; a missing key has the weight 1, except a missing form."""

    name: str
    forms: Weights[str] = field(default_factory=_weights)
    """Weights of the forms of `generate.py`, the simplest first; all forms if empty."""
    modes: Weights[Mode] = field(
        default_factory=lambda: MappingProxyType({Mode.EXACT: 8, Mode.FLOAT: 2, Mode.EDGE: 1})
    )
    """Weights of the modes of data."""
    dtypes: Weights[DType] = field(default_factory=lambda: MappingProxyType({}))
    ops: Weights[Ops] = field(default_factory=lambda: MappingProxyType({}))
    opts: Weights[OptOp] = field(default_factory=lambda: MappingProxyType({}))
    extents: tuple[int, ...] = EXTENTS
    """Sizes of most axes."""
    most: int = 2048
    """Largest number of positions of the iteration space."""
    depth: int = 3
    """Largest depth of expressions."""
    moves: int = 2
    """Largest number of movements of one view."""
    wide_data: int = 60
    """Percentage of integer buffers that hold any value of their type."""
    symbolic: int = 6
    """Percentage of kernels with a variable."""
    outputs: int = 20
    """Percentage of kernels with more than one output."""
    in_place: int = 10
    """Percentage of kernels that load an output."""
    equivalent: int = 20
    """Percentage of kernels with an equivalent kernel."""
    lists: tuple[int, int] = (5, 7)
    """Smallest and largest number of lists of optimisations."""
    kernels: tuple[CorpusKernel, ...] = ()
    """Kernels for the form `real`; those that come with the fuzzer if empty."""
    mixes: Weights[str] = field(default_factory=_weights)
    """If not empty, each kernel is drawn by one of these policies."""

    def draw_part(self, tape: Tape) -> Policy:
        """Return the policy for one kernel: a part of a mix, or this policy."""
        if not self.mixes:
            return self
        names = sorted(self.mixes)
        part = POLICIES[tape.pick(names, [self.mixes[name] for name in names])]
        lists = tuple(map(min, self.lists, part.lists))
        return replace(part, kernels=self.kernels, lists=(lists[0], lists[1]))


def opening(policy: Policy, number: int) -> Policy:
    """Return the policy of case `number` of a campaign.

    The first kernels of a mix have few lists of optimisations, and later ones have more: another
    kernel reaches more of a compiler than another list does. Other policies do not change.
    """
    most = OPENING_LISTS + number // CASES_OF_A_LIST
    if not policy.mixes or most >= policy.lists[1]:
        return policy
    return replace(policy, lists=(most, most))


def policy_named(name: str) -> Policy:
    """Return the policy of this name. Raises `UserError` if there is none."""
    policy = POLICIES.get(name)
    if policy is None:
        raise UserError(f"policy: {name!r} does not exist: accepted are {', '.join(POLICIES)}")
    return policy


_NARROW_TYPES = (dtypes.int32, dtypes.float32, dtypes.int8, dtypes.uint8, dtypes.bool)
_FUNCTIONS = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.SQRT, Ops.RECIP, Ops.FDIV)
_WIDE_OPS = (Ops.CAST, Ops.BITCAST, Ops.SHL, Ops.SHR, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.THREEFRY)


def _modes(exact: float, floats: float, edge: float) -> Weights[Mode]:
    return MappingProxyType({Mode.EXACT: exact, Mode.FLOAT: floats, Mode.EDGE: edge})


_PARTS = (
    Policy(
        "small",
        forms=_weights(
            tree=4,
            reduce=4,
            softmax=1,
            siblings=1,
            nested=1,
            gather=1,
            choose=1,
            scatter=1,
            running=1,
            launch=1,
            texels=1,
        ),
        modes=_modes(1, 0, 0),
        dtypes=MappingProxyType({dtype: 0.1 for dtype in DTYPES if dtype not in _NARROW_TYPES}),
        extents=(1, 2, 3, 4, 5),
        most=128,
        depth=1,
        moves=1,
        outputs=30,
        in_place=70,
    ),
    Policy(
        "integers",
        forms=_weights(tree=4, several=20, reduce=2, siblings=1),
        modes=_modes(6, 1, 3),
        dtypes=MappingProxyType(
            {dtypes.int64: 2, dtypes.uint64: 2, dtypes.uint32: 2, dtypes.int8: 2, dtypes.float64: 2}
        ),
        ops=MappingProxyType(dict.fromkeys(_WIDE_OPS, 3.0)),
        wide_data=80,
        symbolic=2,
    ),
    Policy(
        "floats",
        forms=_weights(tree=5, reduce=4, softmax=3, matmul=1, nested=1, siblings=1),
        modes=_modes(0, 3, 2),
        dtypes=MappingProxyType(dict.fromkeys(dtypes.floats, 5.0)),
        ops=MappingProxyType(dict.fromkeys(_FUNCTIONS, 2.0)),
    ),
    Policy(
        "reduces",
        forms=_weights(
            reduce=7,
            softmax=4,
            siblings=4,
            nested=6,
            matmul=2,
            choose=2,
            scatter=1,
            running=1,
            gather=0.5,
            launch=1,
        ),
        modes=_modes(6, 3, 0),
        dtypes=MappingProxyType({dtypes.int32: 5, dtypes.float32: 5}),
        opts=MappingProxyType({OptOp.GROUP: 2, OptOp.GROUPTOP: 2, OptOp.LOCAL: 1.5}),
        extents=(4, 6, 8, 2, 3, 5, 12, 16, 7, 9),
        most=1024,
        depth=1,
        wide_data=20,
        symbolic=8,
        in_place=15,
        equivalent=5,
        lists=(7, 9),
    ),
    Policy(
        "matmul",
        forms=_weights(matmul=6, convolution=1),
        modes=_modes(1, 0, 0),
        opts=MappingProxyType({OptOp.TC: 3}),
        most=8192,
        depth=1,
        symbolic=0,
        equivalent=5,
        lists=(6, 8),
    ),
    Policy(
        "views",
        forms=_weights(
            tree=9,
            chains=9,
            gather=3,
            choose=2,
            scatter=1,
            reduce=3,
            running=1,
            convolution=2,
            texels=1,
        ),
        modes=_modes(8, 1, 1),
        opts=MappingProxyType({OptOp.UPCAST: 3, OptOp.UNROLL: 2, OptOp.PACK: 2}),
        extents=(4, 8, 2, 3, 5, 6, 7, 12, 15, 16),
        moves=4,
        depth=1,
    ),
    Policy("models", forms=_weights(real=1)),
)
# Weights of the policies in the default mix.
_SHARES = {
    "small": 6.0,
    "integers": 18.0,
    "floats": 3.0,
    "reduces": 11.0,
    "matmul": 3.0,
    "views": 6.0,
    "models": 1.0,
}
# Number of lists of optimisations in the first kernels of a campaign, and the number of kernels
# after which there is one more.
OPENING_LISTS = 3
CASES_OF_A_LIST = 9
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "all": Policy(
            "all",
            lists=max(policy.lists for policy in _PARTS),
            mixes=MappingProxyType(_SHARES),
        ),
        **{policy.name: policy for policy in _PARTS},
    }
)
