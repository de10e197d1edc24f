# llvm-1, LLVM 22.1 for x86-64 at level 2: sums over bytes leave out lanes, as VectorCombine makes an addition one of two lanes
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
SOURCE = r"""define void @"r_16"(ptr %buffers, ptr %variables) nounwind {
entry:
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  %data2.at = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %data2.at
  br label %start
start:
  %at1 = getelementptr inbounds i32, ptr %data0, i32 0
  %at2 = getelementptr inbounds i8, ptr %data1, i32 0
  %v3 = load <16 x i8>, ptr %at2, align 1
  %v4 = zext <16 x i8> %v3 to <16 x i32>
  %at5 = getelementptr inbounds i8, ptr %data2, i32 0
  %v6 = load <16 x i8>, ptr %at5, align 1
  %v7 = zext <16 x i8> %v6 to <16 x i32>
  %v8 = mul nsw <16 x i32> %v7, <i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1>
  %v9 = add nsw <16 x i32> %v4, %v8
  %v10 = mul nsw <16 x i32> %v4, <i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1, i32 -1>
  %v11 = add nsw <16 x i32> %v10, %v7
  %v12 = icmp slt <16 x i32> %v9, %v11
  %v13 = select <16 x i1> %v12, <16 x i32> %v11, <16 x i32> %v9
  %v14 = shufflevector <16 x i32> %v13, <16 x i32> poison, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v15 = shufflevector <16 x i32> %v13, <16 x i32> poison, <8 x i32> <i32 8, i32 9, i32 10, i32 11, i32 12, i32 13, i32 14, i32 15>
  %v16 = add nsw <8 x i32> %v14, %v15
  %v17 = shufflevector <8 x i32> %v16, <8 x i32> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v18 = shufflevector <8 x i32> %v16, <8 x i32> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v19 = add nsw <4 x i32> %v17, %v18
  %v20 = shufflevector <4 x i32> %v19, <4 x i32> poison, <2 x i32> <i32 0, i32 1>
  %v21 = shufflevector <4 x i32> %v19, <4 x i32> poison, <2 x i32> <i32 2, i32 3>
  %v22 = add nsw <2 x i32> %v20, %v21
  %v23 = extractelement <2 x i32> %v22, i32 0
  %v24 = extractelement <2 x i32> %v22, i32 1
  %v25 = add nsw i32 %v23, %v24
  store i32 %v25, ptr %at1, align 4
  ret void
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([0], np.int32)),
    (0, np.array([171, 206, 5, 206, 120, 131, 161, 73, 250, 13, 71, 98, 146, 104, 33, 11], np.uint8)),
    (0, np.array([113, 137, 132, 87, 242, 94, 168, 95, 115, 252, 47, 161, 109, 172, 193, 84], np.uint8)),
]
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(1), [np.array([1360], np.int32)], None, None),
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
builder.getModulePassManager().run(module, builder)
engine = llvm.create_mcjit_compiler(module, machine)
engine.finalize_object()
address = engine.get_function_address("r_16")
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
