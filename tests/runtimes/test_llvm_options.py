"""How LLVM is asked to make the kernels of the CPU device."""

import llvmlite.binding as llvm

from tinyref import Tensor
from tinyref.runtimes.host import cpu


def test_others_who_use_llvm_find_its_options_as_they_were() -> None:
    # Loop strength reduction steps a pointer where the text multiplies an index.
    text = """
    define void @scaled(ptr noalias %a, ptr noalias %b, i64 %n, i64 %m) {
    entry:
      br label %loop
    loop:
      %i = phi i64 [0, %entry], [%next, %loop]
      %k = mul i64 %i, %m
      %p = getelementptr float, ptr %a, i64 %k
      %q = getelementptr float, ptr %b, i64 %k
      %v = load float, ptr %p
      store float %v, ptr %q
      %next = add i64 %i, 1
      %more = icmp ult i64 %next, %n
      br i1 %more, label %loop, label %end
    end:
      ret void
    }"""
    machine = cpu._target_machine(1)

    def assembly() -> str:
        found: str = machine.emit_assembly(llvm.parse_assembly(text))
        return found

    before = assembly()
    with cpu._fast_emission():
        assert assembly() != before
    assert assembly() == before
    (Tensor([1.0, 2.0], device="CPU") * 3).realize()
    assert assembly() == before
