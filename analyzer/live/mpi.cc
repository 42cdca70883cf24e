#include "analyzer/live/mpi.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

namespace traintrace {
namespace {

int number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

constexpr int kTag = 4711;
constexpr std::chrono::microseconds kLook{200};
constexpr size_t kMostBytes = size_t{1} << 30;  // a count is an int

}  // namespace

bool Mpi::is_started_by() {
  const bool by_slurm = std::getenv("SLURM_PROCID") != nullptr;
  return number_of("OMPI_COMM_WORLD_SIZE") > 1 || number_of("PMI_SIZE") > 1 ||
         (by_slurm && number_of("SLURM_STEP_NUM_TASKS") > 1);
}

bool Mpi::load() {
  void* library = nullptr;
  for (const char* name : {"libmpi.so.40", "libmpi.so.80", "libmpi.so.12", "libmpi.so"}) {
    // Open MPI's own plugins expect to find it among what is global.
    library = library == nullptr ? dlopen(name, RTLD_NOW | RTLD_GLOBAL) : library;
  }
  if (library == nullptr) {
    return false;
  }
  find(library, "MPI_Init", call_.init);
  find(library, "MPI_Finalize", call_.finalize);
  find(library, "MPI_Comm_rank", call_.rank);
  find(library, "MPI_Comm_size", call_.size);
  find(library, "MPI_Send", call_.send);
  find(library, "MPI_Recv", call_.receive);
  find(library, "MPI_Iprobe", call_.probe);
  find(library, "MPI_Abort", call_.abort);
  world_ = dlsym(library, "ompi_mpi_comm_world");
  byte_ = dlsym(library, "ompi_mpi_byte");
  if (world_ == nullptr || byte_ == nullptr) {  // MPICH's, in its mpi.h
    world_ = reinterpret_cast<Handle>(uintptr_t{0x44000000});
    byte_ = reinterpret_cast<Handle>(uintptr_t{0x4c00010d});
    ignore_status_ = reinterpret_cast<void*>(uintptr_t{1});
  }
  return call_.is_whole();
}

std::optional<Mpi> Mpi::join() {
  Mpi mpi;
  if (!is_started_by() || !mpi.load() || mpi.call_.init(nullptr, nullptr) != 0 ||
      mpi.call_.rank(mpi.world_, &mpi.rank_) != 0 || mpi.call_.size(mpi.world_, &mpi.size_) != 0) {
    return std::nullopt;
  }
  if (mpi.size_ == 1) {
    mpi.call_.finalize();
    return std::nullopt;
  }
  return mpi;
}

std::vector<std::string> Mpi::gather(const std::string& text, std::chrono::seconds patience) {
  if (rank_ != 0) {
    send(0, text);
    return {};
  }
  std::vector<std::string> all = {text};
  for (int other = 1; other < size_; ++other) {
    all.push_back(receive_within(other, patience).value_or(""));
  }
  return all;
}

void Mpi::send(int to, const std::string& text) {
  uint64_t bytes = std::min(text.size(), kMostBytes);
  call_.send(&bytes, sizeof bytes, byte_, to, kTag, world_);
  call_.send(text.data(), static_cast<int>(bytes), byte_, to, kTag, world_);
}

bool Mpi::is_there(int from) {
  int there = 0;
  call_.probe(from, kTag, world_, &there, ignore_status_);
  return there != 0;
}

std::string Mpi::take(int from) {
  uint64_t bytes = 0;
  call_.receive(&bytes, sizeof bytes, byte_, from, kTag, world_, ignore_status_);
  std::string text(std::min<uint64_t>(bytes, kMostBytes), '\0');
  call_.receive(text.data(), static_cast<int>(text.size()), byte_, from, kTag, world_,
                ignore_status_);
  return text;
}

std::string Mpi::receive(int from) {
  while (!is_there(from)) {
    std::this_thread::sleep_for(kLook);
  }
  return take(from);
}

std::optional<std::string> Mpi::receive_within(int from, std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!is_there(from)) {
    if (std::chrono::steady_clock::now() >= end) {
      return std::nullopt;
    }
    std::this_thread::sleep_for(kLook);
  }
  return take(from);
}

void Mpi::finish() {
  call_.finalize();
}

void Mpi::abort(int status) {
  call_.abort(world_, status);
}

}  // namespace traintrace
