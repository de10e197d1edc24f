"""Plan a large network for image diffusion without memory, and train a small one.

The network is a U-Net (Ronneberger and others, 2015) that removes noise (Ho and others, 2020). Its
blocks are group norm, SiLU and convolution, and take the time step as an input.
`python examples/diffusion.py` counts the weights, kernels and operations of one step of the large
network on the device NULL, which computes nothing. Then it trains the small network.
"""

from __future__ import annotations

import math

from tinyref import GlobalCounters, Tensor, TinyJit, nn


class Block:
    """Residual block: two convolutions with norms, which take the time step as an input."""

    def __init__(self, channels: int, out: int, times: int) -> None:
        groups = math.gcd(32, channels), math.gcd(32, out)
        self.norms = [nn.GroupNorm(groups[0], channels), nn.GroupNorm(groups[1], out)]
        self.first = nn.Conv2d(channels, out, 3, padding=1)
        self.second = nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(times, out)
        self.skip = nn.Conv2d(channels, out, 1)

    def __call__(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(self.norms[0](x).silu())
        y = y + self.time(time.silu()).reshape(x.shape[0], -1, 1, 1)
        return self.skip(x) + self.second(self.norms[1](y).silu())


class UNet:
    """Blocks that halve the image, then blocks that enlarge it, with skip connections."""

    def __init__(self, channels: int, widths: tuple[int, ...]) -> None:
        self.times = 4 * widths[0]
        self.width = widths[0]
        self.embed = nn.Linear(widths[0], self.times)
        self.enter = nn.Conv2d(channels, widths[0], 3, padding=1)
        pairs = list(zip((widths[0], *widths), widths, strict=False))
        self.down = [Block(a, b, self.times) for a, b in pairs]
        self.shrink = [nn.Conv2d(b, b, 3, stride=2, padding=1) for _, b in pairs]
        self.middle = Block(widths[-1], widths[-1], self.times)
        self.up = [Block(2 * b, a, self.times) for a, b in reversed(pairs)]
        self.leave = nn.Conv2d(widths[0], channels, 3, padding=1)

    def __call__(self, x: Tensor, time: Tensor) -> Tensor:
        speeds = (Tensor.arange(self.width // 2, device=x.device) * (-8 / self.width)).exp()
        angles = time.reshape(-1, 1) * speeds
        embedding = self.embed(angles.sin().cat(angles.cos(), dim=1))
        x, skipped = self.enter(x), []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            skipped.append(block(x, embedding))
            x = shrink(skipped[-1])
        x = self.middle(x, embedding)
        for block in self.up:
            side = skipped.pop()
            x = x.interpolate(side.shape[2:], mode="nearest")
            x = block(x.cat(side, dim=1), embedding)
        return self.leave(x)


def plan() -> None:
    """Plan one step of a network with more than a hundred million weights, on no device."""
    network = UNet(4, (320, 640, 1280))
    weights = nn.state.get_parameters(network)
    for weight in weights:
        weight.to_("NULL")
    latents = Tensor.empty(1, 4, 64, 64, device="NULL")
    launched, operations = GlobalCounters.kernel_count, GlobalCounters.global_ops
    network(latents, Tensor.full((1,), 500.0, device="NULL")).realize()
    print(f"{sum(weight.numel() for weight in weights) / 1e6:.0f} million weights")
    print(f"{GlobalCounters.kernel_count - launched} kernels")
    print(f"{(GlobalCounters.global_ops - operations) / 1e9:.0f} thousand million operations")


def learn() -> None:
    """Train on images of a ring; the strength of the noise differs for each image of a batch."""
    Tensor.manual_seed(3)
    network = UNet(1, (8, 16))
    optimiser = nn.optim.Adam(nn.state.get_parameters(network), lr=0.01)
    axis = Tensor.linspace(-1, 1, 8)
    distance = (axis.reshape(1, 8).square() + axis.reshape(8, 1).square()).sqrt()
    ring = (distance - 0.6).abs().lt(0.25).float().reshape(1, 1, 8, 8).realize()

    @TinyJit
    def step(noise: Tensor, time: Tensor) -> Tensor:
        optimiser.zero_grad()
        share = time.reshape(-1, 1, 1, 1) / 10
        noisy = ring * (1 - share).sqrt() + noise * share.sqrt()
        loss = (network(noisy, time) - noise).square().mean()
        loss.backward()
        optimiser.step()
        return loss.realize()

    losses = []
    with Tensor.train():
        for _ in range(20):
            times = Tensor.randint(16, low=1, high=10).float()
            losses.append(step(Tensor.randn(16, 1, 8, 8).realize(), times.realize()).item())
    print(f"loss {losses[0]:.2f} at first, {sum(losses[-5:]) / 5:.2f} at last")


if __name__ == "__main__":
    plan()
    learn()
