void k_branch(void **buffers, const int *variables) {
  int var_n = variables[0];
  int *data0 = buffers[0];
  _Bool v1 = var_n < 5;
  if (v1) {
    data0[0] = var_n;
  }
}
