"""Policies: by which weights the generator draws kernels, data and optimisations."""

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
NONE: Mapping[object, float] = MappingProxyType({})

# Every type that a buffer can hold; the first is what reducers move towards.
DTYPES = (
    *(dtypes.float32, dtypes.int32, dtypes.float16, dtypes.bfloat16, dtypes.float64),
    *(dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16, dtypes.uint32),
    *(dtypes.int64, dtypes.uint64, dtypes.bool, dtypes.fp8e4m3, dtypes.fp8e5m2),
)
# What a kernel is built around; `tinyref_fuzz.generate.forms` has a builder for each.
FORMS = (
    *("tree", "reduce", "long", "matmul", "softmax", "siblings", "nested", "gather", "choose"),
    *("running", "movement", "concatenate", "convolution", "product", "count", "random", "real"),
    *("several", "looped", "launch", "texels", "exchange", "chains"),
)
EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16)


def _weights(**by_name: float) -> Weights[str]:
    return MappingProxyType(by_name)


@dataclass(frozen=True)
class Policy:
    """Weights of what is drawn; where a key is missing, it has the weight 1.

    forms: of `FORMS`. modes: of the data. dtypes, ops, opts: of types, of the operations of the
    kernel and of its optimisations. rules: of the rewriting rules whose patterns have
    instances in `instances` percent of the kernels. extents: those of most axes. most: positions of
    the iteration space. depth: of expressions. moves: most movements of one view. wide_data:
    percent of the integer buffers that hold any value of their type. symbolic, outputs, in_place,
    equivalent: percent of the kernels with a variable, more outputs, a load of an output, an
    equivalent kernel. lists: the least and the most lists of optimisations; those of a mix bound
    those of its parts. mutated: percent of the cases with such lists whose kernel and lists are
    then mutated together. kernels: what the form `real` takes, those that come with the fuzzer
    where it is empty. mixes: where it is not empty, each kernel is drawn by one of these policies.
    """

    name: str
    forms: Weights[str] = field(default_factory=_weights)
    modes: Weights[Mode] = field(
        default_factory=lambda: MappingProxyType({Mode.EXACT: 8, Mode.FLOAT: 2, Mode.EDGE: 1})
    )
    dtypes: Weights[DType] = field(default_factory=lambda: MappingProxyType({}))
    ops: Weights[Ops] = field(default_factory=lambda: MappingProxyType({}))
    opts: Weights[OptOp] = field(default_factory=lambda: MappingProxyType({}))
    rules: Weights[str] = field(default_factory=_weights)
    instances: int = 40
    extents: tuple[int, ...] = EXTENTS
    most: int = 2048
    depth: int = 3
    moves: int = 2
    wide_data: int = 60
    symbolic: int = 6
    outputs: int = 20
    in_place: int = 10
    equivalent: int = 20
    lists: tuple[int, int] = (5, 7)
    mutated: int = 10
    kernels: tuple[CorpusKernel, ...] = ()
    mixes: Weights[str] = field(default_factory=_weights)

    def scale(
        self,
        *,
        forms: Weights[str] | None = None,
        dtypes: Weights[DType] | None = None,
        ops: Weights[Ops] | None = None,
        opts: Weights[OptOp] | None = None,
        rules: Weights[str] | None = None,
        mixes: Weights[str] | None = None,
    ) -> Policy:
        """The policy with these weights multiplied by the given factors.

        A policy that mixes others hands the factors on to the one that is drawn.
        """
        return replace(
            self,
            forms=_times(self.forms, forms),
            dtypes=_times(self.dtypes, dtypes),
            ops=_times(self.ops, ops),
            opts=_times(self.opts, opts),
            rules=_times(self.rules, rules),
            mixes=_times(self.mixes, mixes),
        )

    def draw_part(self, tape: Tape) -> Policy:
        """The policy for one kernel: of a mix one of its parts, else this one."""
        if not self.mixes:
            return self
        names = sorted(self.mixes)
        part = POLICIES[tape.pick(names, [self.mixes[name] for name in names])]
        lists = tuple(map(min, self.lists, part.lists))
        return replace(part, kernels=self.kernels, lists=(lists[0], lists[1])).scale(
            forms=self.forms,
            dtypes=self.dtypes,
            ops=self.ops,
            opts=self.opts,
            rules=self.rules,
        )


def _times(weights: Weights[K], factors: Weights[K] | None) -> Weights[K]:
    if not factors:
        return weights
    keys = [*weights, *(key for key in factors if key not in weights)]
    return MappingProxyType({key: weights.get(key, 1) * factors.get(key, 1) for key in keys})


def opening(policy: Policy, number: int) -> Policy:
    """The policy of case `number` of a campaign, which finds soon what is easily found.

    A mix begins with kernels of each of its parts, in the order of `OPENING`, with few lists of
    optimisations, of which later ones have more and more: another kernel reaches more of a compiler
    than one more list of the same one. Other policies, and cases late enough, are as they are.
    """
    most = OPENING_LISTS + number // CASES_OF_A_LIST
    if not policy.mixes or most >= policy.lists[1]:
        return policy
    mixes = policy.mixes
    if number < len(OPENING):
        mixes = MappingProxyType({name: float(name == OPENING[number]) for name in mixes})
    return replace(policy, mixes=mixes, lists=(most, most))


def policy_named(name: str) -> Policy:
    """The policy of this name. Raises `UserError` for another one."""
    found = POLICIES.get(name)
    if found is None:
        raise UserError(f"policy: {name!r} is none: accepted are {', '.join(POLICIES)}")
    return found


def _only(**forms: float) -> Weights[str]:
    """These forms and no others."""
    return MappingProxyType({form: forms.get(form, 0) for form in FORMS})


_NARROW_TYPES = (dtypes.int32, dtypes.float32, dtypes.int8, dtypes.uint8, dtypes.bool)
_FUNCTIONS = (Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.POW, Ops.SQRT, Ops.RECIP, Ops.FDIV)
_WIDE_OPS = (Ops.CAST, Ops.BITCAST, Ops.SHL, Ops.SHR, Ops.MUL, Ops.IDIV, Ops.MOD, Ops.THREEFRY)
_REDUCES = _only(reduce=3, long=2, softmax=4, siblings=2, nested=3, running=1, count=1, product=1)
_EXACT: Weights[Mode] = MappingProxyType({Mode.EXACT: 1, Mode.FLOAT: 0, Mode.EDGE: 0})

_ALL = (
    Policy(
        "mixed",
        forms=_weights(
            tree=4, reduce=3, long=2, matmul=2, softmax=4, siblings=2, nested=2, real=0, texels=0.5
        ),
    ),
    Policy(
        "small",
        forms=_weights(tree=4, reduce=4, matmul=0, convolution=0, real=0),
        modes=_EXACT,
        dtypes=MappingProxyType({dtype: 0.1 for dtype in DTYPES if dtype not in _NARROW_TYPES}),
        extents=(1, 2, 3, 4, 5),
        most=128,
        depth=1,
        moves=1,
        outputs=30,
        in_place=70,
    ),
    Policy(
        "reduces", forms=_REDUCES, extents=(2, 3, 4, 5, 6, 8, 12, 16, 13), depth=2, instances=15
    ),
    Policy(
        "matmul",
        forms=_only(matmul=6, convolution=1),
        modes=_EXACT,
        opts=MappingProxyType({OptOp.TC: 3}),
        most=8192,
        equivalent=5,
        lists=(6, 8),
        depth=1,
        symbolic=0,
        instances=10,
    ),
    Policy(
        "wide",
        forms=_only(tree=4, reduce=2, random=2, count=1, siblings=1),
        dtypes=MappingProxyType(
            {dtypes.int64: 8, dtypes.uint64: 8, dtypes.float64: 3, dtypes.uint32: 3}
        ),
        ops=MappingProxyType(dict.fromkeys(_WIDE_OPS, 3.0)),
        wide_data=95,
    ),
    Policy(
        "edges",
        forms=_only(tree=5, reduce=2, movement=1, concatenate=1, random=1),
        modes=MappingProxyType({Mode.EXACT: 0, Mode.FLOAT: 0, Mode.EDGE: 1}),
    ),
    Policy(
        "floats",
        ops=MappingProxyType(dict.fromkeys(_FUNCTIONS, 2.0)),
        forms=_only(tree=5, reduce=3, long=1, matmul=1, softmax=3, nested=1, siblings=1),
        modes=MappingProxyType({Mode.EXACT: 0, Mode.FLOAT: 1, Mode.EDGE: 0}),
        dtypes=MappingProxyType(dict.fromkeys(dtypes.floats, 5.0)),
    ),
    Policy(
        "vectors",
        forms=_only(tree=4, movement=2, reduce=2, concatenate=2, convolution=2, exchange=2),
        opts=MappingProxyType({OptOp.UPCAST: 5, OptOp.UNROLL: 2, OptOp.PACK: 3}),
        extents=(4, 8, 16, 12, 20, 32),
        moves=1,
        depth=2,
    ),
    Policy(
        "index",
        forms=_only(tree=1, movement=6, gather=3, choose=3, running=2, concatenate=2, reduce=2),
        extents=(2, 3, 4, 5, 6, 7, 8, 12, 15),
        moves=5,
        depth=1,
    ),
    Policy(
        "groups",
        forms=_only(long=4, reduce=3, softmax=4, nested=3, siblings=2),
        modes=MappingProxyType({Mode.EXACT: 6, Mode.FLOAT: 1, Mode.EDGE: 0}),
        opts=MappingProxyType({OptOp.GROUP: 4, OptOp.GROUPTOP: 4, OptOp.LOCAL: 2}),
        instances=15,
        extents=(2, 4, 6, 8, 16, 32, 12),
        depth=1,
    ),
    Policy("real", forms=_only(real=1)),
    Policy(
        "rules",
        ops=MappingProxyType(dict.fromkeys(_WIDE_OPS, 3.0)),
        dtypes=MappingProxyType({dtypes.int64: 2, dtypes.uint64: 2}),
        forms=_only(several=1),
        modes=MappingProxyType({Mode.EXACT: 6, Mode.FLOAT: 1, Mode.EDGE: 3}),
        wide_data=75,
        symbolic=2,
        equivalent=5,
        lists=(0, 1),
    ),
    Policy(
        "views",
        forms=_only(chains=1),
        modes=_EXACT,
        symbolic=2,
        equivalent=5,
        lists=(0, 1),
    ),
    Policy(
        "plans",
        forms=_only(looped=9, launch=1, choose=4, gather=0.5, texels=1, exchange=1),
        modes=MappingProxyType({Mode.EXACT: 5, Mode.FLOAT: 3, Mode.EDGE: 0}),
        dtypes=MappingProxyType({dtypes.int32: 8, dtypes.float32: 8}),
        most=512,
        wide_data=20,
        depth=0,
        instances=0,
        symbolic=10,
        outputs=25,
        in_place=20,
        equivalent=0,
        lists=(8, 10),
    ),
)
# How often the default draws a kernel by each of them; 1 for the others.
SHARES = {
    "mixed": 4.0,
    "small": 3.0,
    "plans": 6.0,
    "matmul": 3.0,
    "rules": 14.0,
    "groups": 2.0,
    "views": 2.0,
}
# The parts of the default in the order in which a campaign begins with them: first those whose
# kernels reach most blocks of the compiler that those before them do not reach; every third has
# many outputs, as rewriting rules are more than what one kernel can try.
OPENING = (
    *("plans", "rules", "mixed", "rules", "matmul", "groups", "rules", "index", "small", "views"),
    *("wide", "reduces", "rules", "vectors", "real", "small", "rules", "edges", "small", "floats"),
)
# What the heuristics choose, and two more; and after how many cases one more.
OPENING_LISTS = 3
CASES_OF_A_LIST = 9
POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        # The default: a mix of all others, evenly but for those that cost more.
        "even": Policy(
            "even",
            lists=max(policy.lists for policy in _ALL),
            mixes=MappingProxyType({policy.name: SHARES.get(policy.name, 1.0) for policy in _ALL}),
        ),
        **{policy.name: policy for policy in _ALL},
    }
)
