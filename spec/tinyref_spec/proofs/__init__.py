"""Proofs of the rewrite rules: every rule's equation as a law for all values, and its prover.

`patterns` derives the law of a rule from its pattern and function. `law` is the format of other
laws, and `laws` their table. `semantics` gives ops their terms for the SMT solver z3, and `prover`
proves laws with it. `conformance` fires rules on instances of their laws, and `floats` checks float
rules in float16. `record` stores what was proved; `python -m tinyref_spec.proofs` proves everything
and writes it. Only `semantics`, `prover` and `conformance` need z3, from the extra `test`.
"""
