// The processes of mpirun or srun that look each at their own host.
//
// MPI is loaded only then.  Its functions have the same arguments everywhere, its handles do not:
// known are those of Open MPI and of the MPICH family (whose binary interface MVAPICH, Intel MPI
// and Cray MPI share), so nothing is needed to build this.
#pragma once

#include <chrono>
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
  // The texts of all, by rank, on rank 0, of one that says nothing for so long an empty one;
  // nothing on the others.  All must call it.
  std::vector<std::string> gather(const std::string& text,
                                  std::chrono::seconds patience = std::chrono::hours(24));
  // From one process to another, in order.  Up to 1 GiB; of longer ones the beginning.
  void send(int to, const std::string& text);
  // Sleeps until there is something: MPI's own waiting takes all of a core.
  std::string receive(int from);
  // Nothing: there was nothing for so long.
  std::optional<std::string> receive_within(int from, std::chrono::seconds patience);
  // All must call it; nothing else after that.
  void finish();
  // Instead of that where one does not answer: ends all, with this exit status of the launcher.
  void abort(int status);

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
    int (*abort)(Handle, int);
    bool is_whole() const {
      return init && finalize && rank && size && send && receive && probe && abort;
    }
  };
  bool load();
  bool is_there(int from);
  std::string take(int from);

  Functions call_{};
  Handle world_ = nullptr;
  Handle byte_ = nullptr;
  void* ignore_status_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace traintrace
