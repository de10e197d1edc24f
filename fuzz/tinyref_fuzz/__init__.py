"""The fuzzer: a case on its way goes through these rooms, each of which imports those before it.

`generate/` draws a case from a tape of choices; `judge/` compares its values and gives a verdict;
`reduce/` makes it small; `blame/` names the part of the compiler; `findings/` puts these together
and shows them; `campaign/` does so with many cases; `faults/` scores all of it. The case itself,
its verdict, its blame and its file are of `tinyref_spec.kernel_case`.
"""
