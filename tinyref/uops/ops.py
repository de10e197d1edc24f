"""The names of the operations, and the groups of operations that rules and renderers use."""

from __future__ import annotations

import sys
from enum import Enum, EnumMeta

if sys.version_info >= (3, 12):
    DirectMembers = EnumMeta
else:

    class DirectMembers(EnumMeta):
        """Metaclass that looks up `Ops.ADD` in less than half the time.

        This saves 5 % of the time of the whole package. Python 3.11 has an `EnumMeta.__getattr__`,
        so it looks up each attribute of an enumeration by a call. The members are attributes of the
        class itself, where `object.__getattribute__` looks.
        """

        __getattribute__ = object.__getattribute__

        def __getattr__(cls, name: str) -> object:
            # Attributes that the class inherits.
            return type.__getattribute__(cls, name)


class Ops(Enum, metaclass=DirectMembers):
    """The operations of the four dialects; `op_table.OP_TABLE` defines each one."""

    # Members compare by identity, so the identity hash is correct, and it is fast.
    __hash__ = object.__hash__

    # Structure
    SINK = "SINK"
    CONST = "CONST"
    DEFINE_VAR = "DEFINE_VAR"
    BIND = "BIND"
    IOTA = "IOTA"

    # Tensor graph: memory, movement, placement
    BUFFER = "BUFFER"
    COPY = "COPY"
    CONTIGUOUS = "CONTIGUOUS"
    DETACH = "DETACH"
    ASSIGN = "ASSIGN"
    MULTI = "MULTI"
    RESHAPE = "RESHAPE"
    PERMUTE = "PERMUTE"
    EXPAND = "EXPAND"
    PAD = "PAD"
    SHRINK = "SHRINK"
    FLIP = "FLIP"

    # Arithmetic: one element of each source gives one element
    NEG = "NEG"
    RECIP = "RECIP"
    SQRT = "SQRT"
    EXP2 = "EXP2"
    LOG2 = "LOG2"
    SIN = "SIN"
    TRUNC = "TRUNC"
    ADD = "ADD"
    SUB = "SUB"
    MUL = "MUL"
    FDIV = "FDIV"
    IDIV = "IDIV"
    MOD = "MOD"
    POW = "POW"
    MAX = "MAX"
    CMPLT = "CMPLT"
    CMPNE = "CMPNE"
    AND = "AND"
    OR = "OR"
    XOR = "XOR"
    SHL = "SHL"
    SHR = "SHR"
    THREEFRY = "THREEFRY"
    WHERE = "WHERE"
    MULACC = "MULACC"
    CAST = "CAST"
    BITCAST = "BITCAST"

    # Reduction, in every dialect but the program
    REDUCE = "REDUCE"

    # Kernel AST: views of numbered buffers
    DEFINE_GLOBAL = "DEFINE_GLOBAL"
    VIEW = "VIEW"
    VALID = "VALID"
    LOAD = "LOAD"
    STORE = "STORE"

    # Indexed kernel and program
    DEFINE_LOCAL = "DEFINE_LOCAL"
    DEFINE_ACC = "DEFINE_ACC"
    UPDATE_ACC = "UPDATE_ACC"
    RANGE = "RANGE"
    SPECIAL = "SPECIAL"
    INDEX = "INDEX"
    VECTORIZE = "VECTORIZE"
    GEP = "GEP"
    WMMA = "WMMA"
    AFTER = "AFTER"
    BARRIER = "BARRIER"
    IF = "IF"
    ENDIF = "ENDIF"
    END = "END"


class Dialect(Enum):
    """The four languages that share the node, in the order of the pipeline."""

    __hash__ = object.__hash__

    TENSOR = "tensor"
    AST = "ast"
    INDEXED = "indexed"
    PROGRAM = "program"


UNARY = frozenset({Ops.NEG, Ops.RECIP, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.TRUNC})
BINARY = frozenset(
    {
        Ops.ADD,
        Ops.SUB,
        Ops.MUL,
        Ops.FDIV,
        Ops.IDIV,
        Ops.MOD,
        Ops.POW,
        Ops.MAX,
        Ops.CMPLT,
        Ops.CMPNE,
        Ops.AND,
        Ops.OR,
        Ops.XOR,
        Ops.SHL,
        Ops.SHR,
        Ops.THREEFRY,
    }
)
TERNARY = frozenset({Ops.WHERE, Ops.MULACC})
CASTS = frozenset({Ops.CAST, Ops.BITCAST})
ALU = UNARY | BINARY | TERNARY | CASTS
COMMUTATIVE = frozenset({Ops.ADD, Ops.MUL, Ops.MAX, Ops.CMPNE, Ops.AND, Ops.OR, Ops.XOR})
MOVEMENT = frozenset({Ops.RESHAPE, Ops.PERMUTE, Ops.EXPAND, Ops.PAD, Ops.SHRINK, Ops.FLIP})
REDUCING = frozenset({Ops.ADD, Ops.MUL, Ops.MAX})
# Approximate number of machine instructions of an op; any other op of `ALU` counts as 1.
WORK_OF_OP = {
    Ops.EXP2: 16,
    Ops.LOG2: 16,
    Ops.SIN: 16,
    Ops.POW: 32,
    Ops.THREEFRY: 64,
    Ops.FDIV: 4,
    Ops.RECIP: 4,
    Ops.SQRT: 4,
    Ops.IDIV: 4,
    Ops.MOD: 4,
}
