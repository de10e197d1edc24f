"""Compiler mutants: small edits, each like a bug that real compilers had, to score the fuzzer by.

Nothing here is imported by a normal run. A mutant is switched on by name, before the compiler is
imported, in a process of its own: see `mutant.switch_on`.
"""
