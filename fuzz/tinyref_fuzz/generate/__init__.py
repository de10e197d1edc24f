"""Draw kernel cases: valid by construction, with data on which the results are defined.

The input is a tape of choices, the capabilities of a device and a policy. The output is a
`KernelCase` of `tinyref_spec.kernel_case`: a kernel AST, the contents of buffers, lists of
optimisations, and sometimes an equivalent kernel.

`generate.py` draws a case. `tape.py` holds the choices, which `policies.py` weighs. `kernel.py`,
`expressions.py`, `forms.py`, `several.py` and `outputs.py` build kernels, and `optimisations.py`
draws lists of optimisations. `equivalent/` transforms kernels, and `mutate.py` changes the kernels
of programs, which `corpus/` stores.
"""
