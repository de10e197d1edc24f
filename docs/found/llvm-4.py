# llvm-4, LLVM 22.1 at level 2: the compiler does not end where the items of a group store the same; vputils::isUniformAcrossVFsAndUFs
# It needs numpy and llvmlite. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess
import sys

import numpy as np

if "--child" not in sys.argv:  # A crash and a hang are answers, too.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit({0: 0, 2: 2}.get(done.returncode, 1))
SOURCE = r"""@"e_4.info" = constant [937 x i8] c"{\22memories\22: [{\22name\22: \22data0\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: true, \22offset\22: null}, {\22name\22: \22data1\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: true, \22offset\22: null}, {\22name\22: \22data2\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: true, \22offset\22: null}, {\22name\22: \22data3\22, \22elements\22: 6, \22itemsize\22: 8, \22is_written\22: false, \22offset\22: null}, {\22name\22: \22data4\22, \22elements\22: 12, \22itemsize\22: 8, \22is_written\22: false, \22offset\22: null}, {\22name\22: \22data5\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: false, \22offset\22: null}, {\22name\22: \22data6\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: false, \22offset\22: null}, {\22name\22: \22data7\22, \22elements\22: 4, \22itemsize\22: 2, \22is_written\22: false, \22offset\22: null}, {\22name\22: \22data8\22, \22elements\22: 1, \22itemsize\22: 8, \22is_written\22: false, \22offset\22: null}, {\22name\22: \22data9\22, \22elements\22: 4, \22itemsize\22: 4, \22is_written\22: false, \22offset\22: null}], \22accesses\22: [], \22barriers\22: 0, \22tiles\22: 0, \22exchange_bytes\22: 0}\00"
define void @"e_4"(ptr %launch) nounwind {
entry:
  %buffers.at = getelementptr i64, ptr %launch, i64 0
  %buffers = load ptr, ptr %buffers.at
  %variables.at = getelementptr i64, ptr %launch, i64 1
  %variables = load ptr, ptr %variables.at
  %shared.at = getelementptr i64, ptr %launch, i64 2
  %shared = load ptr, ptr %shared.at
  %group0.i64.at = getelementptr i64, ptr %launch, i64 9
  %group0.i64 = load i64, ptr %group0.i64.at
  %group0 = trunc i64 %group0.i64 to i32
  %reverse.i64.at = getelementptr i64, ptr %launch, i64 12
  %reverse.i64 = load i64, ptr %reverse.i64.at
  %item.at = getelementptr i64, ptr %launch, i64 13
  %reverse = trunc i64 %reverse.i64 to i32
  %twice = mul i32 %reverse, 2
  %step = sub i32 1, %twice
  %items0.i64.at = getelementptr i64, ptr %launch, i64 6
  %items0.i64 = load i64, ptr %items0.i64.at
  %items0 = trunc i64 %items0.i64 to i32
  %last0 = sub i32 %items0, 1
  %first0 = mul i32 %reverse, %last0
  %items1.i64.at = getelementptr i64, ptr %launch, i64 7
  %items1.i64 = load i64, ptr %items1.i64.at
  %items1 = trunc i64 %items1.i64 to i32
  %last1 = sub i32 %items1, 1
  %first1 = mul i32 %reverse, %last1
  %items2.i64.at = getelementptr i64, ptr %launch, i64 8
  %items2.i64 = load i64, ptr %items2.i64.at
  %items2 = trunc i64 %items2.i64 to i32
  %last2 = sub i32 %items2, 1
  %first2 = mul i32 %reverse, %last2
  %data0.at = getelementptr ptr, ptr %buffers, i64 0
  %data0 = load ptr, ptr %data0.at
  %data1.at = getelementptr ptr, ptr %buffers, i64 1
  %data1 = load ptr, ptr %data1.at
  %data2.at = getelementptr ptr, ptr %buffers, i64 2
  %data2 = load ptr, ptr %data2.at
  %data3.at = getelementptr ptr, ptr %buffers, i64 3
  %data3 = load ptr, ptr %data3.at
  %data4.at = getelementptr ptr, ptr %buffers, i64 4
  %data4 = load ptr, ptr %data4.at
  %data5.at = getelementptr ptr, ptr %buffers, i64 5
  %data5 = load ptr, ptr %data5.at
  %data6.at = getelementptr ptr, ptr %buffers, i64 6
  %data6 = load ptr, ptr %data6.at
  %data7.at = getelementptr ptr, ptr %buffers, i64 7
  %data7 = load ptr, ptr %data7.at
  %data8.at = getelementptr ptr, ptr %buffers, i64 8
  %data8 = load ptr, ptr %data8.at
  %data9.at = getelementptr ptr, ptr %buffers, i64 9
  %data9 = load ptr, ptr %data9.at
  br label %loop2
loop2:
  %count2 = phi i32 [ 0, %entry ], [ %count2.next, %next2 ]
  %walked2 = mul i32 %count2, %step
  %item2 = add i32 %first2, %walked2
  br label %loop1
loop1:
  %count1 = phi i32 [ 0, %loop2 ], [ %count1.next, %next1 ]
  %walked1 = mul i32 %count1, %step
  %item1 = add i32 %first1, %walked1
  br label %loop0
loop0:
  %count0 = phi i32 [ 0, %loop1 ], [ %count0.next, %next0 ]
  %walked0 = mul i32 %count0, %step
  %item0 = add i32 %first0, %walked0
  br label %start
start:
  %v1 = mul nsw i32 %group0, -1
  %v2 = add nsw i32 %v1, 3
  %at3 = getelementptr inbounds i32, ptr %data0, i32 %v2
  %v4 = add nsw i32 %group0, 2
  %at5 = getelementptr inbounds i64, ptr %data3, i32 %group0
  %at6 = getelementptr inbounds i64, ptr %at5, i32 2
  %v7 = load i64, ptr %at6, align 8
  %v8 = mul nsw i32 %group0, 3
  %v9 = add nsw i32 %v8, 1
  %v10 = srem i32 %v9, 2
  %v11 = sext i32 %v10 to i64
  %v12 = mul i64 %v7, %v11
  %v13 = and i64 32, 63
  %v14 = lshr i64 %v12, %v13
  %v15 = trunc i64 %v14 to i32
  %v16 = add nsw i32 %v8, 2
  %at17 = getelementptr inbounds i64, ptr %data4, i32 %v8
  %at18 = getelementptr inbounds i64, ptr %at17, i32 2
  %v19 = load i64, ptr %at18, align 8
  %v20 = and i64 32, 63
  %v21 = lshr i64 %v19, %v20
  %v22 = trunc i64 %v21 to i32
  %v23 = add i32 %v15, %v22
  %v24 = and i32 13, 31
  %v25 = shl i32 %v23, %v24
  %v26 = and i32 19, 31
  %v27 = lshr i32 %v23, %v26
  %v28 = or i32 %v25, %v27
  %v29 = trunc i64 %v12 to i32
  %v30 = trunc i64 %v19 to i32
  %v31 = add i32 %v29, %v30
  %v32 = add i32 %v31, %v23
  %v33 = xor i32 %v28, %v32
  %v34 = and i32 15, 31
  %v35 = shl i32 %v33, %v34
  %v36 = and i32 17, 31
  %v37 = lshr i32 %v33, %v36
  %v38 = or i32 %v35, %v37
  %v39 = add i32 %v32, %v33
  %v40 = xor i32 %v38, %v39
  %v41 = and i32 26, 31
  %v42 = shl i32 %v40, %v41
  %v43 = and i32 6, 31
  %v44 = lshr i32 %v40, %v43
  %v45 = or i32 %v42, %v44
  %v46 = add i32 %v39, %v40
  %v47 = xor i32 %v45, %v46
  %v48 = and i32 6, 31
  %v49 = shl i32 %v47, %v48
  %v50 = and i32 26, 31
  %v51 = lshr i32 %v47, %v50
  %v52 = or i32 %v49, %v51
  %v53 = add i32 %v46, %v47
  %v54 = xor i32 %v52, %v53
  %v55 = xor i32 %v30, %v22
  %v56 = xor i32 %v55, 466688986
  %v57 = add i32 %v54, %v56
  %v58 = add i32 %v57, 1
  %v59 = and i32 17, 31
  %v60 = shl i32 %v58, %v59
  %v61 = and i32 15, 31
  %v62 = lshr i32 %v58, %v61
  %v63 = or i32 %v60, %v62
  %v64 = add i32 %v53, %v22
  %v65 = add i32 %v64, %v58
  %v66 = xor i32 %v63, %v65
  %v67 = and i32 29, 31
  %v68 = shl i32 %v66, %v67
  %v69 = and i32 3, 31
  %v70 = lshr i32 %v66, %v69
  %v71 = or i32 %v68, %v70
  %v72 = add i32 %v65, %v66
  %v73 = xor i32 %v71, %v72
  %v74 = and i32 16, 31
  %v75 = shl i32 %v73, %v74
  %v76 = and i32 16, 31
  %v77 = lshr i32 %v73, %v76
  %v78 = or i32 %v75, %v77
  %v79 = add i32 %v72, %v73
  %v80 = xor i32 %v78, %v79
  %v81 = and i32 24, 31
  %v82 = shl i32 %v80, %v81
  %v83 = and i32 8, 31
  %v84 = lshr i32 %v80, %v83
  %v85 = or i32 %v82, %v84
  %v86 = add i32 %v79, %v80
  %v87 = xor i32 %v85, %v86
  %v88 = add i32 %v87, %v30
  %v89 = add i32 %v88, 2
  %v90 = and i32 13, 31
  %v91 = shl i32 %v89, %v90
  %v92 = and i32 19, 31
  %v93 = lshr i32 %v89, %v92
  %v94 = or i32 %v91, %v93
  %v95 = add i32 %v86, %v56
  %v96 = add i32 %v95, %v89
  %v97 = xor i32 %v94, %v96
  %v98 = and i32 15, 31
  %v99 = shl i32 %v97, %v98
  %v100 = and i32 17, 31
  %v101 = lshr i32 %v97, %v100
  %v102 = or i32 %v99, %v101
  %v103 = add i32 %v96, %v97
  %v104 = xor i32 %v102, %v103
  %v105 = and i32 26, 31
  %v106 = shl i32 %v104, %v105
  %v107 = and i32 6, 31
  %v108 = lshr i32 %v104, %v107
  %v109 = or i32 %v106, %v108
  %v110 = add i32 %v103, %v104
  %v111 = xor i32 %v109, %v110
  %v112 = and i32 6, 31
  %v113 = shl i32 %v111, %v112
  %v114 = and i32 26, 31
  %v115 = lshr i32 %v111, %v114
  %v116 = or i32 %v113, %v115
  %v117 = add i32 %v110, %v111
  %v118 = xor i32 %v116, %v117
  %v119 = add i32 %v118, %v22
  %v120 = add i32 %v119, 3
  %v121 = and i32 17, 31
  %v122 = shl i32 %v120, %v121
  %v123 = and i32 15, 31
  %v124 = lshr i32 %v120, %v123
  %v125 = or i32 %v122, %v124
  %v126 = add i32 %v117, %v30
  %v127 = add i32 %v126, %v120
  %v128 = xor i32 %v125, %v127
  %v129 = and i32 29, 31
  %v130 = shl i32 %v128, %v129
  %v131 = and i32 3, 31
  %v132 = lshr i32 %v128, %v131
  %v133 = or i32 %v130, %v132
  %v134 = add i32 %v127, %v128
  %v135 = xor i32 %v133, %v134
  %v136 = and i32 16, 31
  %v137 = shl i32 %v135, %v136
  %v138 = and i32 16, 31
  %v139 = lshr i32 %v135, %v138
  %v140 = or i32 %v137, %v139
  %v141 = add i32 %v134, %v135
  %v142 = xor i32 %v140, %v141
  %v143 = and i32 24, 31
  %v144 = shl i32 %v142, %v143
  %v145 = and i32 8, 31
  %v146 = lshr i32 %v142, %v145
  %v147 = or i32 %v144, %v146
  %v148 = add i32 %v141, %v142
  %v149 = xor i32 %v147, %v148
  %v150 = add i32 %v149, %v56
  %v151 = add i32 %v150, 4
  %v152 = and i32 13, 31
  %v153 = shl i32 %v151, %v152
  %v154 = and i32 19, 31
  %v155 = lshr i32 %v151, %v154
  %v156 = or i32 %v153, %v155
  %v157 = add i32 %v148, %v22
  %v158 = add i32 %v157, %v151
  %v159 = xor i32 %v156, %v158
  %v160 = and i32 15, 31
  %v161 = shl i32 %v159, %v160
  %v162 = and i32 17, 31
  %v163 = lshr i32 %v159, %v162
  %v164 = or i32 %v161, %v163
  %v165 = add i32 %v158, %v159
  %v166 = xor i32 %v164, %v165
  %v167 = and i32 26, 31
  %v168 = shl i32 %v166, %v167
  %v169 = and i32 6, 31
  %v170 = lshr i32 %v166, %v169
  %v171 = or i32 %v168, %v170
  %v172 = add i32 %v165, %v166
  %v173 = xor i32 %v171, %v172
  %v174 = and i32 6, 31
  %v175 = shl i32 %v173, %v174
  %v176 = and i32 26, 31
  %v177 = lshr i32 %v173, %v176
  %v178 = or i32 %v175, %v177
  %v179 = add i32 %v172, %v173
  %v180 = xor i32 %v178, %v179
  %v181 = add i32 %v180, %v30
  %v182 = add i32 %v181, 5
  %v183 = zext i32 %v182 to i64
  %v184 = and i64 32, 63
  %v185 = shl i64 %v183, %v184
  %v186 = add i32 %v179, %v56
  %v187 = zext i32 %v186 to i64
  %v188 = or i64 %v185, %v187
  %v189 = trunc i64 %v188 to i32
  %at190 = getelementptr inbounds i32, ptr %data5, i32 %group0
  %v191 = load i32, ptr %at190, align 4
  %v192 = mul i32 %v191, %v189
  %at193 = getelementptr inbounds i16, ptr %data7, i32 %group0
  %v194 = load i16, ptr %at193, align 2
  %v195 = and i16 %v194, 1
  %v196 = add nsw i16 %v195, 3
  %v197 = sext i16 %v196 to i32
  %v198 = add i32 %v192, %v197
  %v199 = add i32 %v198, 1
  %v200 = zext i32 %v199 to i64
  %at201 = getelementptr inbounds i64, ptr %data8, i32 0
  %v202 = load i64, ptr %at201, align 8
  %v203 = and i64 %v200, %v202
  %v204 = trunc i64 %v203 to i32
  store i32 %v204, ptr %at3, align 4
  %at205 = getelementptr inbounds i32, ptr %data1, i32 %group0
  %v206 = add nsw i32 %group0, 1
  %at207 = getelementptr inbounds i32, ptr %data9, i32 %group0
  %at208 = getelementptr inbounds i32, ptr %at207, i32 1
  %v209 = icmp slt i32 %group0, 3
  %v210 = icmp slt i32 %group0, 1
  %v211 = icmp ne i1 %v210, true
  %v212 = and i1 %v209, %v211
  br i1 %v212, label %load213.do, label %load213.end
load213.do:
  %v214 = load i32, ptr %at208, align 4
  br label %load213.end
load213.end:
  %v215 = phi i32 [ %v214, %load213.do ], [ 0, %start ]
  store i32 %v215, ptr %at205, align 4
  %at216 = getelementptr inbounds i32, ptr %data2, i32 %group0
  %at217 = getelementptr inbounds i32, ptr %data6, i32 %group0
  %v218 = load i32, ptr %at217, align 4
  store i32 %v218, ptr %at216, align 4
  br label %next0
next0:
  %count0.next = add nuw nsw i32 %count0, 1
  %more0 = icmp slt i32 %count0.next, %items0
  br i1 %more0, label %loop0, label %next1
next1:
  %count1.next = add nuw nsw i32 %count1, 1
  %more1 = icmp slt i32 %count1.next, %items1
  br i1 %more1, label %loop1, label %next2
next2:
  %count2.next = add nuw nsw i32 %count2, 1
  %more2 = icmp slt i32 %count2.next, %items2
  br i1 %more2, label %loop2, label %done
done:
  ret void
}
"""
arrays = [  # The byte at which each begins, and its elements.
]
checks = [  # An array, its elements, values that are right, the least and the largest right value.
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
try:
    import ctypes

    import llvmlite.binding as llvm
except ImportError as error:
    print(error)
    sys.exit(2)
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
machine.emit_object(module)

wrong = 0
for number, places, values, low, high in checks:
    at, array = arrays[number]
    got = memory[number][at : at + array.nbytes].view(values[0].dtype)[places]
    bits = f"u{got.itemsize}"
    good = low is not None and (low <= got) & (got <= high)
    for value in values:
        good = good | (got.view(bits) == value.view(bits)) | (got != got) & (value != value)
    print(f"array {number}: expected {values[0]}, got {got}")
    wrong += np.count_nonzero(~good)
sys.exit("wrong" if wrong else print("right"))
