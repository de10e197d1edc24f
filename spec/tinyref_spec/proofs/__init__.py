"""Proofs of the rewrite rules: every rule's equation as a law for all values, and its prover.

`patterns` reads the law of a rule off its pattern and function; `law` is the format of the laws of
other rules and `laws` their table. `semantics` gives ops their terms for the SMT solver z3,
`prover` proves laws with it, `conformance` fires rules on instances of their laws, `floats` checks
float rules in float16. `record` keeps what was proved; `python -m tinyref_spec.proofs` proves
everything and writes it. Only `semantics`, `prover` and `conformance` need z3, which the extra
`test` installs.
"""
