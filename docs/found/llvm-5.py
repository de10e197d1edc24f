# llvm-5, LLVM 22.1 for x86-64 at level 0: a vector of scaled numbers is not halved
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
  %out = load ptr, ptr %buffers
  %second = getelementptr ptr, ptr %buffers, i64 1
  %in = load ptr, ptr %second
  %a = load <2 x i64>, ptr %in, align 8
  %b = and <2 x i64> %a, <i64 2, i64 2>
  %c = add <2 x i64> %b, <i64 4, i64 4>
  %d = mul <2 x i64> %c, <i64 -8, i64 -8>
  %e = sdiv <2 x i64> %d, <i64 2, i64 2>
  store <2 x i64> %e, ptr %out, align 8
  ret void
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.full(2, [0], np.int64)),
    (0, np.full(2, [0], np.int64)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(2), [np.full(2, [-16], np.int64)], None, None),
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
if "--print" in sys.argv:  # For opt -O0 and llc: python THIS_FILE --child --print
    print(SOURCE)
    sys.exit()
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
    cpu=llvm.get_host_cpu_name(),
    features=llvm.get_host_cpu_features().flatten(),
    opt=0,
    jit=True,
)
module = llvm.parse_assembly(SOURCE)
module.triple, module.data_layout = machine.triple, str(machine.target_data)
tuning = llvm.create_pipeline_tuning_options(speed_level=0)
builder = llvm.create_pass_builder(machine, tuning)
builder.getModulePassManager().run(module, builder)
engine = llvm.create_mcjit_compiler(module, machine)
engine.finalize_object()
address = engine.get_function_address("k")
kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
starts = [part.ctypes.data + at for part, (at, _) in zip(memory, arrays)]
for group in range(1):
    values = [*[], group]
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
