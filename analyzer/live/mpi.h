// The processes of mpirun or srun that look each at their own host.
//
// MPI is loaded only then.  Its functions have the same arguments everywhere, its handles do not:
// known are those of Open MPI and of the MPICH family (whose binary interface MVAPICH, Intel MPI
// and Cray MPI share), so nothing is needed to build this.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace traintrace {

class Mpi {
 public:
  // Whether a launcher started several of us.
  static bool is_started_by();
  // Nothing: MPI is not there, or this process is alone in it.
  static std::optional<Mpi> join();

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The texts of all, by rank, on rank 0; nothing on the others.  All must call it.
  std::vector<std::string> gather(const std::string& text);
  // From one process to another, in order.  Up to 1 GiB; of longer ones the beginning.
  void send(int to, const std::string& text);
  // Sleeps until there is something: MPI's own waiting takes all of a core.
  std::string receive(int from);
  // All must call it; nothing else after that.
  void finish();

 private:
  // A handle is an int in one family and a pointer in the other: both fit into a word, and are
  // passed in the same register.
  using Handle = void*;
  struct Functions {
    int (*init)(int*, char***);
    int (*finalize)();
    int (*rank)(Handle, int*);
    int (*size)(Handle, int*);
    int (*send)(const void*, int, Handle, int, int, Handle);
    int (*receive)(void*, int, Handle, int, int, Handle, void*);
    int (*probe)(int, int, Handle, int*, void*);
    bool is_whole() const { return init && finalize && rank && size && send && receive && probe; }
  };
  bool load();

  Functions call_{};
  Handle world_ = nullptr;
  Handle byte_ = nullptr;
  void* ignore_status_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace traintrace
