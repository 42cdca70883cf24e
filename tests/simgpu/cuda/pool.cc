#include "cuda/pool.h"

#include <algorithm>
#include <cstring>

namespace simgpu {

AddressMap& pool_chunks() {
  static AddressMap& chunks = *new AddressMap;
  return chunks;
}

Pool::~Pool() {
  for (const Chunk& chunk : chunks_) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(chunk.block->data());
    pool_chunks().remove(base, [](const Range&) { return true; });
  }
}

bool Pool::take_free(size_t bytes, Piece& piece) {
  for (Chunk& chunk : chunks_) {
    if (const std::optional<size_t> offset = chunk.arena.take(bytes)) {
      piece = {&chunk, *offset, bytes};
      return true;
    }
  }
  return false;
}

// The rest of the piece stays pending.
bool Pool::take_pending(size_t bytes, const Queue* only, Piece& piece, Ticket& ticket) {
  for (auto item = pending_.begin(); item != pending_.end(); ++item) {
    const Pending& pending = item->second;
    if (pending.piece.bytes < bytes || (only && pending.ticket.queue.get() != only)) {
      continue;
    }
    piece = pending.piece;
    ticket = pending.ticket;
    const Piece rest = {piece.chunk, piece.offset + bytes, piece.bytes - bytes};
    piece.bytes = bytes;
    pending_.erase(item);
    if (rest.bytes) {
      pending_.emplace(rest.address(), Pending{rest, ticket});
    }
    return true;
  }
  return false;
}

bool Pool::grow(size_t bytes) {
  const size_t chunk_bytes = round_up(bytes, kGranularityBytes);
  if (properties_.maxSize && reserved_ + chunk_bytes > properties_.maxSize) {
    return false;
  }
  std::shared_ptr<Block> block = Block::take(device_, chunk_bytes);
  if (!block) {
    return false;
  }
  auto range = std::make_shared<Range>();
  range->base = reinterpret_cast<uintptr_t>(block->data());
  range->bytes = chunk_bytes;
  range->kind = RangeKind::kPool;
  range->device = device_;
  range->backing = block;
  pool_chunks().insert(std::move(range));
  chunks_.push_back({std::move(block), Arena(chunk_bytes)});
  reserved_ += chunk_bytes;
  reserved_high_ = std::max(reserved_high_, reserved_);
  return true;
}

void Pool::collect_finished() {
  std::erase_if(pending_, [](const auto& item) {
    const Piece& piece = item.second.piece;
    if (!item.second.ticket.done()) {
      return false;
    }
    piece.chunk->arena.give(piece.offset, piece.bytes);
    return true;
  });
}

// Neighbours that the same stream freed are one piece, free when the later free was reached.
void Pool::add_pending(Piece piece, const Ticket& ticket) {
  const auto joins = [&](const Pending& other) {
    return other.piece.chunk == piece.chunk && other.ticket.queue == ticket.queue;
  };
  auto after = pending_.lower_bound(piece.address());
  if (after != pending_.end() && joins(after->second) &&
      after->second.piece.offset == piece.offset + piece.bytes) {
    piece.bytes += after->second.piece.bytes;
    after = pending_.erase(after);
  }
  if (after != pending_.begin()) {
    const auto before = std::prev(after);
    const Piece& other = before->second.piece;
    if (joins(before->second) && other.offset + other.bytes == piece.offset) {
      piece = {piece.chunk, other.offset, other.bytes + piece.bytes};
      pending_.erase(before);
    }
  }
  pending_.emplace(piece.address(), Pending{piece, ticket});
}

RangePtr Pool::publish(const Piece& piece, size_t bytes, Context* context, CUmemoryPool handle) {
  live_.emplace(piece.address(), Live{piece, context});
  used_ += piece.bytes;
  used_high_ = std::max(used_high_, used_);
  auto range = std::make_shared<Range>();
  range->base = piece.address();
  range->bytes = bytes;
  range->kind = RangeKind::kPool;
  range->device = device_;
  range->pool = handle;
  range->handle_types = properties_.handleTypes;
  range->file = piece.chunk->block->file();
  range->file_offset = piece.chunk->block->offset() + piece.offset;
  range->owner = shared_from_this();
  address_map().insert(range);
  return range;
}

bool Pool::take(size_t bytes, const std::shared_ptr<Queue>& queue, Piece& piece) {
  Ticket ordered_by_the_stream;
  if (opportunistic_) {
    collect_finished();
  }
  return take_pending(bytes, queue.get(), piece, ordered_by_the_stream) ||
         take_free(bytes, piece) || (grow(bytes) && take_free(bytes, piece));
}

CUresult Pool::allocate(size_t bytes, const std::shared_ptr<Queue>& queue, Context* context,
                        CUmemoryPool handle, RangePtr& range, Ticket& after) {
  if (bytes > device_capacity()) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const size_t wanted = Arena::rounded(bytes);
  Piece piece;
  std::unique_lock lock(mutex_);
  bool found = take(wanted, queue, piece);
  if (!found) {
    lock.unlock();
    release_unused(device_);  // what other pools hold, too
    lock.lock();
    found = take(wanted, queue, piece);
  }
  if (!found && internal_dependencies_) {
    found = take_pending(wanted, nullptr, piece, after);
  }
  if (!found) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  range = publish(piece, bytes, context, handle);
  return CUDA_SUCCESS;
}

bool Pool::remove_live(uintptr_t address, Piece& piece) {
  const auto found = live_.find(address);
  if (found == live_.end()) {
    return false;
  }
  piece = found->second.piece;
  live_.erase(found);
  used_ -= piece.bytes;
  return true;
}

void Pool::give_after(uintptr_t address, const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  if (Piece piece; remove_live(address, piece)) {
    add_pending(piece, ticket);
  }
}

void Pool::give_now(uintptr_t address) {
  const std::lock_guard lock(mutex_);
  if (Piece piece; remove_live(address, piece)) {
    piece.chunk->arena.give(piece.offset, piece.bytes);
  }
}

std::vector<uintptr_t> Pool::addresses_of(const Context& context) {
  std::vector<uintptr_t> addresses;
  const std::lock_guard lock(mutex_);
  for (const auto& [address, live] : live_) {
    if (live.context == &context) {
      addresses.push_back(address);
    }
  }
  return addresses;
}

void Pool::trim(size_t keep_bytes) {
  std::vector<std::shared_ptr<Block>> released;  // given back without the lock
  const std::lock_guard lock(mutex_);
  collect_finished();
  if (reserved_ <= keep_bytes) {
    return;
  }
  for (auto chunk = chunks_.begin(); chunk != chunks_.end();) {
    const size_t bytes = chunk->block->bytes();
    if (chunk->arena.free_bytes() != bytes || reserved_ - bytes < keep_bytes) {
      ++chunk;
      continue;
    }
    const uintptr_t base = reinterpret_cast<uintptr_t>(chunk->block->data());
    pool_chunks().remove(base, [](const Range&) { return true; });
    released.push_back(std::move(chunk->block));
    reserved_ -= bytes;
    chunk = chunks_.erase(chunk);
  }
}

void Pool::trim_to_threshold() {
  uint64_t keep_bytes;
  {
    const std::lock_guard lock(mutex_);
    keep_bytes = threshold_;
  }
  trim(keep_bytes);
}

}  // namespace simgpu
