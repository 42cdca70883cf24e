// What can be read from a kernel image: names, parameter sizes, global variables.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cuda/launch.h"

namespace simgpu {

struct ImageGlobal {
  size_t bytes = 0;
  std::vector<uint8_t> initial;  // empty: zeros
};

struct Image {
  // True if the kernels are known by name.  An opaque image (compressed, PTX, or not the vendor's
  // format at all) is taken to contain every kernel that it is asked for.
  bool complete = false;
  std::map<std::string, std::vector<KernelParameter>> kernels;
  std::map<std::string, ImageGlobal> globals;
};

// Reads a cubin (ELF), or a fat binary that holds uncompressed cubins, or a __fatBinC_Wrapper_t
// that points to one.  The image has no length but what it says about itself, as in
// cuModuleLoadData: trusted, like there.
Image read_image(const void* image);

}  // namespace simgpu
