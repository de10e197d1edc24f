"""The fuzzer, in folders along the path of a case; each imports only those before it.

`generate/` draws a case from a tape of choices, and `judge/` compares its values. `reduce/` makes
it small, and `blame/` names the part of the compiler. `findings/` combines and prints these,
`campaign/` runs many cases, and `faults/` scores the fuzzer. The case, its verdict, its blame and
its file are defined in `tinyref_spec.kernel_case`.
"""
