#include "interpose/record/definitions.h"

#include <string.h>

#include "interpose/base/undisturbed.h"
#include "interpose/record/growth.h"
#include "interpose/record/stats.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

using format::DefinitionChunk;

// Less than this is not worth handing on: a stack of 20 frames takes 200 bytes.
constexpr ptrdiff_t kWorthKeeping = 512;

uint32_t* g_next_free;  // number of the free chunk behind each chunk
uint64_t g_free;        // head of the list, over it a count against reuse between two steps

DefinitionChunk* chunk_at(uint32_t number) {
  return reinterpret_cast<DefinitionChunk*>(g_tables.definition_chunks +
                                            uint64_t{number - 1} * g_tables.definition_chunk_bytes);
}

char* end_of(DefinitionChunk* chunk) {
  return reinterpret_cast<char*>(chunk) + g_tables.definition_chunk_bytes;
}
char* next_of(DefinitionChunk* chunk) {
  return reinterpret_cast<char*>(chunk + 1) + load(chunk->committed);
}

uint32_t take_free() {
  for (uint64_t head = load(g_free); static_cast<uint32_t>(head) != 0; head = load(g_free)) {
    const auto number = static_cast<uint32_t>(head);
    const uint64_t next = ((head >> 32) + 1) << 32 | load(g_next_free[number - 1]);
    if (exchange_if(g_free, head, next)) {
      return number;
    }
  }
  return 0;
}

DefinitionChunk* take_new() {
  uint64_t& next = g_tables.file->next_definition_chunk;
  if (load(next) >= g_tables.definition_chunk_count) {
    return nullptr;
  }
  const uint64_t index = fetch_add(next, uint64_t{1});
  if (index >= g_tables.definition_chunk_count) {
    return nullptr;
  }
  const uint64_t end = (index + 1) * g_tables.definition_chunk_bytes;
  if (end > ready_bytes(g_tables.file, format::kDefinitions) &&
      !grow_to(format::kDefinitions, end)) {
    return nullptr;
  }
  DefinitionChunk* const chunk = chunk_at(static_cast<uint32_t>(index) + 1);
  publish(chunk->ordinal, index + 1);
  return chunk;
}

// Leaves what is left of the thread's chunk: it is less than one definition.
bool take_chunk(ThreadState& thread, size_t bytes) {
  const Undisturbed undisturbed;
  DefinitionChunk* chunk = nullptr;
  for (uint32_t number = take_free(); number != 0 && chunk == nullptr; number = take_free()) {
    DefinitionChunk* const free = chunk_at(number);
    if (static_cast<size_t>(end_of(free) - next_of(free)) >= bytes) {
      chunk = free;
      break;
    }
  }
  chunk = chunk != nullptr ? chunk : take_new();
  if (chunk == nullptr) {
    return false;
  }
  thread.definitions = chunk;
  thread.definitions_next = next_of(chunk);
  thread.definitions_end = end_of(chunk);
  return true;
}

}  // namespace

void* begin_definition(ThreadState& thread, format::DefinitionKind kind, size_t bytes) noexcept {
  const size_t padded = (bytes + 7) & ~size_t{7};
  const bool fits = g_tables.file != nullptr &&
                    padded + sizeof(DefinitionChunk) <= g_tables.definition_chunk_bytes;
  const size_t room = thread.definitions == nullptr
                          ? 0
                          : static_cast<size_t>(thread.definitions_end - thread.definitions_next);
  if (!fits || (room < padded && !take_chunk(thread, padded))) {
    count(format::Stat::DefinitionsFull);
    return nullptr;
  }
  char* const definition = thread.definitions_next;
  memset(definition, 0, padded);
  const format::DefinitionHead head{kind, static_cast<uint32_t>(padded)};
  memcpy(definition, &head, sizeof head);
  return definition;
}

void commit_definition(ThreadState& thread, void* definition) noexcept {
  format::DefinitionHead head;
  memcpy(&head, definition, sizeof head);
  thread.definitions_next = static_cast<char*>(definition) + head.bytes;
  const ptrdiff_t bytes = thread.definitions_next - reinterpret_cast<char*>(thread.definitions + 1);
  publish(thread.definitions->committed, static_cast<uint32_t>(bytes));
}

void release_definitions(ThreadState& thread) noexcept {
  DefinitionChunk* const chunk = thread.definitions;
  thread.definitions = nullptr;
  thread.definitions_next = nullptr;
  thread.definitions_end = nullptr;
  if (chunk == nullptr || g_next_free == nullptr ||
      end_of(chunk) - next_of(chunk) < kWorthKeeping) {
    return;
  }
  const auto number = static_cast<uint32_t>(chunk->ordinal);
  for (;;) {
    const uint64_t head = load(g_free);
    publish(g_next_free[number - 1], static_cast<uint32_t>(head));
    if (exchange_if(g_free, head, ((head >> 32) + 1) << 32 | number)) {
      return;
    }
  }
}

void define_fact(ThreadState& thread, const char* key, const char* value,
                 size_t value_bytes) noexcept {
  const size_t most = g_tables.definition_chunk_bytes / 2;
  const size_t key_bytes = strlen(key);
  value_bytes = value_bytes < most ? value_bytes : most;
  const size_t bytes = sizeof(format::FactDefinition) + key_bytes + value_bytes;
  auto* const fact =
      static_cast<format::FactDefinition*>(begin_definition(thread, format::kFact, bytes));
  if (fact == nullptr) {
    return;
  }
  fact->key_bytes = static_cast<uint32_t>(key_bytes);
  fact->value_bytes = static_cast<uint32_t>(value_bytes);
  append(append(reinterpret_cast<char*>(fact + 1), key, key_bytes), value, value_bytes);
  commit_definition(thread, fact);
}

void definitions_start() noexcept {
  g_free = 0;
  g_next_free = private_array<uint32_t>(g_tables.definition_chunk_count);
}

void definitions_drop() noexcept {
  g_next_free = nullptr;
}

}  // namespace traintrace
