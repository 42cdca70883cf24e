// NVTX asks the library that NVTX_INJECTION64_PATH names to put functions of its own into a table,
// once in each library of the job that uses NVTX.  Where another injection library was to be used
// (TRAINTRACE_NVTX_NEXT), it is asked as NVTX would ask it, and what it has put there is called
// after ours.
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "interpose/base/files.h"
#include "interpose/calls/resolve.h"
#include "interpose/life/settings.h"
#include "interpose/life/stderr_line.h"
#include "interpose/nvtx/nvtx_api.h"
#include "interpose/nvtx/range_records.h"
#include "interpose/tables/tables.h"

namespace traintrace {

extern "C" {  // NOLINTBEGIN
int tt_hook_InitializeInjectionNvtx2(nvtx::GetExportTable* get);
int tt_hook_InitializeInjectionNvtxExtension(nvtx::Extension* extension);
}  // NOLINTEND

namespace {

using nvtx::EventAttributes;

// What we put our functions in place of: module, number in it, name here.  Those of kPayload are of
// an extension, by which NCCL pops what it has pushed without it.
#define TT_NVTX_CALLS(X)               \
  X(kCore, 1, mark_ex)                 \
  X(kCore, 2, mark_a)                  \
  X(kCore, 3, mark_w)                  \
  X(kCore, 4, start_ex)                \
  X(kCore, 5, start_a)                 \
  X(kCore, 6, start_w)                 \
  X(kCore, 7, end)                     \
  X(kCore, 8, push_ex)                 \
  X(kCore, 9, push_a)                  \
  X(kCore, 10, push_w)                 \
  X(kCore, 11, pop)                    \
  X(kCore, 12, name_category_a)        \
  X(kCore, 13, name_category_w)        \
  X(kCore2, 1, domain_mark_ex)         \
  X(kCore2, 2, domain_start_ex)        \
  X(kCore2, 3, domain_end)             \
  X(kCore2, 4, domain_push_ex)         \
  X(kCore2, 5, domain_pop)             \
  X(kCore2, 8, domain_name_category_a) \
  X(kCore2, 9, domain_name_category_w) \
  X(kCore2, 10, register_a)            \
  X(kCore2, 11, register_w)            \
  X(kCore2, 12, create_domain_a)       \
  X(kCore2, 13, create_domain_w)       \
  X(kPayload, 2, payload_mark)         \
  X(kPayload, 3, payload_push)         \
  X(kPayload, 4, payload_pop)          \
  X(kPayload, 5, payload_start)        \
  X(kPayload, 6, payload_end)

enum Call : uint32_t {
#define TT_NVTX_CALL(module, number, name) k_##name,
  TT_NVTX_CALLS(TT_NVTX_CALL)
#undef TT_NVTX_CALL
      kCalls
};

// Of the other injection library; null: it has not put anything there.
constinit nvtx::Function* g_next[kCalls] = {};
constinit bool g_has_next = false;
constinit uint64_t g_last_handle = 0;          // of ranges that are started and ended
constinit thread_local bool t_asking = false;  // the other library

template <class Type>
Type* next_of(Call call, Type*) {
  return reinterpret_cast<Type*>(load(g_next[call]));
}

// The rest of a hook: what the other library answers, or what NVTX does where there is none.
#define GO_ON(name, otherwise, ...)                             \
  if (auto* const next = next_of(k_##name, &name)) [[unlikely]] \
    return next(__VA_ARGS__);                                   \
  return otherwise

uint64_t hash_of_domain(const Registered* domain) {
  return domain == nullptr ? kDefaultDomainHash : domain->hash;
}

// `use` gets a RangeName that may not live longer.
template <class Use>
void with_message(const Registered* domain, const EventAttributes* attributes, Use use) {
  const uint64_t hash = hash_of_domain(domain);
  const bool whole = attributes != nullptr && attributes->size >= sizeof *attributes;
  const void* const message = whole ? attributes->message : nullptr;
  const int32_t type = message != nullptr ? attributes->message_type : nvtx::kNoMessage;
  if (type == nvtx::kAscii) {
    use(range_name(hash, static_cast<const char*>(message)));
  } else if (type == nvtx::kUnicode) {
    const NarrowText narrow(static_cast<const wchar_t*>(message));
    use(range_name(hash, narrow.text));
  } else {
    const Registered* const text = type == nvtx::kRegistered ? registered_of(message) : nullptr;
    use(text != nullptr && load(text->ready) != 0 ? RangeName{text->hash, text->text, text->bytes}
                                                  : range_name(hash, nullptr));
  }
}

RangeExtras extras_of(const Registered* domain, const EventAttributes* attributes) {
  RangeExtras extras;
  if (attributes == nullptr || attributes->size < sizeof *attributes) {
    return extras;
  }
  extras.category = attributes->category;
  if (extras.category != 0) [[unlikely]] {
    extras.category_name = category_of(domain, extras.category);
  }
  const int32_t type = attributes->payload_type;
  if (type >= nvtx::kFirstPayload && type <= nvtx::kLastPayload) [[unlikely]] {
    extras.payload_type = type;
    extras.payload = type >= nvtx::kFirstPayloadOf32Bits ? attributes->payload & 0xffff'ffff
                                                         : attributes->payload;
  }
  return extras;
}

void push(const Registered* domain, const EventAttributes* attributes) {
  with_message(domain, attributes, [&](const RangeName& name) {
    range_pushed(domain, name, extras_of(domain, attributes));
  });
}

void mark(const Registered* domain, const EventAttributes* attributes) {
  with_message(domain, attributes, [&](const RangeName& name) {
    range_marked(domain, name, extras_of(domain, attributes));
  });
}

void start(const Registered* domain, const EventAttributes* attributes, uint64_t handle) {
  with_message(domain, attributes, [&](const RangeName& name) {
    range_started(domain, name, handle, extras_of(domain, attributes));
  });
}

// What the other library calls it, if there is one, since it is what it will be ended by.
template <class Next, class... Arguments>
uint64_t new_handle(Next* next, Arguments... arguments) {
  if (g_has_next) {
    return next != nullptr ? next(arguments...) : 0;
  }
  return __atomic_add_fetch(&g_last_handle, 1, __ATOMIC_RELAXED);
}

template <class Next, class... Arguments>
const void* new_registered(const Registered* registered, Next* next, Arguments... arguments) {
  if (!g_has_next) {
    return registered;
  }
  const void* const handle = next != nullptr ? next(arguments...) : nullptr;
  if (handle != nullptr && registered != nullptr) {
    name_handle(handle, registered);
  }
  return handle;
}

void mark_ex(const EventAttributes* attributes) {
  mark(nullptr, attributes);
  GO_ON(mark_ex, void(), attributes);
}
void mark_a(const char* text) {
  range_marked(nullptr, range_name(kDefaultDomainHash, text));
  GO_ON(mark_a, void(), text);
}
void mark_w(const wchar_t* text) {
  range_marked(nullptr, range_name(kDefaultDomainHash, NarrowText(text).text));
  GO_ON(mark_w, void(), text);
}

uint64_t start_ex(const EventAttributes* attributes) {
  const uint64_t handle = new_handle(next_of(k_start_ex, &start_ex), attributes);
  start(nullptr, attributes, handle);
  return handle;
}
uint64_t start_a(const char* text) {
  const uint64_t handle = new_handle(next_of(k_start_a, &start_a), text);
  range_started(nullptr, range_name(kDefaultDomainHash, text), handle);
  return handle;
}
uint64_t start_w(const wchar_t* text) {
  const uint64_t handle = new_handle(next_of(k_start_w, &start_w), text);
  range_started(nullptr, range_name(kDefaultDomainHash, NarrowText(text).text), handle);
  return handle;
}
void end(uint64_t handle) {
  range_ended(handle);
  GO_ON(end, void(), handle);
}

int push_ex(const EventAttributes* attributes) {
  push(nullptr, attributes);
  GO_ON(push_ex, nvtx::kNoPushPopTracking, attributes);
}
int push_a(const char* text) {
  RangeExtras extras;
  OperatorName room;
  const RangeName name = range_name_of_operator(kDefaultDomainHash, text, extras.payload, room);
  extras.payload_type = extras.payload != 0 ? nvtx::kFirstPayload : 0;
  range_pushed(nullptr, name, extras);
  GO_ON(push_a, nvtx::kNoPushPopTracking, text);
}
int push_w(const wchar_t* text) {
  range_pushed(nullptr, range_name(kDefaultDomainHash, NarrowText(text).text));
  GO_ON(push_w, nvtx::kNoPushPopTracking, text);
}
int pop() {
  range_popped(nullptr);
  GO_ON(pop, nvtx::kNoPushPopTracking);
}

void name_category_a(uint32_t category, const char* name) {
  register_category(nullptr, category, name);
  GO_ON(name_category_a, void(), category, name);
}
void name_category_w(uint32_t category, const wchar_t* name) {
  register_category(nullptr, category, NarrowText(name).text);
  GO_ON(name_category_w, void(), category, name);
}
void domain_name_category_a(const void* domain, uint32_t category, const char* name) {
  register_category(registered_of(domain), category, name);
  GO_ON(domain_name_category_a, void(), domain, category, name);
}
void domain_name_category_w(const void* domain, uint32_t category, const wchar_t* name) {
  register_category(registered_of(domain), category, NarrowText(name).text);
  GO_ON(domain_name_category_w, void(), domain, category, name);
}

void domain_mark_ex(const void* domain, const EventAttributes* attributes) {
  mark(registered_of(domain), attributes);
  GO_ON(domain_mark_ex, void(), domain, attributes);
}
uint64_t domain_start_ex(const void* domain, const EventAttributes* attributes) {
  const uint64_t handle =
      new_handle(next_of(k_domain_start_ex, &domain_start_ex), domain, attributes);
  start(registered_of(domain), attributes, handle);
  return handle;
}
void domain_end(const void* domain, uint64_t handle) {
  range_ended(handle);
  GO_ON(domain_end, void(), domain, handle);
}
int domain_push_ex(const void* domain, const EventAttributes* attributes) {
  push(registered_of(domain), attributes);
  GO_ON(domain_push_ex, nvtx::kNoPushPopTracking, domain, attributes);
}
int domain_pop(const void* domain) {
  range_popped(registered_of(domain));
  GO_ON(domain_pop, nvtx::kNoPushPopTracking, domain);
}

const void* register_a(const void* domain, const char* text) {
  return new_registered(register_string(registered_of(domain), text),
                        next_of(k_register_a, &register_a), domain, text);
}
const void* register_w(const void* domain, const wchar_t* text) {
  return new_registered(register_string(registered_of(domain), NarrowText(text).text),
                        next_of(k_register_w, &register_w), domain, text);
}
const void* create_domain_a(const char* name) {
  return new_registered(register_domain(name), next_of(k_create_domain_a, &create_domain_a), name);
}
const void* create_domain_w(const wchar_t* name) {
  return new_registered(register_domain(NarrowText(name).text),
                        next_of(k_create_domain_w, &create_domain_w), name);
}

// Their names are in payloads, which only a tool can read that knows their layouts.
RangeName unnamed(const Registered* domain) {
  return range_name(hash_of_domain(domain), nullptr);
}

void payload_mark(const void* domain, const void* payloads, size_t payload_count) {
  range_marked(registered_of(domain), unnamed(registered_of(domain)));
  GO_ON(payload_mark, void(), domain, payloads, payload_count);
}
int payload_push(const void* domain, const void* payloads, size_t payload_count) {
  range_pushed(registered_of(domain), unnamed(registered_of(domain)));
  GO_ON(payload_push, nvtx::kNoPushPopTracking, domain, payloads, payload_count);
}
int payload_pop(const void* domain, const void* payloads, size_t payload_count) {
  range_popped(registered_of(domain));
  GO_ON(payload_pop, nvtx::kNoPushPopTracking, domain, payloads, payload_count);
}
uint64_t payload_start(const void* domain, const void* payloads, size_t payload_count) {
  const uint64_t handle =
      new_handle(next_of(k_payload_start, &payload_start), domain, payloads, payload_count);
  range_started(registered_of(domain), unnamed(registered_of(domain)), handle);
  return handle;
}
void payload_end(const void* domain, uint64_t handle, const void* payloads, size_t payload_count) {
  range_ended(handle);
  GO_ON(payload_end, void(), domain, handle, payloads, payload_count);
}

struct Hook {
  nvtx::Module module;
  unsigned number;
  nvtx::Function* function;
};
const Hook kHooks[kCalls] = {
#define TT_NVTX_CALL(module, number, name) \
  {nvtx::module, number, reinterpret_cast<nvtx::Function*>(&name)},
    TT_NVTX_CALLS(TT_NVTX_CALL)
#undef TT_NVTX_CALL
};

// The functions of one copy of NVTX.
class Functions {
 public:
  explicit Functions(nvtx::GetExportTable* get) {
    const auto* const callbacks = static_cast<const nvtx::Callbacks*>(get(nvtx::kCallbacks));
    const bool whole = callbacks != nullptr && callbacks->struct_size >= sizeof *callbacks;
    for (Part& part : parts_) {
      part.there = whole && callbacks->get_module(part.module, &part.table, &part.size) != 0;
    }
  }

  // Null: this version of NVTX does not have it.
  nvtx::Function** place_of(const Hook& hook) const {
    if (hook.module == nvtx::kPayload) {
      return nullptr;
    }
    const Part& part = parts_[hook.module == nvtx::kCore ? 0 : 1];
    return part.there && hook.number < part.size ? part.table[hook.number] : nullptr;
  }

  // What is there now.
  void look(nvtx::Function* (&into)[kCalls]) const {
    for (uint32_t call = 0; call < kCalls; ++call) {
      nvtx::Function** const place = place_of(kHooks[call]);
      into[call] = place != nullptr ? *place : nullptr;
    }
  }

 private:
  struct Part {
    nvtx::Module module;
    bool there;
    nvtx::FunctionTable table;
    unsigned size;
  };
  Part parts_[2] = {{nvtx::kCore, false, nullptr, 0}, {nvtx::kCore2, false, nullptr, 0}};
};

const char* path_of_other() {
  const format::SettingSpec& setting =
      format::kSettings[static_cast<int>(format::Setting::NvtxNext)];
  const char* const path = getenv(setting.environment);
  return path == nullptr || *path == '\0' || equal(path, setting.fallback) ? nullptr : path;
}

// Of the other library, null: there is none, or it has no such function.
template <class Initialize>
Initialize* other_injection(const char* function) {
  const char* const path = path_of_other();
  void* const library = path != nullptr ? dlopen(path, RTLD_LAZY) : nullptr;  // it stays
  return reinterpret_cast<Initialize*>(library != nullptr ? real_lookup(library, function)
                                                          : nullptr);
}

// The other library may be this one under another name, or go on to this one: then we are asked
// again meanwhile, and refuse.
template <class Initialize, class Argument>
bool accepts(Initialize* other, Argument* argument) {
  if (other == nullptr) {
    return false;
  }
  t_asking = true;
  const bool accepted = other(argument) != 0;
  t_asking = false;
  return accepted;
}

void tell_if_unknown(nvtx::Initialize* other) {
  static constinit bool told = false;
  const char* const path = other == nullptr ? path_of_other() : nullptr;
  if (path != nullptr && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED)) {
    ShortText line;
    line << "TRAINTRACE_NVTX_NEXT=" << path << ": no NVTX injection library";
    complain(line.c_str());
  }
}

// What the other library has put in a place that held `before` is what ours goes on to.  Of
// several copies of NVTX it is the same, else that copy is left to it.
bool take_place(nvtx::Function** place, nvtx::Function* before, nvtx::Function* hook,
                nvtx::Function*& next) {
  nvtx::Function* const theirs = *place == before ? nullptr : *place;
  if (theirs != nullptr && !exchange_if(next, static_cast<nvtx::Function*>(nullptr), theirs) &&
      load(next) != theirs) {
    return false;
  }
  publish(*place, hook);
  return true;
}

bool may_listen() {
  return !read_settings().disabled && getauxval(AT_SECURE) == 0;
}

}  // namespace

extern "C" {
// Called what exports.def says.  NOLINTBEGIN(*-identifier-naming)

int tt_hook_InitializeInjectionNvtx2(nvtx::GetExportTable* get) {
  if (t_asking) {
    return 0;
  }
  nvtx::Initialize* const other = other_injection<nvtx::Initialize>("InitializeInjectionNvtx2");
  tell_if_unknown(other);
  if (!may_listen() || get == nullptr) {
    return accepts(other, get) ? 1 : 0;
  }
  const Functions functions(get);
  nvtx::Function* before[kCalls] = {};
  functions.look(before);
  if (accepts(other, get)) {
    publish(g_has_next, true);
  } else if (load(g_has_next)) {
    return 0;  // it listens elsewhere, and refused here
  } else {
    functions.look(before);  // what it may have put there counts for nothing
  }
  bool any = false;
  for (uint32_t call = 0; call < kCalls; ++call) {
    if (nvtx::Function** const place = functions.place_of(kHooks[call])) {
      any = take_place(place, before[call], kHooks[call].function, g_next[call]) || any;
    }
  }
  return any || load(g_has_next) ? 1 : 0;
}

int tt_hook_InitializeInjectionNvtxExtension(nvtx::Extension* extension) {
  if (t_asking) {
    return 0;
  }
  const bool accepted = accepts(
      other_injection<nvtx::InitializeExtension>("InitializeInjectionNvtxExtension"), extension);
  if (!may_listen() || extension == nullptr || extension->id != nvtx::kPayloadExtension ||
      extension->segment_count == 0) {
    return accepted ? 1 : 0;
  }
  const nvtx::ExtensionSegment& segment = extension->segments[0];
  for (size_t i = 0; i < segment.count && !accepted; ++i) {
    segment.places[i] = nullptr;  // what it may have put there counts for nothing
  }
  for (uint32_t call = 0; call < kCalls; ++call) {
    const Hook& hook = kHooks[call];
    if (hook.module == nvtx::kPayload && hook.number < segment.count) {
      nvtx::Function*& place = segment.places[hook.number];
      nvtx::Function* const empty =
          reinterpret_cast<uint64_t>(place) <= nvtx::kMostStates ? place : nullptr;
      take_place(&place, empty, hook.function, g_next[call]);
    }
  }
  return 1;
}

// NOLINTEND(*-identifier-naming)
}  // extern "C"

}  // namespace traintrace
