# mlx-5, MLX 0.32.4: the sum of a transposed slice without elements does not end, on a CPU.
# It needs mlx and numpy. Exit code: 1 while it is wrong, 0 when it is right, 2 where it cannot run.
import subprocess, sys
code = """import mlx.core as mx, numpy as np
mx.set_default_device(mx.cpu)
x = mx.arange(24.0).reshape(4, 6)[::2, 2:2]
print(np.array(mx.sum(x.T, axis=0)).tolist())"""
print("expected [0.0, 0.0]")
try:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
except subprocess.CalledProcessError:
    sys.exit(print("It needs mlx and numpy") or 2)
except subprocess.TimeoutExpired:
    sys.exit(print("wrong: no end within 60 seconds") or 1)
