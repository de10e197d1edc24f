"""Proofs of the rewrite rules: every rule's equation as a law for all values, and its prover.

`law` is the table's format and `laws` the table; `semantics` gives ops their terms for the SMT
solver z3, `prover` proves laws with it, `conformance` checks that each rule does what its laws
say, `float_laws` checks the float rules in float16, `ranges` the value-range rules. `record` keeps
what was proved; `python -m tinyref_spec.proofs` proves everything and writes it. Only `semantics`,
`prover`, `conformance` and `ranges` need z3, which the extra `test` installs.
"""
