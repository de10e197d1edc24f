"""The languages in which a generated package prints kernels, and what each needs."""

from __future__ import annotations

from dataclasses import dataclass

_C_COMPILER = "a C compiler: tcc, gcc or clang (tcc is the quickest)"
_INSTALL_TCC = ("sudo apt-get install -y tcc libc6-dev",)


@dataclass(frozen=True)
class Step:
    """Something to replace: where it is, and by what."""

    where: str
    what: str


_STEPS_OF_WEBGPU = (
    Step("backend.py", "`availability` and `capabilities`: your adapter, and what it has"),
    Step("renderer.py", "the table: how your language says what WGSL says"),
    Step("runtime.py", "methods of the allocator and the kernel: your memory, your launches"),
)


@dataclass(frozen=True)
class Language:
    """A language, and what differs between the packages that print it.

    title: what texts call it. needs: what must be installed. install: commands of a runner of CI.
    emulator: how its device is made of the host, and `imports` the names of `tinyref.backend` for
    that; empty for one that runs elsewhere. is_c_like: its renderer is a table.
    requires: what a package depends on. backend, renderer, runtime: their templates. expectations:
    that of the failures which are the fault of the driver it runs on at first; empty for none.
    """

    name: str
    title: str
    needs: str
    install: tuple[str, ...]
    renderer: str
    emulator: str = ""
    imports: str = ""
    is_c_like: bool = False
    requires: tuple[str, ...] = ()
    backend: str = "backend.py"
    runtime: str = "runtime.py"
    expectations: str = ""

    @property
    def conform_options(self) -> str:
        """What `tinyref conform` is given beside the device."""
        return " --expectations expectations.toml" if self.expectations else ""

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is replaced, in order."""
        if not self.emulator:
            return _STEPS_OF_WEBGPU
        table = "the table" if self.is_c_like else "the printers of nodes"
        return (
            Step("renderer.py", f"{table}: how your language says what {self.title} says"),
            Step("runtime.py", "`open_driver` and its calls: your compiler, memory, launches"),
            Step("backend.py", "`CAPABILITIES`: what the device has, a few entries at a time"),
        )


def _c_like(name: str, title: str, dialect: str) -> Language:
    return Language(
        name,
        title,
        needs=_C_COMPILER,
        install=_INSTALL_TCC,
        renderer=f"renderer_{name}.py",
        emulator=f"CEmulator(device, {dialect})",
        imports=f"{dialect}, CEmulator, EmulatedDriver, EmulatedMemory",
        is_c_like=True,
    )


LANGUAGES = {
    language.name: language
    for language in (
        _c_like("c", "C", "PLAIN_C"),
        _c_like("opencl", "OpenCL C", "OPENCL_C"),
        _c_like("cuda", "CUDA C++", "CUDA_C"),
        Language(
            "llvm",
            "LLVM IR",
            needs="nothing but tinyref",
            install=(),
            renderer="renderer_llvm.py",
            emulator="LlvmEmulator(device)",
            imports="EmulatedDriver, EmulatedMemory, LlvmEmulator",
        ),
        Language(
            "wgsl",
            "WGSL",
            needs="the package wgpu and a driver of Vulkan (mesa-vulkan-drivers has lavapipe, "
            "which computes on the host)",
            install=("sudo apt-get install -y mesa-vulkan-drivers",),
            renderer="renderer_wgsl.py",
            backend="backend_wgsl.py",
            runtime="runtime_wgsl.py",
            expectations="expectations_wgsl.toml",
            requires=("wgpu",),
        ),
    )
}
