"""GPUs of AMD: HIP C++ through clang, launched by the HIP runtime where that is there."""
