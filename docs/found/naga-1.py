# naga-1, naga of wgpu 0.32: words as two float16 have the type f32; issue 8896 of gfx-rs/wgpu
# It needs numpy and wgpu. Exit code: 1 while it is wrong, 0 when right, 2 where it cannot run.
import subprocess, sys
if "--child" not in sys.argv:  # A crash and a hang count as wrong.
    done = subprocess.run([sys.executable, __file__, "--child"], timeout=60)
    sys.exit(done.returncode if done.returncode in (0, 2) else 1)
try:
    import numpy as np
    import wgpu
except ImportError as error:
    sys.exit(print(f"{error}. It needs numpy and wgpu") or 2)
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
checks = [  # Array, elements, all right values; or the lowest and the highest right value.
    (0, slice(1), [np.array([1073757184], np.uint32)], None, None),
]
memory = [np.concatenate([np.zeros(at, np.uint8), x.view(np.uint8)]) for at, x in arrays]
adapters = [a for a in wgpu.gpu.enumerate_adapters_sync() if '' in a.summary]
adapters = [a for a in adapters if a.info["backend_type"] in ("Vulkan", "Metal", "D3D12")]
if not adapters:
    sys.exit(print("no adapter of", '') or 2)
adapter = adapters[0]
features = [name for name in adapter.features if name in ("shader-f16", "shader-int64", "shader-f64")]
device = adapter.request_device_sync(required_features=features, required_limits=adapter.limits)
module = device.create_shader_module(code=SOURCE)
usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
entries, bound = [], []
for number, (part, kind) in enumerate(zip(memory, ['storage'])):
    data = np.pad(part, (0, max(16, part.size + -part.size % 4) - part.size)).tobytes()
    buffer = device.create_buffer_with_data(data=data, usage=usage)
    entries.append({"binding": number, "visibility": 4, "buffer": {"type": kind}})
    bound.append({"binding": number, "resource": {"buffer": buffer}})
group = device.create_bind_group_layout(entries=entries)
layout = device.create_pipeline_layout(bind_group_layouts=[group])
stage = {"module": module, "entry_point": "k"}
encoder = device.create_command_encoder()
work = encoder.begin_compute_pass()
work.set_pipeline(device.create_compute_pipeline(layout=layout, compute=stage))
work.set_bind_group(0, device.create_bind_group(layout=group, entries=bound))
work.dispatch_workgroups(1, 1, 1)
work.end()
device.queue.submit([encoder.finish()])
for part, item in zip(memory, bound):
    data = device.queue.read_buffer(item["resource"]["buffer"])
    part[:] = np.frombuffer(data, np.uint8)[: part.size]
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
