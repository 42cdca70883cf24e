# Shared by the scripts of this folder and .ci/run; sourced, never run.
#
# What the project needs from Debian 12, in one place.  A row: what to try, then the package that has it.
# A tool that is already there from elsewhere is used as it is.
# shellcheck shell=bash
need_to_test=(
  "g++ --version|g++"
  "cmake --version|cmake"
  "ninja --version|ninja-build"
  "/usr/bin/python3 --version|python3"
  "header python3.11/Python.h|python3-dev"  # what its headers say is compared with our table of offsets
  "header gtest/gtest.h|libgtest-dev"
  "header benchmark/benchmark.h|libbenchmark-dev"
  "header fmt/format.h|libfmt-dev"
  "header CLI/CLI.hpp|libcli11-dev"
  "header nlohmann/json.hpp|nlohmann-json3-dev"
  "header re2/re2.h|libre2-dev"
  "header simdjson.h|libsimdjson-dev"
  "header zlib.h|zlib1g-dev"
  "header zstd.h|libzstd-dev"
  "header xxhash.h|libxxhash-dev"
  "header elfutils/libdwfl.h|libdw-dev"
  "header libelf.h|libelf-dev"
  "test -e /usr/lib/$(uname -m)-linux-gnu/libunwind.so.8|libunwind8"  # its stacks are compared with ours
)
need_to_compare=(  # what attach says beside what others see; tests without them are skipped
  "eu-stack --version|elfutils"
  "gdb --version|gdb"
  "mpirun --version|openmpi-bin"
  "heaptrack_print --version|heaptrack"  # opens what is exported for it
  "protoc --version|protobuf-compiler"   # decodes what is exported for Perfetto
)
need_to_alert=(  # checks the rules in docs/alerts; CI alone installs them, as they are services that start by themselves
  "promtool --version|prometheus"
  "amtool --version|prometheus-alertmanager"
  "prometheus-node-exporter --version|prometheus-node-exporter"
)
need_to_train=("test -x /usr/bin/torchrun|python3-torch")  # the example in PyTorch; the CPU is enough
need_to_show=(  # the page of --format=html in a browser; tests without them are skipped
  "node --version|nodejs"
  "npm --version|npm"
  "chromium --version|chromium"
)
need_to_bench=(  # the peers beside which costs are measured
  "lttng --version|lttng-tools"
  "header lttng/tracepoint.h|liblttng-ust-dev"
  "heaptrack --version|heaptrack"
  "valgrind --version|valgrind"
)
need_to_lint=(
  "clang++ --version|clang"
  "clang-format --version|clang-format"
  "clang-tidy --version|clang-tidy"
)

# The comment at the head of a script is its help.
case ${1:-} in
  -h | --help)
    sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"
    exit
    ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root" || exit 1
jobs=$(nproc)
export CTEST_OUTPUT_ON_FAILURE=1
# Where ccache is installed, another clone of the same sources finds what this one compiled.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros

say() { printf '== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

header() { [[ -e /usr/include/$1 || -e /usr/local/include/$1 || -e /usr/include/$(uname -m)-linux-gnu/$1 ]]; }

# The packages of those rows whose test fails.
missing() {
  local row
  for row in "$@"; do
    ${row%|*} >/dev/null 2>&1 </dev/null || echo "${row#*|}"
  done
}

# The packages that the page is built and tested with, as they are locked.  The page itself is committed: without a registry
# its tests are skipped and nothing else is missing.
set_up_page() {
  local web=$root/analyzer/page/web
  command -v npm >/dev/null || return 0
  [[ $web/node_modules/.package-lock.json -nt $web/package-lock.json ]] ||
    timeout 120 npm ci --prefix "$web" --no-fund --no-audit --loglevel=error >/dev/null 2>&1 ||
    say "npm ci did not succeed in analyzer/page/web: the tests of the page are skipped"
}

# set_up ROW..: installs what is missing, or says that nothing is.
set_up() {
  local packages as_root=()
  mapfile -t packages < <(missing "$@")
  if ((${#packages[@]} == 0)); then
    say "set-up: nothing to install"
    return
  fi
  command -v apt-get >/dev/null || die "missing: ${packages[*]} (Debian's names); there is no apt-get here, install them yourself"
  if ((EUID != 0)); then
    sudo -n true 2>/dev/null || die "missing: ${packages[*]}; to install them run this once as root or with sudo without password"
    as_root=(sudo -n env)
  fi
  say "set-up: installing from Debian: ${packages[*]}"
  [[ " ${packages[*]} " != *" python3-torch "* ]] || say "set-up: PyTorch is 150 MB to download and 650 MB on disk"
  "${as_root[@]}" apt-get update -q || say "set-up: 'apt-get update' failed, trying with the package lists that are here"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${packages[@]}" </dev/null || die "apt-get could not install: ${packages[*]}"
  mapfile -t packages < <(missing "$@")
  ((${#packages[@]} == 0)) || die "installed, but still not usable: ${packages[*]}"
}

# build_preset PRESET [option of cmake ..]: configures once (ninja does it again by itself), then builds all, or what
# the array build_targets says.
build_targets=(all)
build_preset() {
  local preset=$1 folder=build-$1
  shift
  [[ $preset != dev ]] || folder=build
  if [[ ! -e $folder/build.ninja || $# -gt 0 ]]; then
    say "configuring $folder"
    cmake --preset "$preset" "$@" || die "configuration failed (above).  CUDA or NCCL headers elsewhere?  Say" \
      "-DTT_CUDA_INCLUDE=FOLDER -DTT_NCCL_INCLUDE=FOLDER, or set CUDA_PATH"
  fi
  say "building $folder"
  cmake --build "$folder" --parallel "$jobs" --target "${build_targets[@]}" || die "the build of $folder failed (above)"
}

# GCC 12's sanitizers do not start where the kernel randomises addresses in more than 28 bits.
fixed_addresses() {
  if (($(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || echo 28) > 28)) && setarch -R true 2>/dev/null; then
    setarch -R "$@"
  else
    "$@"
  fi
}

# run_tests FOLDER [argument of ctest ..]: runs them, several side by side.  Up to eight that fail are run once more with
# nothing beside them, to tell what fails always from what fails now and then (UNSTABLE, which .ci/run repeats at its
# end, and which is no failure: a shared machine exceeds any time limit).  Most of these so far were defects all the same.
run_tests() {
  local folder=$1 under=() log failed
  [[ $folder == build ]] || under=(fixed_addresses)
  log=$folder/Testing/Temporary/LastTestsFailed.log
  shift
  rm -f "$log"
  # They wait for most of the time, for what is hung to be hung for long enough: 0.3 of a processor each.  With sanitizers few wait.
  local beside=$((3 * jobs))
  [[ $folder == build ]] || beside=$((2 * jobs))
  "${under[@]}" ctest --test-dir "$folder" --parallel "$beside" --no-tests=error "$@" </dev/null && return
  if [[ -s $log ]] && (($(wc -l <"$log") <= 8)); then
    failed=$(cut -d: -f2 "$log" | paste -sd ' ')
    say "once more, alone: $failed"
    if "${under[@]}" ctest --test-dir "$folder" --rerun-failed --no-tests=error </dev/null; then
      say "UNSTABLE: failed beside others, passed alone: $failed"
      return 0
    fi
  fi
  return 1
}
