// Steps with products of matrices, by cuBLAS or cuBLASLt.
#pragma once

#include "job.h"

struct Products {
  int64_t m, n, k;
  bool half = false;   // else floats
  bool tf32 = false;   // floats by tensor cores
  bool by_lt = false;  // cuBLASLt
  int of_each_step = 4;
};

// Says how long they took, their shape, what they compute, and how long that takes at the peak of
// an H100 (NVIDIA's data sheet of the variant with 80 GB of HBM3).  False: built without cuBLAS.
bool multiplies(Job& job, int steps, const Products& products);
