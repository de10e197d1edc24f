"""Cases by the number: kernels that are valid by construction, with data on which they are defined.

In: a tape of choices, the capabilities of a device, a policy. Out: a `Case` of
`tinyref_spec.kernel_case`: kernel AST, contents of buffers, lists of optimisations, and now and
then a kernel that must compute the same.

`generate.py` draws a case: `policies.py` weighs the choices of the `tape.py`; `kernel.py`,
`expressions.py`, `forms.py`, `several.py` and `outputs.py` build kernels; `optimisations.py` draws
lists; `equivalent/` transforms kernels; `mutate.py` changes those of programs, in `corpus/`.
"""
