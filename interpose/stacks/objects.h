// Loaded ELF objects, as the loader knows them.
#pragma once

struct link_map;

namespace traintrace {

// The object that an address lies in; null: none.  Some 5 us.
const link_map* map_of(const void* address) noexcept;

// dlopen's handle of an object that is loaded already; null: it is not.  Never loads anything.
void* handle_if_loaded(const char* name, int more_flags = 0) noexcept;

// Whoever closes it, the object that an address lies in stays.
void keep_loaded(const void* address) noexcept;

}  // namespace traintrace
