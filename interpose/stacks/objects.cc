#include "interpose/stacks/objects.h"

#include <dlfcn.h>
#include <link.h>

namespace traintrace {

const link_map* map_of(const void* address) noexcept {
  Dl_info info;
  void* map = nullptr;
  return address && dladdr1(address, &info, &map, RTLD_DL_LINKMAP) ? static_cast<link_map*>(map)
                                                                   : nullptr;
}

void* handle_if_loaded(const char* name, int more_flags) noexcept {
  return dlopen(name, RTLD_LAZY | RTLD_NOLOAD | more_flags);
}

}  // namespace traintrace
