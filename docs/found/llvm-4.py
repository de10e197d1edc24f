# llvm-4, LLVM 22.1 at level 2: the compiler does not end where all iterations of a loop store the same; vputils::isUniformAcrossVFsAndUFs
# It needs numpy and llvmlite. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess, sys
if "--child" not in sys.argv:  # A crash and a hang count as wrong.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit(done.returncode if done.returncode in (0, 2) else 1)
try:
    import numpy as np
    import ctypes, llvmlite.binding as llvm
except ImportError as error:
    sys.exit(print(f"{error}. It needs numpy and llvmlite") or 2)
SOURCE = r"""define void @k(ptr %buffers, ptr %variables) {
entry:
  %out = load ptr, ptr %buffers
  %second = getelementptr ptr, ptr %buffers, i64 1
  %in = load ptr, ptr %second
  %count.at = getelementptr i32, ptr %variables, i64 0
  %count = load i32, ptr %count.at
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %i.next, %loop ]
  %p0 = load i32, ptr %in
  %p1 = mul i32 %p0, %p0
  %p2 = mul i32 %p1, %p1
  %p3 = mul i32 %p2, %p2
  %p4 = mul i32 %p3, %p3
  %p5 = mul i32 %p4, %p4
  %p6 = mul i32 %p5, %p5
  %p7 = mul i32 %p6, %p6
  %p8 = mul i32 %p7, %p7
  %p9 = mul i32 %p8, %p8
  %p10 = mul i32 %p9, %p9
  %p11 = mul i32 %p10, %p10
  %p12 = mul i32 %p11, %p11
  %p13 = mul i32 %p12, %p12
  %p14 = mul i32 %p13, %p13
  %p15 = mul i32 %p14, %p14
  %p16 = mul i32 %p15, %p15
  %p17 = mul i32 %p16, %p16
  %p18 = mul i32 %p17, %p17
  %p19 = mul i32 %p18, %p18
  %p20 = mul i32 %p19, %p19
  %p21 = mul i32 %p20, %p20
  %p22 = mul i32 %p21, %p21
  %p23 = mul i32 %p22, %p22
  %p24 = mul i32 %p23, %p23
  %p25 = mul i32 %p24, %p24
  %p26 = mul i32 %p25, %p25
  %p27 = mul i32 %p26, %p26
  %p28 = mul i32 %p27, %p27
  %p29 = mul i32 %p28, %p28
  %p30 = mul i32 %p29, %p29
  %p31 = mul i32 %p30, %p30
  %p32 = mul i32 %p31, %p31
  store i32 %p32, ptr %out
  %i.next = add i32 %i, 1
  %is_more_left = icmp ult i32 %i.next, %count
  br i1 %is_more_left, label %loop, label %exit
exit:
  ret void
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([0], np.uint32)),
    (0, np.array([1], np.uint32)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(1), [np.array([1], np.uint32)], None, None),
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
if "--print" in sys.argv:  # For opt -O2 and llc: python THIS_FILE --child --print
    print(SOURCE)
    sys.exit()
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
    cpu=llvm.get_host_cpu_name(),
    features=llvm.get_host_cpu_features().flatten(),
    opt=2,
    jit=True,
)
module = llvm.parse_assembly(SOURCE)
module.triple, module.data_layout = machine.triple, str(machine.target_data)
tuning = llvm.create_pipeline_tuning_options(speed_level=2)
builder = llvm.create_pass_builder(machine, tuning)
for option in []:
    llvm.set_option("", option)
builder.getModulePassManager().run(module, builder)
engine = llvm.create_mcjit_compiler(module, machine)
engine.finalize_object()
address = engine.get_function_address("k")
kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
starts = [part.ctypes.data + at for part, (at, _) in zip(memory, arrays)]
for group in range((1, 1, 1)[0]):
    values = [*[8], group]
    kernel((ctypes.c_void_p * len(starts))(*starts), (ctypes.c_int32 * len(values))(*values))
wrong = 0
for number, elements, values, low, high in checks:
    at, array = arrays[number]
    got = memory[number][at : at + array.nbytes].view(values[0].dtype)[elements]
    bits = f"u{got.itemsize}"
    good = low is not None and (low <= got) & (got <= high)
    for value in values:
        good = good | (got.view(bits) == value.view(bits)) | (got != got) & (value != value)
    print(f"array {number}: expected {values[0]}, got {got}")
    wrong += np.count_nonzero(~good)
print("wrong" if wrong else "right")
sys.exit(1 if wrong else 0)
