"""Optimisers: each `step` updates the parameters by their gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from tinyref.dtype import dtypes
from tinyref.errors import UserError, UserStateError, UserTypeError, argument_error
from tinyref.tensor import Tensor
from tinyref.tensor.core import value_of
from tinyref.tensor.literals import weak_number

__all__ = ["LAMB", "LARS", "SGD", "Adam", "AdamW", "Optimizer", "OptimizerGroup"]


def _trainable(params: Iterable[Tensor]) -> list[Tensor]:
    """Return the trainable tensors among `params`, each once, and set their `requires_grad`.

    Tensors of an integer type or with requires_grad=False are state of a model, and no parameters.
    """
    if isinstance(params, Tensor) or not isinstance(params, Iterable):
        name = type(params).__name__
        raise UserTypeError(
            f"params: got a {name}, accepted is a list of Tensors: see get_parameters"
        )
    trainable: dict[int, Tensor] = {}
    for number, tensor in enumerate(params):
        if not isinstance(tensor, Tensor):
            name = type(tensor).__name__
            raise UserTypeError(f"params: number {number} is a {name}, accepted are Tensors")
        if value_of(tensor).requires_grad and value_of(tensor).record is not None:
            raise UserError(
                f"params: number {number} is computed from others, so it gets no gradient: "
                f"accepted are leaves, such as tensor.detach().requires_grad_()"
            )
        if tensor.dtype.is_float and not value_of(tensor).is_frozen:
            trainable[id(tensor)] = tensor
    for tensor in trainable.values():
        if not tensor.requires_grad:
            tensor.requires_grad_()
    return list(trainable.values())


def _check_rate(value: float, name: str, below: float | None = None) -> float:
    """Return `value` as a float. Raises `UserError` unless it is at least 0, and below `below`."""
    limit = float("inf") if below is None else below
    number = weak_number(value)
    if number is None or isinstance(number, bool) or not 0 <= number < limit:
        accepted = "numbers of 0 and more" if below is None else f"0 to below {below:g}"
        raise argument_error(number, int | float, f"{name}: got {value!r}, accepted are {accepted}")
    return float(number)


class Optimizer(ABC):
    """Base of all optimisers: parameters, learning rate, and the update in a step.

    params: the tensors of a model. Tensors of an integer type or with requires_grad=False are left
        alone.
    lr: the learning rate. It becomes a tensor of shape (1,), to which a schedule can assign, also
        for a captured step. Its type is float32, or float64 if a parameter has that type.
    Raises `UserError` if no tensor can be trained.

    Examples:
        >>> weight = Tensor([1.0], requires_grad=True)
        >>> optimiser = nn.optim.SGD([weight], lr=0.25)
        >>> _ = (2 * weight).sum().backward()
        >>> optimiser.zero_grad()
        >>> weight.grad is None
        True
    """

    def __init__(self, params: list[Tensor], lr: float) -> None:
        self.params = _trainable(params)
        if not self.params:
            raise UserError("params: none is a float tensor that may have a gradient")
        rate = [_check_rate(lr, "lr")]
        self.device = self.params[0].device
        is_wide = any(param.dtype is dtypes.float64 for param in self.params)
        self._rate_dtype = dtypes.float64 if is_wide else dtypes.float32
        self.lr = Tensor(rate, dtype=self._rate_dtype).to(self.device).requires_grad_(False)

    def zero_grad(self) -> None:
        """Delete the gradients of all parameters."""
        for param in self.params:
            param.grad = None

    def step(self) -> None:
        """Update every parameter that has a gradient, now. Raises `UserError` if none has one."""
        changed = self.schedule_step()
        changed[0].realize(*changed[1:])

    def schedule_step(self) -> list[Tensor]:
        """Do the same as `step`, but compute later. Return the tensors to realise."""
        moving = [number for number, param in enumerate(self.params) if param.grad is not None]
        if not moving:
            raise UserStateError("step: no parameter has a gradient: call backward() first")
        with Tensor.no_grad():
            changed = self._advance(moving)
            for number in moving:
                param = self.params[number]
                gradient = param.grad
                assert gradient is not None, "only parameters with a gradient move"
                wide = _wide(gradient)
                target, state = self._step_of(number, _wide(param.detach()), wide)
                param.assign(target.cast(param.dtype))
                changed += [param, *state]
        return changed

    def _advance(self, moving: list[int]) -> list[Tensor]:
        """Update the state that a step changes once. `moving` are the numbers of its parameters.

        Return the tensors that changed.
        """
        return []

    @abstractmethod
    def _step_of(self, number: int, param: Tensor, grad: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return the new elements of parameter `number`, and its state after assignments."""

    def _rate(self, like: Tensor) -> Tensor:
        return self.lr.to(like.device).cast(like.dtype)

    def _state(self) -> list[Tensor]:
        """Return zeros for every parameter, in at least float32."""
        return [_zeros(param) for param in self.params]


def _wide(tensor: Tensor) -> Tensor:
    """Convert to at least float32: 16-bit parameters are updated there and rounded once."""
    return tensor if tensor.dtype is dtypes.float64 else tensor.float()


def _zeros(param: Tensor) -> Tensor:
    return _wide(param.detach()).zeros_like().contiguous().requires_grad_(False)


def _norm(tensor: Tensor) -> Tensor:
    return tensor.square().sum().sqrt()


class LARS(Optimizer):
    """Gradient descent with momentum, with a rate for each parameter that follows its norm.

    The trust ratio is tcoef |w| / (|g| + weight_decay |w|). It is 1 if a norm or `tcoef` is 0. With
    `classic`, the velocity is a sum of steps (gradient times rate), else of gradients. Source: You,
    Gitman and Ginsburg, "Large Batch Training of Convolutional Networks", 2017.

    Examples:
        >>> optimiser = nn.optim.LARS([Tensor([1.0], requires_grad=True)], lr=0.5)
        >>> optimiser.lr.item()
        0.5
    """

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        momentum: float = 0.9,
        weight_decay: float = 1e-4,
        nesterov: bool = False,
        classic: bool = True,
        tcoef: float = 0.001,
    ) -> None:
        super().__init__(params, lr)
        self.momentum = _check_rate(momentum, "momentum")
        self.weight_decay = _check_rate(weight_decay, "weight_decay")
        if nesterov and not self.momentum:
            raise UserError("nesterov: needs a momentum above 0")
        self.nesterov = nesterov
        self.classic = classic
        self.tcoef = _check_rate(tcoef, "tcoef")
        self.b = self._state() if self.momentum else []

    def _step_of(self, number: int, param: Tensor, grad: Tensor) -> tuple[Tensor, list[Tensor]]:
        rate = self._rate(param)
        if self.tcoef:
            rate = rate * self._trust(param, grad)
        if self.weight_decay:
            grad = grad + param * self.weight_decay
        if self.classic:
            grad = grad * rate
        state = []
        if self.momentum:
            velocity = self.b[number].assign(self.b[number] * self.momentum + grad)
            state.append(velocity)
            grad = grad + velocity * self.momentum if self.nesterov else velocity
        if not self.classic:
            grad = grad * rate
        return param - grad, state

    def _trust(self, param: Tensor, grad: Tensor) -> Tensor:
        weight, slope = _norm(param), _norm(grad)
        ratio = weight * self.tcoef / (slope + weight * self.weight_decay)
        return ((weight > 0) & (slope > 0)).where(ratio, 1.0)


class SGD(LARS):
    """Gradient descent, with momentum (Polyak, 1964; Nesterov, 1983) if it is above 0.

    `weight_decay` times the parameter is added to its gradient.

    Examples:
        >>> weight = Tensor([1.0], requires_grad=True)
        >>> optimiser = nn.optim.SGD([weight], lr=0.25)
        >>> with Tensor.train():
        ...     _ = (2 * weight).sum().backward()
        ...     optimiser.step()
        >>> weight.item()
        0.5
    """

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        classic: bool = False,
    ) -> None:
        super().__init__(params, lr, momentum, weight_decay, nesterov, classic, tcoef=0.0)


class LAMB(Optimizer):
    """Adam's step, scaled for each parameter by |w| / |step|. With `adam` it is not scaled.

    Weight decay is decoupled: it is added to the step, not to the gradient. Sources: You et al.,
    "Large Batch Optimization for Deep Learning", 2019; Kingma and Ba, "Adam", 2014; Loshchilov and
    Hutter, "Decoupled Weight Decay Regularization", 2017.

    Examples:
        >>> optimiser = nn.optim.LAMB([Tensor([1.0], requires_grad=True)], lr=0.5)
        >>> optimiser.lr.item()
        0.5
    """

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adam: bool = False,
    ) -> None:
        super().__init__(params, lr)
        self.b1 = _check_rate(b1, "b1", below=1)
        self.b2 = _check_rate(b2, "b2", below=1)
        self.eps = _check_rate(eps, "eps")
        self.weight_decay = _check_rate(weight_decay, "weight_decay")
        self.adam = adam
        # The average of ones after the t steps of each parameter, 1 - b^t. The other averages are
        # divided by it. It is averaged too, as 1 - b^t in float32 would lose significant digits.
        self.b1_sum = self._zero_sums()
        self.b2_sum = self._zero_sums()
        self.m = self._state()
        self.v = self._state()

    def _zero_sums(self) -> Tensor:
        zeros = [0.0] * len(self.params)
        return Tensor(zeros, dtype=self._rate_dtype).to(self.device).requires_grad_(False)

    def _advance(self, moving: list[int]) -> list[Tensor]:
        stays = [number not in moving for number in range(len(self.params))]
        for average, factor in ((self.b1_sum, self.b1), (self.b2_sum, self.b2)):
            advanced = average * factor + (1 - factor)
            if any(stays):
                advanced = Tensor(stays).to(self.device).where(average, advanced)
            average.assign(advanced)
        return [self.b1_sum, self.b2_sum]

    def _step_of(self, number: int, param: Tensor, grad: Tensor) -> tuple[Tensor, list[Tensor]]:
        mean, square = self.m[number], self.v[number]
        mean.assign(mean * self.b1 + grad * (1 - self.b1))
        square.assign(square * self.b2 + grad.square() * (1 - self.b2))
        one = slice(number, number + 1)
        step = self._without_bias(mean, self.b1_sum[one]) / (
            self._without_bias(square, self.b2_sum[one]).sqrt() + self.eps
        )
        if self.weight_decay:
            step = step + param * self.weight_decay
        rate = self._rate(param)
        if not self.adam:
            weight, length = _norm(param), _norm(step)
            rate = rate * ((weight > 0) & (length > 0)).where(weight / length, 1.0)
        return param - step * rate, [mean, square]

    @staticmethod
    def _without_bias(average: Tensor, of_ones: Tensor) -> Tensor:
        return average / of_ones.to(average.device).cast(average.dtype)


class AdamW(LAMB):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2017).

    Examples:
        >>> weight = Tensor([1.0], requires_grad=True)
        >>> optimiser = nn.optim.AdamW([weight], lr=0.5, weight_decay=0.0)
        >>> with Tensor.train():
        ...     _ = (2 * weight).sum().backward()
        ...     optimiser.step()
        >>> round(weight.item(), 4)
        0.5
    """

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, weight_decay, adam=True)


class Adam(LAMB):
    """Adam (Kingma and Ba, 2014), without weight decay.

    Examples:
        >>> weight = Tensor([1.0], requires_grad=True)
        >>> optimiser = nn.optim.Adam([weight], lr=0.5)
        >>> with Tensor.train():
        ...     _ = (2 * weight).sum().backward()
        ...     optimiser.step()
        >>> round(weight.item(), 4)
        0.5
    """

    def __init__(
        self,
        params: list[Tensor],
        lr: float = 0.001,
        b1: float = 0.9,
        b2: float = 0.999,
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, lr, b1, b2, eps, 0.0, adam=True)


class OptimizerGroup(Optimizer):
    """Several optimisers as one. Each updates its own parameters in one step.

    Examples:
        >>> first, second = (Tensor([1.0], requires_grad=True) for _ in range(2))
        >>> group = nn.optim.OptimizerGroup(nn.optim.SGD([first], lr=0.25), nn.optim.Adam([second]))
        >>> len(group.params)
        2
    """

    def __init__(self, *optimizers: Optimizer) -> None:
        if not optimizers:
            raise UserError("OptimizerGroup: got no optimizers")
        for number, optimiser in enumerate(optimizers):
            if not isinstance(optimiser, Optimizer):
                name = type(optimiser).__name__
                raise UserTypeError(
                    f"OptimizerGroup: number {number} is a {name}, not an Optimizer"
                )
        self.optimizers = optimizers
        self.params = [param for optimiser in optimizers for param in optimiser.params]
        self.device = optimizers[0].device

    def __getitem__(self, number: int) -> Optimizer:
        return self.optimizers[number]

    def schedule_step(self) -> list[Tensor]:
        """Do the same as `step`, but compute later. Raises `UserError` without any gradient."""
        changed: list[Tensor] = []
        for optimiser in self.optimizers:
            if any(param.grad is not None for param in optimiser.params):
                changed += optimiser.schedule_step()
        if not changed:
            raise UserStateError("step: no parameter has a gradient: call backward() first")
        return changed

    def _step_of(self, number: int, param: Tensor, grad: Tensor) -> tuple[Tensor, list[Tensor]]:
        raise TypeError("a group updates no parameter itself")
