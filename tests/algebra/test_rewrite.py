"""Test patterns, rules and the rewriting engine."""

import random

import pytest

from tinyref.algebra.named_rules import (
    any_node,
    commute,
    constant,
    floating,
    integer,
    is_const,
    match,
    rule,
    rules_of,
)
from tinyref.algebra.rewrite import RuleSet, counting_rules, listening, rewrite
from tinyref.config import Context
from tinyref.dtype import dtypes
from tinyref.errors import UserError, VerifyError
from tinyref.uops import build
from tinyref.uops.node import UOp
from tinyref.uops.ops import Ops
from tinyref.uops.payload import BufferArg

index, f32 = dtypes.index, dtypes.float32
x, y, z, c = any_node("x"), any_node("y"), any_node("z"), is_const("c")
u = build.variable("u", 0, 9)
v = build.variable("v", 0, 9)
number = UOp(Ops.BUFFER, f32, (), BufferArg("CPU", 4, 1))


def make(name, pattern, result=None, **options):
    """Return a rule that returns `result`, or that records its calls and returns None."""
    calls = []

    def function(node):
        """Record the call."""
        calls.append(node)
        return result(node) if callable(result) else result

    return rule(name, pattern, **options)(function), calls


def fires(pattern, node, **options):
    made, calls = make("test", pattern, None, **options)
    made(node)
    return len(calls)


@rule("test-drop-zero", commute(Ops.ADD, x, constant(0)), when=integer)
def drop_zero(x):
    """x + 0 == x."""
    return x


@rule("test-double", match(Ops.ADD, x, x))
def double(x):
    """x + x == x * 2."""
    return build.mul(x, 2)


@rule("test-sub-to-mul", match(Ops.SUB, x, y))
def sub_to_mul(x, y):
    """x - y == x * y, which is wrong, but turns back."""
    return build.mul(x, y)


@rule("test-mul-to-sub", match(Ops.MUL, x, y))
def mul_to_sub(x, y):
    """x * y == x - y."""
    return build.sub(x, y)


@rule("test-grow", match(Ops.MAX, x, c))
def grow(x, c):
    """max(x, c) == max(x, c + 1), without end."""
    return build.maximum(x, c.arg.value + 1)


PATTERNS = [
    (match(Ops.ADD, x, y), build.add(u, v), 1),
    (match(Ops.ADD, x, x), build.add(u, v), 0),
    (match(Ops.ADD, x, x), build.add(u, u), 1),
    (match(Ops.ADD, x, y), build.sub(u, v), 0),
    (match({Ops.ADD, Ops.SUB}, x, y), build.sub(u, v), 1),
    (match(Ops.ADD), build.add(u, v), 1),
    (match(Ops.ADD, x, c), build.add(u, 3), 1),
    (match(Ops.ADD, x, c), UOp(Ops.ADD, index, (build.const(index, 3), u)), 0),
    (commute(Ops.ADD, x, c), UOp(Ops.ADD, index, (build.const(index, 3), u)), 1),
    (commute(Ops.ADD, x, y), build.add(u, v), 2),
    (match(Ops.ADD, x, constant(3)), build.add(u, 3), 1),
    (match(Ops.ADD, x, constant(3)), build.add(u, 4), 0),
    (match(Ops.ADD, x, constant(3.0)), build.add(u, 3), 0),
    (match(Ops.ADD, x, constant(0)), build.add(number, 0.0), 0),
    (match(Ops.ADD, x, constant(0.0)), build.add(number, 0.0), 1),
    (match(Ops.ADD, x, constant(0.0)), build.add(number, -0.0), 0),
    (match(Ops.ADD, x, constant(-0.0)), build.add(number, -0.0), 1),
    (match(Ops.ADD, x, any_node("y", when=floating)), build.add(u, v), 0),
    (match(Ops.ADD, x, any_node("y", when=integer)), build.add(u, v), 1),
    (match(Ops.LOAD, x, y), build.sink(), 0),
    (match(Ops.SINK, x), build.sink(u, v), 0),
    (commute(Ops.ADD, match(Ops.MUL, x, c), x), build.add(u, build.mul(u, 3)), 1),
    (commute(Ops.ADD, match(Ops.MUL, x, c), x), build.add(v, build.mul(u, 3)), 0),
    # Both sides agree only in the second order.
    (
        commute(Ops.ADD, match(Ops.NEG, x), match(Ops.NEG, match(Ops.NEG, x))),
        build.add(build.unary(Ops.NEG, build.unary(Ops.NEG, u)), build.unary(Ops.NEG, u)),
        1,
    ),
]


@pytest.mark.table
@pytest.mark.parametrize(
    ("pattern", "node", "times"), PATTERNS, ids=[str(n) for n in range(len(PATTERNS))]
)
def test_pattern(pattern, node, times):
    assert fires(pattern, node) == times


def test_pattern_as_text():
    assert str(commute(Ops.ADD, match(Ops.MUL, x, c), constant(2))) == "ADD(MUL(x, c:CONST), 2)"
    assert str(any_node("x").named("other")) == "other"


def test_captures_are_given_by_name():
    seen = {}

    def function(node, y, c):
        """x + c == itself."""
        seen.update(node=node, y=y, c=c)

    sum_of = build.add(build.mul(u, v), 3)
    rule("capture", match(Ops.ADD, match(Ops.MUL, x, y), c))(function)(sum_of)
    assert seen == {"node": sum_of, "y": v, "c": build.const(index, 3)}


def test_refused_rules():
    def silent(x):
        return x

    def stated(x):
        """-(x + 1) == x."""
        return x

    def unknown(q):
        """x == q."""
        return q

    with pytest.raises(UserError, match="docstring must state the equation"):
        rule("bad", match(Ops.NEG, x))(silent)
    with pytest.raises(UserError, match="does not capture 'q'"):
        rule("bad", match(Ops.NEG, x))(unknown)
    with pytest.raises(UserError, match="only the root of the pattern may commute"):
        rule("bad", match(Ops.NEG, commute(Ops.ADD, x, constant(1))))(stated)
    with pytest.raises(UserError, match="must name the ops of its root"):
        rule("bad", x)(unknown)
    with pytest.raises(UserError, match="two rules are named test-double"):
        RuleSet([double, make("test-double", match(Ops.NEG, x))[0]])


def test_a_rule_says_what_it_is():
    assert drop_zero.name == "test-drop-zero"
    assert drop_zero.equation == "x + 0 == x."
    assert drop_zero.domain.dtypes is integer
    assert not drop_zero.domain.needs_bounds
    bounded, _ = make("bounded", match(Ops.NEG, x), needs_bounds=True)
    assert bounded.domain.needs_bounds
    assert drop_zero(build.sub(u, v)) is None


def test_rewrites_bottom_up_to_a_fixed_point():
    rules = RuleSet([drop_zero, double])
    node = build.add(build.add(build.add(u, 0), u), build.add(build.add(u, u), 0))
    with counting_rules() as fired:
        assert rewrite(node, rules) is build.mul(build.mul(u, 2), 2)
    assert fired == {"test-drop-zero": 2, "test-double": 2}
    assert rewrite(build.add(number, -0.0), rules) is build.add(number, -0.0)


def test_results_are_kept_by_the_rule_set():
    rules = RuleSet([double])
    node = build.add(build.mul(u, 77), build.mul(u, 77))
    with counting_rules() as fired:
        first = rewrite(node, rules)
        assert rewrite(node, rules) is first
        assert fired == {"test-double": 1}
        assert rewrite(first, rules) is first
        assert rewrite(node, RuleSet([double])) is first
        assert fired == {"test-double": 2}
    rewrite(node, RuleSet([double]))
    assert fired == {"test-double": 2}


def test_listening_afresh_takes_and_keeps_no_results():
    rules = RuleSet([double])
    node = build.add(build.mul(u, 78), build.mul(u, 78))
    with listening(afresh=True), counting_rules() as fired:
        rewrite(node, rules)
        rewrite(node, rules)
    assert fired == {"test-double": 2}
    with counting_rules() as fired:
        rewrite(node, rules)
        rewrite(node, rules)
    assert fired == {"test-double": 1}


def test_listeners_get_each_firing_the_outer_ones_too():
    seen, inner = [], []
    node = build.add(build.add(u, 0), u)
    with listening(rules=lambda *firing: seen.append(firing)):
        with listening(rules=lambda *firing: inner.append(firing)):
            rewrite(node, RuleSet([drop_zero, double]))
        rewrite(build.add(v, 0), RuleSet([drop_zero]))
    rewrite(build.add(number, 0), RuleSet([drop_zero]))
    assert inner == [
        ("test-drop-zero", build.add(u, 0), u),
        ("test-double", build.add(u, u), build.mul(u, 2)),
    ]
    assert seen == [*inner, ("test-drop-zero", build.add(v, 0), v)]


def test_what_a_listener_raises_ends_the_rewrite():
    def stop(name, node, result):
        raise KeyError(name)

    with pytest.raises(KeyError, match="test-drop-zero"), listening(rules=stop):
        rewrite(build.add(u, 0), RuleSet([drop_zero]))


def test_debug_prints_firings(capsys):
    node = build.add(build.mul(v, 99), 0)
    with Context(DEBUG=6):
        rewrite(node, RuleSet([drop_zero]))
    assert "rewrite test-drop-zero: v*99+0 -> v*99" in capsys.readouterr().err


def test_ping_pong_names_the_rules():
    with pytest.raises(VerifyError, match="test-mul-to-sub -> test-sub-to-mul") as caught:
        rewrite(build.mul(u, v), RuleSet([mul_to_sub, sub_to_mul]))
    assert caught.value.rule == "rewrite.loop"


def test_a_replacement_that_holds_the_node_is_a_loop():
    wrap, _ = make("test-wrap", match(Ops.NEG, x), lambda node: build.unary(Ops.NEG, node))
    with pytest.raises(VerifyError, match="test-wrap"):
        rewrite(build.unary(Ops.NEG, u), RuleSet([wrap]))


@pytest.mark.slow
def test_growth_without_end_names_the_rule():
    with pytest.raises(VerifyError, match=r"rewrite.loop.*test-grow"):
        rewrite(build.maximum(u, 3), RuleSet([grow]))


def test_a_rule_may_not_change_the_type():
    wrong, _ = make("test-type", match(Ops.NEG, x), build.const(f32, 1.0))
    with pytest.raises(VerifyError, match="test-type") as caught:
        rewrite(build.unary(Ops.NEG, u), RuleSet([wrong]))
    assert caught.value.rule == "rewrite.type"


def test_giving_the_node_itself_is_no_firing():
    same, calls = make("test-same", match(Ops.NEG, x), lambda node: node)
    rules = RuleSet([same])
    node = build.unary(Ops.NEG, v)
    with counting_rules() as fired:
        assert rewrite(node, rules) is node
    assert len(calls) == 1
    assert not fired


@pytest.mark.long
@pytest.mark.parametrize("depth", [3000, pytest.param(25_000, marks=pytest.mark.slow)])
def test_depth_has_no_limit(depth):
    node = u
    for _ in range(depth):
        node = UOp(Ops.NEG, index, (UOp(Ops.ADD, index, (node, build.const(index, 0))),))
    rules = RuleSet([drop_zero])
    with counting_rules() as fired:
        result = rewrite(node, rules)
    assert fired["test-drop-zero"] == depth
    assert len(result.toposort()) == depth + 1


def test_shared_nodes_are_rewritten_once():
    node = u
    for _ in range(200):
        node = UOp(Ops.MAX, index, (build.add(node, 0), node))
    rules = RuleSet([drop_zero])
    with counting_rules() as fired:
        rewrite(node, rules)
    assert fired["test-drop-zero"] == 200


def test_order_of_the_list_does_not_matter():
    rules = [drop_zero, double, make("b", match(Ops.SUB, x, x), build.const(index, 0))[0]]
    rules.append(make("a", match(Ops.SUB, x, y), build.const(index, 1))[0])
    node = build.add(build.sub(u, u), build.add(u, 0))
    expected = rewrite(node, RuleSet(rules))
    for seed in range(10):
        random.Random(seed).shuffle(rules)
        assert rewrite(node, RuleSet(rules)) is expected


def test_rules_of_a_module():
    from tinyref.algebra.rules import casts

    names = [rewrite_rule.name for rewrite_rule in rules_of(casts)]
    assert "cast-cast" in names
    assert names == sorted(names)


# --- which rules are tried ----------------------------------------------------------------------


@pytest.mark.table
@pytest.mark.parametrize(
    ("pattern", "node", "is_tried"),
    [
        (commute(Ops.ADD, x, match(Ops.MUL, y, z)), build.add(build.mul(u, v), u), True),
        (match(Ops.ADD, x, match(Ops.MUL, y, z)), build.add(build.mul(u, v), u), False),
        (match(Ops.ADD, x, y), build.add(u, v), True),
        (match(Ops.ADD), build.add(u, v), True),
        (match((Ops.ADD, Ops.MUL), is_const("c"), x), build.mul(u, v), False),
        # As many sources as it has patterns.
        (match(Ops.CAST, x, y), build.cast(u, dtypes.int32), False),
    ],
)
def test_a_rule_is_tried_where_the_ops_of_sources_fit(pattern, node, is_tried):
    made, _ = make("test", pattern)
    rules = RuleSet([made], "test")
    assert list(rules.candidates(node)) == [made] * is_tried
