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

void keep_loaded(const void* address) noexcept {
  const link_map* const map = map_of(address);
  // The program itself has no name, and stays.
  if (map && map->l_name[0]) {
    if (void* const handle = handle_if_loaded(map->l_name, RTLD_NODELETE)) {
      dlclose(handle);
    }
  }
}

}  // namespace traintrace
