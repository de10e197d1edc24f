# naga-1, naga of wgpu 0.32: words as two float16 have the type f32; issue 8896 of gfx-rs/wgpu
# It needs numpy and wgpu. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess
import sys

import numpy as np

if "--child" not in sys.argv:  # A crash and a hang are answers, too.
    try:
        code = subprocess.run([sys.executable, __file__, "--child"], timeout=60).returncode
    except subprocess.TimeoutExpired:
        code = "no end within 60 s"
    if code not in (0, 1, 2):
        print(f"wrong: {code}")
    sys.exit(code if code in (0, 2) else 1)

SOURCE = r"""enable f16;
@group(0) @binding(0) var<storage, read_write> a: array<u32>;
@compute @workgroup_size(1)
fn k() {
  let h: vec2<f16> = bitcast<vec2<f16>>(a[0]);
  a[0] = bitcast<u32>(h);
}
"""
arrays = [  # The byte at which each begins, and its elements.
    (0, np.array([1073757184], np.uint32)),
]
checks = [  # An array, its elements, values that are right, the least and the largest right value.
    (0, slice(1), [np.array([1073757184], np.uint32)], None, None),
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]

try:
    import wgpu

    adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if "" in a.summary]
except Exception as error:
    adapters = print(error)
adapters = [a for a in adapters or () if a.info["backend_type"] in ("Vulkan", "Metal", "D3D12")]
if not adapters:
    print("no adapter of", "")
    sys.exit(2)
features = {"shader-f16", "shader-int64", "shader-f64"} & set(adapters[0].features)
limits = dict(adapters[0].limits)
device = adapters[0].request_device_sync(required_features=list(features), required_limits=limits)
module = device.create_shader_module(code=SOURCE)
entries, bound = [], []
for number, (part, kind) in enumerate(zip(memory, ["storage"])):
    data = np.pad(part, (0, max(16, part.size + -part.size % 4) - part.size)).tobytes()
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffer = device.create_buffer_with_data(data=data, usage=usage)
    entries.append({"binding": number, "visibility": 4, "buffer": {"type": kind}})
    bound.append({"binding": number, "resource": {"buffer": buffer}})
layout = device.create_bind_group_layout(entries=entries)
pipeline = device.create_compute_pipeline(
    layout=device.create_pipeline_layout(bind_group_layouts=[layout]),
    compute={"module": module, "entry_point": "k"},
)
encoder = device.create_command_encoder()
work = encoder.begin_compute_pass()
work.set_pipeline(pipeline)
work.set_bind_group(0, device.create_bind_group(layout=layout, entries=bound))
work.dispatch_workgroups(*(1, 1, 1))
work.end()
device.queue.submit([encoder.finish()])
for part, item in zip(memory, bound):
    data = device.queue.read_buffer(item["resource"]["buffer"])
    part[:] = np.frombuffer(data, np.uint8)[: part.size]

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
print("wrong" if wrong else "right")
sys.exit(1 if wrong else 0)
